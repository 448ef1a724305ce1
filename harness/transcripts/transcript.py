"""Trajectory to transcript: the Path and Answer texts that a judge reads.

Pure. A transcript holds nothing that tells rollouts apart but what they did: no id, call id, time, duration,
model name or role. Equal behaviour therefore gives equal text and an equal hash.

A transcript that does not fit its budget is shortened. Texts lose their middle, the longest first and down to one
common length: tool outputs (and errors), then reasoning, then inputs, then the path as a whole, and the answer last
of all. Each cut says how many characters are missing.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from harness.core.records import Step, Trajectory
from harness.transcripts.clean_text import clean
from harness.transcripts.cuts import largest_that_fits, middle_out
from harness.transcripts.path_text import Limits, longest_field, path_text
from harness.transcripts.tokens import TokenBudget

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


def transcribe(trajectory: Trajectory, budget: TokenBudget | None = None) -> Transcript:
    """Write a trajectory out as a transcript, cut to fit `budget`."""
    path, answer = path_text(trajectory.path, {}), clean(trajectory.answer).strip()
    if budget is None or budget.holds(path, answer):
        return Transcript(path, answer)
    return _cut_steps(trajectory.path, answer, budget)


def _cut_steps(steps: Sequence[Step], answer: str, budget: TokenBudget) -> Transcript:
    """Cut one kind of field after the other; if that is not enough, cut the path as a whole."""
    limits: Limits = {}
    for names in _CUT_ORDER:
        shorter = _cut_fields(steps, names, limits, answer, budget)
        if shorter is not None:
            return Transcript(shorter, answer, cut=True)
        limits = {**limits, **dict.fromkeys(names, _LEAST)}
    return _cut_whole(path_text(steps, limits), answer, budget)


def _cut_fields(
    steps: Sequence[Step], names: Sequence[str], limits: Limits, answer: str, budget: TokenBudget
) -> str | None:
    """Return the path with the fields `names` cut as little as the budget allows; None where that does not suffice."""

    def path_at(limit: int) -> str:
        return path_text(steps, {**limits, **dict.fromkeys(names, limit)})

    longest = max(_LEAST, min(longest_field(steps, names), _DENSEST * budget.tokens))
    limit = largest_that_fits(lambda limit: budget.holds(path_at(limit), answer), _LEAST, longest)
    return None if limit is None else path_at(limit)


def _cut_whole(path: str, answer: str, budget: TokenBudget) -> Transcript:
    """Cut the path as a whole beside the whole answer; where there is no room for that, cut the answer too."""
    shorter_path = _cut_text(path, budget, beside=answer)
    if shorter_path is not None:
        return Transcript(shorter_path, answer, cut=True)
    share = TokenBudget(budget.tokens // _PATH_SHARE, budget.count)
    shorter_path = _cut_text(path, share) or middle_out(path, 0)
    shorter_answer = _cut_text(answer, budget, beside=shorter_path) or middle_out(answer, 0)
    return Transcript(shorter_path, shorter_answer, cut=True, answer_cut=shorter_answer != answer)


def _cut_text(text: str, budget: TokenBudget, beside: str = "") -> str | None:
    """Return `text` cut as little as the budget allows beside another text; None where nothing of it fits."""
    most = min(len(text), _DENSEST * budget.tokens)
    keep = largest_that_fits(lambda keep: budget.holds(middle_out(text, keep), beside), 0, most)
    return None if keep is None else middle_out(text, keep)
