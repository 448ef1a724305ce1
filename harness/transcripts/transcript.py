"""Trajectory to transcript: the Path and Answer texts that a judge reads.

Pure. A transcript holds nothing that tells rollouts apart but what they did: no id, call id, time, duration,
model name or role. Equal behaviour therefore gives equal text and an equal hash.

A transcript that does not fit its budget is shortened. Texts lose their middle, the longest first and down to one
common length: tool outputs (and errors), then reasoning, then inputs, then the path as a whole, and the answer last
of all. Each cut says how many characters are missing.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from pydantic import JsonValue

from harness.core.errors import UsageError
from harness.core.records import Trajectory
from harness.transcripts.path_text import (
    Limits,
    cut_text,
    largest_that_fits,
    lines_out,
    longest_field,
    path_text,
    plain_steps,
    plain_text,
)
from harness.transcripts.tokens import ESTIMATE, TokenBudget, transcript_budget

RENDERING = 2
"""The number of the rendering: it goes up when transcripts are written in another way. Records name theirs."""

_CUT_ORDER = (("tool_output", "error"), ("reasoning",), ("tool_input",))
"""The fields of a step that are cut, in this order."""
_LEAST = 200
"""Characters that a text within a path keeps, however tight the budget; beyond that the path is cut as a whole."""
_PATH_SHARE = 10
"""One part in this many of the budget stays with the path where the answer alone would fill the budget."""
_DENSEST = 16
"""Characters a token that a cut text is at most tried with: keeps the work small, whatever a tool printed."""


@dataclass(frozen=True)
class Transcript:
    """Path and answer as text, and the sha256 of both."""

    path: str
    answer: str
    cut: bool = field(default=False, compare=False)
    """Something was cut to fit a budget; the text says where."""
    answer_cut: bool = field(default=False, compare=False)
    """The answer was cut, so that a verdict on the answer holds only for what is left of it."""

    @cached_property
    def hash(self) -> str:
        """The sha256 (hex) of path and answer, each preceded by its length, so that no text can pose as the other."""
        whole = f"{len(self.path)}\n{self.path}\n{len(self.answer)}\n{self.answer}"
        return hashlib.sha256(whole.encode()).hexdigest()


@dataclass(frozen=True)
class TranscriptForm:
    """How trajectories become transcripts: the most that each may take (None: no limit)."""

    budget: TokenBudget | None = None

    def __call__(self, trajectory: Trajectory) -> Transcript:
        """Write a trajectory out."""
        return transcribe(trajectory, self.budget)


def recorded_form(settings: Mapping[str, JsonValue], judge: Mapping[str, JsonValue], rendering: int) -> TranscriptForm:
    """Return how transcripts were made for a ranking, by what its header states. Raises as `check_rendering`."""
    check_rendering(rendering)
    both = settings.get("judge_budget")  # rankings older than the setting had no limit
    counter = str(judge.get("counter", ESTIMATE))
    return TranscriptForm(transcript_budget(both if isinstance(both, int) else 0, counter))


def check_rendering(number: int) -> None:
    """Raise UsageError for a rendering that only a later version has."""
    if number > RENDERING:
        raise UsageError(
            f"the transcripts are written in way {number}, and this version of arena-harness has only {RENDERING}: "
            "use the version that made the ranking"
        )


def transcribe(trajectory: Trajectory, budget: TokenBudget | None = None) -> Transcript:
    """Write a trajectory out as a transcript, cut to fit `budget`."""
    steps, answer = plain_steps(trajectory.path), plain_text(trajectory.answer)
    path = path_text(steps, {})
    if budget is None or budget.holds(path, answer):
        return Transcript(path, answer)

    def path_at(limits: Limits, names: Sequence[str], limit: int) -> str:
        return path_text(steps, {**limits, **dict.fromkeys(names, limit)})

    limits: Limits = {}
    for names in _CUT_ORDER:
        longest = longest_field(steps, names)
        if (shorter := _shortened(partial(path_at, limits, names), _LEAST, longest, budget, answer)) is not None:
            return Transcript(shorter, answer, cut=True)
        limits = {**limits, **dict.fromkeys(names, _LEAST)}
    path = path_text(steps, limits)
    if (shorter := _shortened(partial(lines_out, path), 0, len(path), budget, answer)) is not None:
        return Transcript(shorter, answer, cut=True)
    share = TokenBudget(budget.tokens // _PATH_SHARE, budget.count)
    shorter = _shortened(partial(lines_out, path), 0, len(path), share) or lines_out(path, 0)
    rest = _shortened(partial(cut_text, answer), 0, len(answer), budget, shorter) or cut_text(answer, 0)
    return Transcript(shorter, rest, cut=True, answer_cut=rest != answer)


def _shortened(cut: Callable[[int], str], low: int, high: int, budget: TokenBudget, beside: str = "") -> str | None:
    """Cut as little as the budget allows beside another text, to `low` characters at least; None where none fits."""
    high = max(low, min(high, _DENSEST * budget.tokens))
    keep = largest_that_fits(lambda keep: budget.holds(cut(keep), beside), low, high)
    return None if keep is None else cut(keep)
