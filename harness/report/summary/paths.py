"""Two paths side by side: where they part, and which step of one answers to which step of the other."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.core.records import Step

_MOST_CELLS = 4_000_000
"""Of the table that finds the longest common subsequence: two paths of 2,000 steps. Longer ones stand as they come."""

Key = tuple[str, ...]
StepPair = tuple[int | None, int | None]
"""Where a step stands in A's path and in B's, from 0; None where the other has no such step."""


@dataclass(frozen=True)
class ToolCall:
    """A tool call of a path: the step's number, from 1, the tool, and what it was given."""

    step: int
    tool: str
    input: str | None


@dataclass(frozen=True)
class Parting:
    """The first tool call that differs: what each side did there. None: that side had made its last call."""

    call: int
    """Which of the tool calls, from 1."""
    a: ToolCall | None
    b: ToolCall | None
    before: ToolCall | None
    """A's call before, which B made as well; None where the very first differs."""

    def as_json(self) -> dict[str, Any]:
        """Return what `harness why --json` has as `first_parting`."""
        return {"call": self.call, "a": self.a and asdict(self.a), "b": self.b and asdict(self.b)}


def first_parting(a: Sequence[Step], b: Sequence[Step]) -> Parting | None:
    """Return the first tool call, or handoff, in which two paths differ by name or input; None if they never do."""
    ours, theirs = list(_tool_calls(a)), list(_tool_calls(b))
    same = _same_at_the_start([key for key, _ in ours], [key for key, _ in theirs])
    if same == len(ours) == len(theirs):
        return None
    calls = [calls[same][1] if same < len(calls) else None for calls in (ours, theirs)]
    return Parting(call=same + 1, a=calls[0], b=calls[1], before=ours[same - 1][1] if same else None)


def _tool_calls(path: Sequence[Step]) -> Iterator[tuple[Key, ToolCall]]:
    for number, step in enumerate(path, 1):
        if _is_call(step):
            yield step_key(step), ToolCall(number, step.tool_name or step.kind, step.tool_input)


def _is_call(step: Step) -> bool:
    return step.kind in {"tool", "handoff"}


def step_key(step: Step) -> Key:
    """Return what makes two steps the same: tool name and input; without a tool, the kind."""
    if not _is_call(step):
        return (step.kind,)
    return (step.kind, step.tool_name or "", _as_given(step.tool_input or ""))


def _as_given(text: str) -> str:
    """Return a tool's input in one form: JSON without the spaces and the order of whoever wrote it."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text.strip()


def aligned_steps(a: Sequence[Step], b: Sequence[Step]) -> list[StepPair]:
    """Return steps in order: those of a longest common subsequence side by side; in it tool calls weigh most."""
    keys = [step_key(step) for step in a], [step_key(step) for step in b]
    start = _same_at_the_start(*keys)
    end = _same_at_the_start(keys[0][start:][::-1], keys[1][start:][::-1])
    common = _common(keys[0][start : len(a) - end], keys[1][start : len(b) - end])
    both = [*((i, i) for i in range(start)), *((i + start, j + start) for i, j in common)]
    both += [(len(a) - end + i, len(b) - end + i) for i in range(end)]
    places: list[StepPair] = []
    i = j = 0
    for k, m in [*both, (len(a), len(b))]:
        places += [*((at, None) for at in range(i, k)), *((None, at) for at in range(j, m)), (k, m)]
        i, j = k + 1, m + 1
    return places[:-1]


def _same_at_the_start(a: Sequence[Key], b: Sequence[Key]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _common(a: Sequence[Key], b: Sequence[Key]) -> list[tuple[int, int]]:
    """Return the places of a longest common subsequence, by weight; nothing for paths too long to compare."""
    if not a or not b or len(a) * len(b) > _MOST_CELLS:
        return []
    call = min(len(a), len(b)) + 1
    weights = [1 if len(key) == 1 else call for key in a]
    best = [[0] * (len(b) + 1)]
    for key, weight in zip(reversed(a), reversed(weights), strict=True):
        below, row = best[-1], [0] * (len(b) + 1)
        for j in range(len(b) - 1, -1, -1):
            row[j] = max(below[j], row[j + 1], below[j + 1] + weight if key == b[j] else 0)
        best.append(row)
    best.reverse()
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j] and best[i][j] == best[i + 1][j + 1] + weights[i]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs
