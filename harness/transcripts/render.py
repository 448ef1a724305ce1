"""Trajectory to transcript: the Path and Answer texts that a judge reads.

Pure. A transcript holds nothing that tells rollouts apart but what they did: no id, call id, time, duration,
model name or role, so that equal behaviour gives equal text and an equal hash.

Where a transcript does not fit its budget, texts lose their middle, the longest first and down to one common length:
tool outputs (and errors), then reasoning, then inputs, then the path as a whole, and the answer last of all. Each cut
says how many characters are missing.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from harness.core.records import Step, Trajectory

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LONE = re.compile("[\ud800-\udfff]")
_FIELDS = (("tool_output", "error"), ("reasoning",), ("tool_input",))
"""What is cut, in this order."""
_LEAST = 200
"""Characters that a text within a path keeps, however tight the budget; beyond that the path is cut as a whole."""
_PATH_SHARE = 10
"""One part in this many of the budget stays with the path where the answer alone would fill it."""
_DENSEST = 16
"""Characters a token that a cut text is at most tried with: keeps the work small, whatever a tool printed."""
_PIECE = 4000
"""Characters counted at a time: a tokenizer's time, and its stack, can grow with the square of a text's length."""

Count = Callable[[str], int]
"""Tells how many tokens a text takes."""


@dataclass(frozen=True)
class Budget:
    """The tokens that one transcript may take, and how they are counted."""

    tokens: int
    count: Count

    def holds(self, *texts: str) -> bool:
        """Tell whether the texts fit; counting ends as soon as they do not."""
        left = self.tokens
        for text in texts:
            for at in range(0, len(text), _PIECE):
                left -= self.count(text[at : at + _PIECE])
                if left < 0:
                    return False
        return True


@dataclass(frozen=True)
class Transcript:
    """Path and answer as text, and the sha256 of both."""

    path: str
    answer: str
    cut: bool = field(default=False, compare=False)
    """Something was cut to fit a budget; the text says where."""
    answer_cut: bool = field(default=False, compare=False)
    """The answer itself was cut: what is said of it holds for what was left."""

    @cached_property
    def hash(self) -> str:
        """The sha256 (hex) of path and answer, each preceded by its length, so that no text can pose as the other."""
        whole = f"{len(self.path)}\n{self.path}\n{len(self.answer)}\n{self.answer}"
        return hashlib.sha256(whole.encode()).hexdigest()


def valid_unicode(text: str) -> str:
    """Return `text` with U+FFFD for lone surrogates, which no UTF-8 can hold."""
    return _LONE.sub("\ufffd", text)


def clean(text: str) -> str:
    """Return `text` as valid Unicode on plain lines: lone surrogates become U+FFFD, control characters go."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", valid_unicode(text))


def estimate_tokens(text: str) -> int:
    """Estimate tokens as UTF-8 bytes / 4, rounded up: 4 characters of English a token, 2 of Cyrillic, 4/3 of CJK."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def transcribe(trajectory: Trajectory, budget: Budget | None = None) -> Transcript:
    """Render a trajectory, cut to fit `budget`. Agents are named only where more than one took part."""
    answer = clean(trajectory.answer).strip()
    path = _path(trajectory.path, {})
    if budget is None or budget.holds(path, answer):
        return Transcript(path, answer)
    caps: dict[str, int] = {}
    for names in _FIELDS:
        longest = min(_longest(trajectory.path, names), _DENSEST * budget.tokens)

        def shown(cap: int, names: tuple[str, ...] = names, before: Mapping[str, int] = caps) -> str:
            return _path(trajectory.path, {**before, **dict.fromkeys(names, cap)})

        fits = _largest(lambda cap, shown=shown: budget.holds(shown(cap), answer), _LEAST, longest)
        if fits is not None:
            return Transcript(shown(fits), answer, cut=True)
        caps = caps | dict.fromkeys(names, _LEAST)
    return _last_resort(_path(trajectory.path, caps), answer, budget)


def middle_out(text: str, keep: int) -> str:
    """Return `text` with all but `keep` characters taken out of its middle and the number of them put there.

    A text that the mark would make no shorter stays whole.
    """
    missing = len(text) - keep
    mark = f"[… {missing:,} characters cut …]"
    if missing <= len(mark):
        return text
    tail = keep // 2
    return text[: keep - tail] + mark + text[len(text) - tail :]


def _last_resort(path: str, answer: str, budget: Budget) -> Transcript:
    """Cut the path as a whole beside the whole answer; where there is no room for that, the answer too."""
    most = _DENSEST * budget.tokens

    def cut_path(within: Budget, *beside: str) -> str | None:
        keep = _largest(lambda n: within.holds(middle_out(path, n), *beside), 0, min(len(path), most))
        return None if keep is None else middle_out(path, keep)

    if (short := cut_path(budget, answer)) is not None:
        return Transcript(short, answer, cut=True)
    share = Budget(budget.tokens // _PATH_SHARE, budget.count)
    short = cut_path(share) or middle_out(path, 0)
    keep = _largest(lambda n: budget.holds(short, middle_out(answer, n)), 0, min(len(answer), most)) or 0
    left = middle_out(answer, keep)
    return Transcript(short, left, cut=True, answer_cut=left != answer)


def _largest(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the largest number from `low` to `high` that fits, by halving; None if not even `low` does."""
    if not fits(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _longest(steps: tuple[Step, ...], names: tuple[str, ...]) -> int:
    own = [len(getattr(s, name) or "") for s in steps for name in names]
    return max([_LEAST, *own, *(_longest(s.inner, names) for s in steps)])


def _path(steps: tuple[Step, ...], caps: Mapping[str, int]) -> str:
    named = len({s.agent for s in steps if s.agent}) > 1
    shown = [_step(i, _capped(step, caps), named=named) for i, step in enumerate(steps, 1)]
    return clean("\n\n".join(shown)) or "(no steps)"


def _capped(step: Step, caps: Mapping[str, int]) -> Step:
    if not caps:
        return step
    told = {name: middle_out(clean(text), cap) for name, cap in caps.items() if (text := getattr(step, name))}
    return step.model_copy(update=told | {"inner": tuple(_capped(s, caps) for s in step.inner)})


def _step(number: int, step: Step, *, named: bool) -> str:
    agent = f" by {step.agent}" if named and step.agent else ""
    lines = [f"Step {number} ({step.kind}{agent})"]
    if step.reasoning:
        lines.append(f"Reasoning: {step.reasoning.strip()}")
    if step.tool_name:
        kind = {"hosted": " (hosted)", "mcp": f" (MCP server {step.server})"}.get(step.tool_type or "", "")
        lines.append(f"Tool: {step.tool_name}{kind}")
    if step.tool_input is not None:
        lines.append(f"Input: {step.tool_input.strip()}")
    for at, inner in enumerate(step.inner, 1):
        lines += ["  " + line for line in _step(at, inner, named=True).split("\n")]
    if step.tool_output is not None:
        lines.append(f"Output:\n{step.tool_output.strip()}")
    if step.error:
        lines.append(f"Error: {step.error.strip()}")
    return "\n".join(lines)
