"""Transcripts: what a judge reads of a trajectory, and how many tokens that takes. Pure."""

from harness.transcripts.render import Budget, Transcript, clean, transcribe, valid_unicode
from harness.transcripts.tokens import ESTIMATE, counter_for, is_at_hand, recorded_budget, transcript_budget

__all__ = [
    "ESTIMATE",
    "Budget",
    "Transcript",
    "clean",
    "counter_for",
    "is_at_hand",
    "recorded_budget",
    "transcribe",
    "transcript_budget",
    "valid_unicode",
]
