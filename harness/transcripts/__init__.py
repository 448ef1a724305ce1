"""Transcripts: what a judge reads of a trajectory, and how many tokens that takes. Pure."""

from harness.transcripts.clean_text import clean
from harness.transcripts.tokens import (
    ESTIMATE,
    TokenBudget,
    counter_for,
    is_at_hand,
    recorded_budget,
    transcript_budget,
)
from harness.transcripts.transcript import Transcript, transcribe

__all__ = [
    "ESTIMATE",
    "TokenBudget",
    "Transcript",
    "clean",
    "counter_for",
    "is_at_hand",
    "recorded_budget",
    "transcribe",
    "transcript_budget",
]
