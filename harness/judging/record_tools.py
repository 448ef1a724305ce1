"""The tools of a judge that is an agent: the whole records of both sides, and the files that they left.

All is looked up in records of the archive. No tool opens a file of this machine, follows a link, writes, or asks a
server; none has an argument that could name anything outside of the sides. What a rollout wrote is data.
"""

import base64
import copy
import difflib
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial, wraps
from typing import Any

from agents import AgentOutputSchemaBase, FunctionTool, ModelBehaviorError, function_tool

from harness.core.errors import ArchiveDamaged
from harness.core.records import Trajectory
from harness.core.workspace_files import ChangedFile
from harness.judging.judge_model import Question
from harness.judging.prompt import ListPrompt, Task
from harness.judging.reply import ReplyError, read_reply, read_scores
from harness.transcripts.clean_text import legible
from harness.transcripts.transcript import path_text, plain_steps, plain_text

_PAGE = 20_000
"""Characters that a tool gives at a time."""
_AROUND = 200
_MOST_HITS = 20
_LONGEST_DIFF = 2_000
"""Lines of a text of which a diff is made: its time grows with their square."""

Sides = Mapping[str, Trajectory]
"""What was done, by the name under which the judge knows it."""


@dataclass(frozen=True)
class RecordTools:
    """What the tools say of the sides of one question; `get` finds a kept text."""

    sides: Sides
    asked: Task
    get: Callable[[str], str]

    def read_step(self, side: str, n: int, start: int = 0) -> str:
        """Return step n of a side's path, whole, as steps are numbered in the transcript: from 1.

        Args:
            side: The side, such as A.
            n: The step's number.
            start: The character from which on to read.
        """
        if (record := self.sides.get(side)) is None:
            return self._no_side(side)
        steps = plain_steps(record.path)
        if not 1 <= n <= len(steps):
            return f"There is no step {n}: side {side} has {len(steps)}."
        return _page(path_text(steps[n - 1 : n], {}).replace("Step 1 ", f"Step {n} ", 1), start)

    def search_path(self, side: str, text: str) -> str:
        """Return where a text stands in a side's steps and answer, in upper or lower case.

        Args:
            side: The side, such as A.
            text: What to look for.
        """
        if (record := self.sides.get(side)) is None:
            return self._no_side(side)
        if not text.strip():
            return "Say what to look for."
        whole = [f"step {n}" for n in range(1, len(record.path) + 1)]
        texts = [path_text([step], {}) for step in plain_steps(record.path)]
        hits = list[str]()
        for place, within in zip((*whole, "the answer"), (*texts, plain_text(record.answer)), strict=True):
            at = within.lower().find(text.lower())
            while at >= 0:
                hits.append(f"{place}, character {at}: {within[max(0, at - _AROUND) : at + len(text) + _AROUND]}")
                at = within.lower().find(text.lower(), at + len(text))
                if len(hits) > _MOST_HITS:
                    return "\n\n".join([*hits[:_MOST_HITS], "There are more."])
        return "\n\n".join(hits) or "It stands nowhere."

    def list_files(self, side: str) -> str:
        """Return the files that a side made, changed or removed in its workspace.

        Args:
            side: The side, such as A.
        """
        if (record := self.sides.get(side)) is None:
            return self._no_side(side)
        return _page("\n".join(legible(file.heading) for file in record.files) or "It left no files.", 0)

    def read_file(self, side: str, path: str, start: int = 0) -> str:
        """Return what a file of a side's workspace holds in the end.

        Args:
            side: The side, such as A.
            path: The file, written as list_files has it.
            start: The character from which on to read.
        """
        text, fault = self._file(side, path)
        return fault or _page(text, start)

    def diff(self, a: str, b: str) -> str:
        """Return in which lines two texts differ.

        Args:
            a: A file as SIDE:PATH, such as A:table.csv; the side alone is its answer.
            b: The other, written alike.
        """
        texts = list[Sequence[str]]()
        for name in (a, b):
            side, colon, path = name.partition(":")
            record = self.sides.get(side)
            text, fault = self._file(side, path) if colon else (plain_text(record.answer) if record else "", "")
            if fault or record is None:
                return fault or self._no_side(side)
            lines = text.splitlines()
            if len(lines) > _LONGEST_DIFF:
                return f"{name} has {len(lines):,} lines, too many to compare: read both."
            texts.append(lines)
        return _page("\n".join(difflib.unified_diff(texts[0], texts[1], a, b, lineterm="")) or "They are the same.", 0)

    def task(self) -> str:
        """Return what both sides were asked: instructions, query, and the expected answer where it is known."""
        parts = {"Instructions": self.asked.brief, "Query": self.asked.query, "Expected": self.asked.reference}
        return _page("\n\n".join(f"{name}: {legible(text)}" for name, text in parts.items() if text), 0)

    def as_tools(self) -> list[FunctionTool]:
        """Return them as the SDK's."""
        return [self._bound(tool) for tool in _sdk_tools()]

    def _bound(self, tool: FunctionTool) -> FunctionTool:
        async def invoke(context: Any, arguments: str) -> Any:
            _AT_HAND.set(self)  # in the task of the call alone
            return await tool.on_invoke_tool(context, arguments)

        bound = copy.copy(tool)
        bound.on_invoke_tool = invoke
        return bound

    def _no_side(self, side: str) -> str:
        return f"There is no side {side!r}: there are {', '.join(self.sides)}."

    def _file(self, side: str, path: str) -> tuple[str, str]:
        """Return a file's text, or why there is none. Only what the record lists has a name here."""
        if (record := self.sides.get(side)) is None:
            return "", self._no_side(side)
        if (file := next((file for file in record.files if path in _names(file)), None)) is None:
            return "", f"Side {side} has no file {path!r}: list_files names its files."
        if file.link is not None or file.blob is None:
            why = "was removed" if file.change == "removed" else "is too large to be kept"
            return "", f"{path} {why if file.link is None else 'is a link, and nothing follows it'}."
        try:
            text = self.get(file.blob)
        except ArchiveDamaged:
            return "", f"The content of {path} is not at hand here."
        if file.binary:
            return "", f"{path} is no text: {file.size:,} bytes, which begin {base64.b64decode(text)[:32].hex(' ')}."
        return legible(text), ""


_AT_HAND = ContextVar[RecordTools]("record_tools_of_the_call")


@cache
def _sdk_tools() -> Sequence[FunctionTool]:
    """Return the SDK's tools, made once, since their schemas take milliseconds: they ask the tools at hand."""

    def asking(method: Callable[..., str]) -> Callable[..., str]:
        return wraps(method)(lambda *given: getattr(_AT_HAND.get(), method.__name__)(*given))  # noqa: PLW0108 - by call

    of = RecordTools({}, Task("", ""), str)
    whole: Sequence[Callable[..., str]] = (of.read_step, of.search_path, of.list_files, of.read_file, of.diff, of.task)
    return [function_tool(asking(method)) for method in whole]


def _names(file: ChangedFile) -> tuple[str, ...]:
    """Return what a file may be called: its path as it is, and as a judge reads it."""
    names = (file.path, legible(file.path))
    return tuple(f"workspace {file.workspace + 1}: {name}" for name in names) if file.workspace else names


def _page(text: str, start: int) -> str:
    start = min(max(0, start), len(text))
    left = len(text) - start - _PAGE
    more = f"\n[{left:,} characters more, from start={start + _PAGE} on]" if left > 0 else ""
    return text[start : start + _PAGE] + more


def tools_for(question: Question | None, get: Callable[[str], str]) -> list[FunctionTool]:
    """Return the tools for a question on a pair or a list; None: those of any, with nothing behind them."""
    if question is None:
        return RecordTools({}, Task("", ""), get).as_tools()
    if isinstance(question, ListPrompt):
        shown, asked = question.shown, question.about.task
    else:
        shown, asked = (("A", question.first), ("B", question.second)), question.task
    return RecordTools({name: t.record for name, t in shown if t.record}, asked, get).as_tools()


class VerdictSchema(AgentOutputSchemaBase):
    """A verdict as the output type of an agent. What does not hold one usable set of marks is an error of the model."""

    def __init__(self, question: Question) -> None:
        """Ask for the form that the question's rubric has."""
        self._schema = question.schema()
        read: Callable[[str], Any] = (
            partial(read_scores, ids=question.ids)
            if isinstance(question, ListPrompt)
            else partial(read_reply, rubric=question.rubric)
        )
        self._read = read

    def is_plain_text(self) -> bool:
        """Return False: it is JSON."""
        return False

    def name(self) -> str:
        """Return its name."""
        return "verdict"

    def json_schema(self) -> dict[str, Any]:
        """Return the rubric's strict JSON schema."""
        return self._schema

    def is_strict_json_schema(self) -> bool:
        """Return True."""
        return True

    def validate_json(self, json_str: str) -> str:
        """Return the text, which holds a verdict. Raises ModelBehaviorError where it does not."""
        try:
            self._read(json_str)
        except ReplyError as exc:
            raise ModelBehaviorError(f"the verdict cannot be used: {exc}") from None
        return json_str
