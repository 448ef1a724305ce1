"""Trajectory to transcript: the Path and Answer texts that a judge reads.

Pure. A transcript holds nothing that tells rollouts apart but what they did: no id, call id, time, duration,
model name or role. Equal behaviour therefore gives equal text and an equal hash.

A transcript that does not fit its budget is shortened. Texts lose their middle, the longest first and down to one
common length: tool outputs (and errors), then reasoning, then inputs, then the path as a whole, and the answer last
of all. Each cut says how many characters are missing.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pydantic import JsonValue

from harness.core.records import Step, Trajectory
from harness.transcripts.cuts import largest_that_fits
from harness.transcripts.path_text import Limits, longest_field
from harness.transcripts.renderings import RENDERING, Rendering, rendering_of
from harness.transcripts.tokens import TokenBudget, recorded_budget

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
    rendering: int = field(default=RENDERING, compare=False)
    """The way in which it is written."""

    @cached_property
    def hash(self) -> str:
        """The sha256 (hex) of path and answer, each preceded by its length, so that no text can pose as the other."""
        whole = f"{len(self.path)}\n{self.path}\n{len(self.answer)}\n{self.answer}"
        return hashlib.sha256(whole.encode()).hexdigest()


@dataclass(frozen=True)
class TranscriptForm:
    """How trajectories become transcripts: the most that each may take (None: no limit), and the way of writing."""

    budget: TokenBudget | None = None
    rendering: int = RENDERING

    def __call__(self, trajectory: Trajectory) -> Transcript:
        """Write a trajectory out. Raises UsageError for an unknown rendering."""
        return transcribe(trajectory, self.budget, self.rendering)


def recorded_form(settings: Mapping[str, JsonValue], judge: Mapping[str, JsonValue], rendering: int) -> TranscriptForm:
    """Return how transcripts were made for a ranking, by what its header states."""
    return TranscriptForm(recorded_budget(settings, judge), rendering)


def transcribe(trajectory: Trajectory, budget: TokenBudget | None = None, rendering: int = RENDERING) -> Transcript:
    """Write a trajectory out as a transcript, cut to fit `budget`. Raises UsageError for an unknown rendering."""
    way = rendering_of(rendering)
    steps, answer = way.steps(trajectory.path), way.answer(trajectory.answer)
    path = way.path(steps, {})
    if budget is None or budget.holds(path, answer):
        return Transcript(path, answer, rendering=rendering)
    return replace(_Cutter(way, steps, answer, budget).transcript(), rendering=rendering)


@dataclass(frozen=True)
class _Cutter:
    """A transcript that does not fit its budget."""

    way: Rendering
    steps: Sequence[Step]
    answer: str
    budget: TokenBudget

    def transcript(self) -> Transcript:
        """Cut one kind of field after the other; if that is not enough, cut the path as a whole."""
        limits: Limits = {}
        for names in _CUT_ORDER:
            shorter = self._cut_fields(names, limits)
            if shorter is not None:
                return Transcript(shorter, self.answer, cut=True)
            limits = {**limits, **dict.fromkeys(names, _LEAST)}
        return self._cut_whole(self.way.path(self.steps, limits))

    def _cut_fields(self, names: Sequence[str], limits: Limits) -> str | None:
        """Return the path with the fields `names` cut as little as may be; None where that does not suffice."""

        def path_at(limit: int) -> str:
            return self.way.path(self.steps, {**limits, **dict.fromkeys(names, limit)})

        longest = max(_LEAST, min(longest_field(self.steps, names), _DENSEST * self.budget.tokens))
        limit = largest_that_fits(lambda limit: self.budget.holds(path_at(limit), self.answer), _LEAST, longest)
        return None if limit is None else path_at(limit)

    def _cut_whole(self, path: str) -> Transcript:
        """Cut the path as a whole beside the whole answer; where there is no room for that, cut the answer too."""
        answer, budget, cut_path, cut_answer = self.answer, self.budget, self.way.cut_path, self.way.cut_answer
        shorter_path = _cut_text(path, cut_path, budget, beside=answer)
        if shorter_path is not None:
            return Transcript(shorter_path, answer, cut=True)
        share = TokenBudget(budget.tokens // _PATH_SHARE, budget.count)
        shorter_path = _cut_text(path, cut_path, share) or cut_path(path, 0)
        shorter_answer = _cut_text(answer, cut_answer, budget, beside=shorter_path) or cut_answer(answer, 0)
        return Transcript(shorter_path, shorter_answer, cut=True, answer_cut=shorter_answer != answer)


def _cut_text(text: str, cut: Callable[[str, int], str], budget: TokenBudget, beside: str = "") -> str | None:
    """Return `text` cut as little as the budget allows beside another text; None where nothing of it fits."""
    most = min(len(text), _DENSEST * budget.tokens)
    keep = largest_that_fits(lambda keep: budget.holds(cut(text, keep), beside), 0, most)
    return None if keep is None else cut(text, keep)
