"""Transcripts: what a judge reads of a trajectory, and how many tokens that takes. Pure."""

from typing import TYPE_CHECKING

from harness.core.lazy_door import lazy_names

if TYPE_CHECKING:
    from harness.transcripts.clean_text import clean, hidden_marks, legible, without_marks
    from harness.transcripts.path_text import plain_text
    from harness.transcripts.renderings import RENDERING, is_rendering, rendering_of
    from harness.transcripts.tokens import (
        ESTIMATE,
        counter_for,
        is_at_hand,
        transcript_budget,
    )
    from harness.transcripts.transcript import Transcript, TranscriptForm, recorded_form
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "clean_text": "clean hidden_marks legible without_marks",
            "path_text": "plain_text",
            "renderings": "RENDERING is_rendering rendering_of",
            "tokens": "ESTIMATE counter_for is_at_hand transcript_budget",
            "transcript": "Transcript TranscriptForm recorded_form",
        },
    )

__all__ = [
    "ESTIMATE",
    "RENDERING",
    "Transcript",
    "TranscriptForm",
    "clean",
    "counter_for",
    "hidden_marks",
    "is_at_hand",
    "is_rendering",
    "legible",
    "plain_text",
    "recorded_form",
    "rendering_of",
    "transcript_budget",
    "without_marks",
]
