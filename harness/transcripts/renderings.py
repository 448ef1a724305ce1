"""The ways in which transcripts are and were written, by number. A ranking's header names its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.core.errors import UsageError
from harness.core.records import Step
from harness.transcripts import path_text, rendering_1
from harness.transcripts.clean_text import clean, legible
from harness.transcripts.cuts import lines_out, middle_out

RENDERING = 2
"""The way in which transcripts are written now."""


@dataclass(frozen=True)
class Rendering:
    """One way of writing a transcript, and the task beside it."""

    text: Callable[[str], str]
    """Makes a text of the task fit to be shown: the query, the brief, the reference."""
    answer: Callable[[str], str]
    steps: Callable[[Sequence[Step]], Sequence[Step]]
    """Makes steps ready for `path`."""
    path: Callable[[Sequence[Step], path_text.Limits], str]
    cut_path: Callable[[str, int], str]
    """Shortens a path as a whole to so many characters."""
    cut_answer: Callable[[str, int], str]


_RENDERINGS = {
    1: Rendering(
        text=clean,
        answer=rendering_1.clean_answer,
        steps=lambda steps: steps,
        path=rendering_1.bare_path,
        cut_path=middle_out,
        cut_answer=middle_out,
    ),
    2: Rendering(
        text=legible,
        answer=path_text.plain_text,
        steps=path_text.plain_steps,
        path=path_text.path_text,
        cut_path=lines_out,
        cut_answer=path_text.cut_text,
    ),
}


def rendering_of(number: int) -> Rendering:
    """Return a way of writing by its number. Raises UsageError for one that only a later version has."""
    if not is_rendering(number):
        raise UsageError(
            f"the transcripts are written in way {number}, and this version of arena-harness has only "
            f"{' and '.join(map(str, _RENDERINGS))}: use the version that made the ranking"
        )
    return _RENDERINGS[number]


def is_rendering(number: int) -> bool:
    """Return whether this version can write in the way of that number."""
    return number in _RENDERINGS
