"""Pairs of answers with the known better one, as files hold them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.core.errors import UsageError, on_a_line, quoted
from harness.core.user_files import text_lines
from harness.formats.json_values import csv_rows
from harness.transcripts.clean_text import legible
from harness.transcripts.transcript import Transcript, plain_text

_QUERY_KEYS = ("query", "prompt", "question", "input", "instruction")


def as_labelled(entry: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a preference with its sides named. Raises ValueError.

    The chosen answer is `a` in the odd lines and `b` in the even ones: a judge that always names one side is seen.
    """
    asked = [entry.get(key) for key in _QUERY_KEYS]
    asked += [entry["chosen"]] if isinstance(entry["chosen"], list) else []  # a whole conversation
    query = next((text for each in asked if (text := _asked(each))), None)
    if query is None:
        raise ValueError(f"no query under {' or '.join(_QUERY_KEYS)}")
    answers: list[Any] = []
    for name in ("chosen", "rejected"):
        is_talk = isinstance(entry[name], list)
        answers.append(_last(entry[name], "assistant") if is_talk else entry[name])
        if is_talk and answers[-1] is None:
            raise ValueError(f"{name}: its messages end with no text of the assistant's")
    chosen, rejected = answers
    sides = {"a": chosen, "b": rejected} if number % 2 else {"a": rejected, "b": chosen}
    return {"query": query, **sides, "label": "a" if number % 2 else "b", "class": entry.get("class") or "chosen"}


def _asked(value: Any) -> str | None:
    """Return a query: a text, or of chat messages the user's last one."""
    if isinstance(value, list):
        return _last(cast("list[Any]", value), "user")
    return value if isinstance(value, str) and value.strip() else None


def _last(messages: list[Any], role: str) -> str | None:
    listed = reversed(cast("list[dict[str, Any] | None]", messages))
    said = (message.get("content") for message in listed if isinstance(message, dict) and message.get("role") == role)
    return next((text for text in said if isinstance(text, str)), None)


Label = Literal["a", "b", "tie"]
CONTROL = "control"
"""The class of a pair that `harness label` drew at random, and did not choose for being doubtful."""
_EXPECTED = "query, a, b and label (a, b or tie); or query, chosen and rejected"


class LabelledAnswer(BaseModel):
    """One answer, and the path to it where there is one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: str
    path: str = ""

    @property
    def transcript(self) -> Transcript:
        """What a judge reads of it."""
        return Transcript(path=legible(self.path).strip() or "(no steps)", answer=plain_text(self.answer))


class LabelledPair(BaseModel):
    """A query, two answers, and which of them is better. Equal `kind`s are counted together."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    query: str = Field(min_length=1)
    a: str | LabelledAnswer
    b: str | LabelledAnswer
    label: Label
    kind: str = Field("", alias="class")
    query_id: str | None = None
    rollouts: tuple[int, int] | None = None
    """Of a label that `harness label` wrote: the query's id in the run, and which rollouts `a` and `b` are."""
    run: str | None = None
    """The run that `rollouts` are of, where these stand in the place of texts."""
    by: str | None = None
    """Who said so."""
    drawing_weight: float = Field(1.0, gt=0, allow_inf_nan=False)
    """In proportion to one divided by the chance that the pair had to be drawn for labelling."""

    @property
    def sides(self) -> tuple[Transcript, Transcript]:
        """The transcripts of `a` and `b`."""
        a, b = (LabelledAnswer(answer=s) if isinstance(s, str) else s for s in (self.a, self.b))
        return a.transcript, b.transcript

    @property
    def group(self) -> str:
        """The class that the pair is counted in, else its label."""
        return self.kind or f"label {self.label}"


def read_pairs(path: Path, option: str = "--pairs", *, named: bool = False) -> list[LabelledPair]:
    """Read a user's own pairs: one JSON object a line, or a CSV file (by its ending) with the same names.

    `option` is what named the file. Lines may be `named`: a run, two rollouts of it, and a label. Raises UsageError
    naming line and fault.
    """
    name = f"{option} {on_a_line(path)}"
    lines = (line for _, line in text_lines(path, name))
    if path.suffix.lower() == ".csv":
        rows = enumerate(csv_rows(lines, name), 1)
        pairs = [_pair(row, f"{name}, line {line}", number, named=named) for number, (line, row) in rows]
    else:
        pairs = _read(lines, name, named=named)
    if not pairs:
        raise UsageError(f"{name}: there is no pair in it; expected {_EXPECTED}")
    return pairs


def pairs_in_text(text: str, name: str) -> list[LabelledPair]:
    """Return the pairs of a text of JSON lines, which may hold none. Raises UsageError naming line and fault."""
    return _read(text.split("\n"), name)


def _read(lines: Iterable[str], where: str, *, named: bool = False) -> list[LabelledPair]:
    pairs: list[LabelledPair] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"{where}, line {number}"
        try:
            entry: object = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise UsageError(f"{place}: no JSON ({on_a_line(exc)})") from None
        if not isinstance(entry, dict):
            raise UsageError(f"{place}: expected an object with {_EXPECTED}")
        pairs.append(_pair(cast("dict[str, object]", entry), place, number, named=named))
    return pairs


def _pair(entry: Mapping[str, object], where: str, number: int, *, named: bool) -> LabelledPair:
    if named and "run" in entry and not entry.keys() & {"a", "b"}:
        two = entry.get("rollouts")
        if not entry.get("run") or not isinstance(two, list) or len({*map(str, cast("list[object]", two))}) != 2:
            raise UsageError(f"{where}: expected run, rollouts (two different numbers), label, and query_id")
        entry = {"query": "of the run", "a": "", "b": "", **entry}
    if {"chosen", "rejected"} <= entry.keys() and not entry.keys() & {"a", "b", "label"}:
        try:
            entry = as_labelled(entry, number)
        except ValueError as exc:
            raise UsageError(f"{where}: {exc}") from None
    missing = [name for name in ("query", "a", "b", "label") if name not in entry]
    if missing:
        raise UsageError(
            f"{where}: {' and '.join(missing)} missing; expected {_EXPECTED}, where an answer is a text, or an object "
            "with answer and path"
        )
    try:
        return LabelledPair.model_validate(entry)
    except ValidationError as exc:
        fault = max(exc.errors(), key=lambda e: len(e["loc"]))  # the nearer of the two forms: text or object
        place = ".".join(str(p) for p in fault["loc"] if p not in {"LabelledAnswer", "str"})
        raise UsageError(f"{where}: {place} {quoted(str(fault['input']))}: {fault['msg']}") from None
