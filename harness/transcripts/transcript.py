"""Trajectory to transcript: the Path and Answer texts that a judge reads; no text inside a step can pose as a step.

Pure. A transcript holds nothing that tells rollouts apart but what they did: no id, call id, time, duration,
model name or role. Equal behaviour therefore gives equal text and an equal hash.

A transcript that does not fit its budget is shortened. Texts lose their middle, the longest first and down to one
common length: tool outputs (and errors), then reasoning, then inputs, then the path as a whole, and the answer last
of all. Each cut says how many characters are missing.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial

from harness.core.errors import UsageError
from harness.core.records import Step, Trajectory
from harness.core.unicode import mark_hidden, visible_name
from harness.core.workspace_files import ChangedFile, files_text
from harness.transcripts.clean_text import legible
from harness.transcripts.tokens import TokenBudget

_LOOKS_CUT = re.compile(r"\[\s?…([^\[\]\n]{0,80})…\s?\]")


def middle_out(text: str, keep: int) -> str:
    """Return `text` with all but `keep` characters taken out of its middle, and the number of them put there.

    Texts shorter than the cut mark are not cut.
    """
    missing = len(text) - keep
    mark = _mark(missing)
    if missing <= len(mark):
        return text
    tail = keep // 2
    return text[: keep - tail] + mark + text[len(text) - tail :]


def lines_out(text: str, keep: int) -> str:
    """Return `text` with whole lines taken out of its middle, and a line that says how many characters are missing.

    At most `keep` characters stay, so every line that stays begins as it began. Texts shorter than the cut mark are
    not cut.
    """
    if len(text) - keep <= len(_mark(len(text) - keep)):
        return text
    tail = keep // 2
    head_end = text.rfind("\n", 0, keep - tail + 1)
    tail_start = text.find("\n", len(text) - tail - 1) + 1
    head = text[:head_end] if head_end > 0 else ""
    rest = text[tail_start:] if tail_start > 0 else ""
    return "\n".join(filter(None, (head, _mark(len(text) - len(head) - len(rest)), rest)))


def _mark(missing: int) -> str:
    return f"[… {missing:,} characters cut …]"


def largest_that_fits(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the largest number from `low` to `high` that fits, by halving; None if not even `low` does."""
    if not fits(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


Limits = Mapping[str, int]
"""The most characters that a step's field may keep, by the field's name. Fields without a limit stay whole."""

_TEXTS = ("reasoning", "tool_input", "tool_output", "error")
_NAMES = ("agent", "tool_name", "server")
_NAME_LENGTH = 200
"""Characters that a name in a head or after a label keeps."""
_TOOL_LABELS = {"hosted": "Hosted tool", "mcp": "MCP tool"}


def plain_text(text: str) -> str:
    """Return a text of a path, or an answer, as it stands in a transcript before it is cut: only a cut looks like one.

    In what looks like the mark of a cut full stops stand for the ellipses.
    """
    plain = legible(text)
    return (_LOOKS_CUT.sub(r"[...\1...]", plain) if "…" in plain else plain).strip()


def plain_steps(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps with their texts and names as they stand in a transcript before it is cut."""
    made: list[Step] = []
    for step in steps:
        members, inner = step.__dict__, plain_steps(step.inner)
        plain = {name: make(text) for name, make in _MAKE_PLAIN.items() if (text := members[name]) is not None}
        is_plain = inner == step.inner and all(text == members[name] for name, text in plain.items())
        # nearly every one is plain: a copy takes longer than all else here
        made.append(step if is_plain else step.model_copy(update={**plain, "inner": inner}))
    return tuple(made)


def path_text(steps: Sequence[Step], limits: Limits) -> str:
    """Return plain steps as text. Agents are named only where more than one took part."""
    several_agents = len({s.agent for s in steps if s.agent}) > 1
    blocks = ("\n".join(_lines(i, s, limits, "", name_agent=several_agents)) for i, s in enumerate(steps, 1))
    return "\n\n".join(blocks) or "(no steps)"


def cut_text(text: str, keep: int) -> str:
    """Return a plain text cut to `keep` characters. A joiner that a cut parts from its letters is marked as hidden."""
    return mark_hidden(middle_out(text, keep))


def longest_field(steps: Sequence[Step], names: Sequence[str]) -> int:
    """Return the length of the longest text that the steps, and those inside them, hold under `names`."""
    lengths = [len(getattr(step, name) or "") for step in steps for name in names]
    lengths += [longest_field(step.inner, names) for step in steps]
    return max(lengths, default=0)


def _plain_name(name: str) -> str:
    return _short_name(name) if len(name) <= _NAME_LENGTH else cut_text(visible_name(plain_text(name)), _NAME_LENGTH)


@lru_cache(maxsize=1024)  # a run has few names, and each stands in many steps
def _short_name(name: str) -> str:
    return cut_text(visible_name(plain_text(name)), _NAME_LENGTH)


_MAKE_PLAIN = dict.fromkeys(_TEXTS, plain_text) | dict.fromkeys(_NAMES, _plain_name)
"""What makes each text of a step ready, by the name of its field."""


def _lines(number: int, step: Step, limits: Limits, margin: str, *, name_agent: bool) -> Iterator[str]:
    """Yield the lines of a step; every one begins with `margin`."""

    def field(label: str, name: str) -> Iterator[str]:
        text = getattr(step, name)
        text = cut_text(text, limits[name]) if name in limits else text
        first, *further = ["", *text.split("\n")] if "\n" in text else [text]
        yield f"{margin}{label}: {first}" if first else f"{margin}{label}:"
        for line in further:
            yield f"{margin}| {line}" if line else f"{margin}|"

    agent = f" by {step.agent}" if name_agent and step.agent else ""
    yield f"{margin}Step {number} ({step.kind}{agent})"
    if step.reasoning:
        yield from field("Reasoning", "reasoning")
    if step.tool_name:
        yield f"{margin}{_TOOL_LABELS.get(step.tool_type or '', 'Tool')}: {step.tool_name}"
    if step.tool_type == "mcp" and step.server:
        yield f"{margin}MCP server: {step.server}"
    if step.tool_input is not None:
        yield from field("Input", "tool_input")
    for at, inner in enumerate(step.inner, 1):
        yield from _lines(at, inner, limits, margin + "  ", name_agent=True)
    if step.tool_output is not None:
        yield from field("Output", "tool_output")
    if step.error:
        yield from field("Error", "error")


RENDERING, NEWEST_RENDERING = 1, 4
"""The number of the rendering: it goes up when transcripts are written in another way. Records name theirs.

2 and 4 have what became of the files of a workspace behind the answer, 3 and 4 what became of the answer's claims.
"""

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
    record: Trajectory | None = field(default=None, compare=False, repr=False)
    """What it was made of, uncut, where a judge may look into that."""

    @cached_property
    def hash(self) -> str:
        """The sha256 (hex) of path and answer, each preceded by its length, so that no text can pose as the other.

        Where there is a `record`, all that a judge finds in it counts as well.
        """
        parts = [self.path, self.answer]
        if self.record:
            files = "\n".join(file.model_dump_json() for file in self.record.files)
            parts += [path_text(plain_steps(self.record.path), {}), plain_text(self.record.answer), files]
        whole = "\n".join(f"{len(part)}\n{part}" for part in parts)
        return hashlib.sha256(whole.encode()).hexdigest()


def check_rendering(number: int) -> None:
    """Raise UsageError for a rendering that only a later version has."""
    if number > NEWEST_RENDERING:
        raise UsageError(
            f"the transcripts are written in way {number}, and this version of arena-harness has only "
            f"{NEWEST_RENDERING}: use the version that made the ranking"
        )


def transcribe(
    trajectory: Trajectory, budget: TokenBudget | None = None, files: Sequence[ChangedFile] = ()
) -> Transcript:
    """Write a trajectory out as a transcript, with `files` behind the answer, cut to fit `budget`."""
    steps, answer = plain_steps(trajectory.path), plain_text(trajectory.answer)
    if files:
        answer, files_cut = _with_files(answer, files, budget)
        shown = transcribe(trajectory.model_copy(update={"answer": answer}), budget)
        return replace(shown, cut=shown.cut or files_cut, answer_cut=shown.answer_cut or files_cut)
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


_FILES_SHARE = 3
"""One part in this many of the budget is for files, at most."""
_FILES = "Files: "
_LOOKS_LIKE_FILES = re.compile(rf"^(?=\W*{_FILES.strip()})", re.IGNORECASE | re.MULTILINE)


def _with_files(answer: str, files: Sequence[ChangedFile], budget: TokenBudget | None) -> tuple[str, bool]:
    """Return a plain answer with files behind it, and whether diffs were cut; nothing in the answer looks like them."""

    def at(keep: int) -> str:
        return _FILES + files_text(files, _plain_name, lambda diff: lines_out(plain_text(diff), keep))

    longest = max(len(plain_text(file.diff or "")) for file in files)
    text = whole = at(longest)
    share = budget and TokenBudget(budget.tokens // _FILES_SHARE, budget.count)
    if share and not share.holds(whole, ""):
        least = at(0)
        text = _shortened(at, 0, longest, share) or _shortened(partial(lines_out, least), 0, len(least), share) or ""
    quoted = _LOOKS_LIKE_FILES.sub("> ", answer)
    return f"{quoted}\n\n{text or lines_out(whole, 0)}".strip(), text != whole


def _shortened(cut: Callable[[int], str], low: int, high: int, budget: TokenBudget, beside: str = "") -> str | None:
    """Cut as little as the budget allows beside another text, to `low` characters at least; None where none fits."""
    high = max(low, min(high, _DENSEST * budget.tokens))
    keep = largest_that_fits(lambda keep: budget.holds(cut(keep), beside), low, high)
    return None if keep is None else cut(keep)
