"""Pairs of answers with the known better one: the pairs that come with the harness, or a user's own."""

import json
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.core.errors import UsageError, on_a_line, quoted
from harness.core.user_files import text_lines
from harness.transcripts import Transcript, legible, plain_text

Label = Literal["a", "b", "tie"]


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

    @property
    def sides(self) -> tuple[Transcript, Transcript]:
        """The transcripts of `a` and `b`."""
        a, b = (LabelledAnswer(answer=s) if isinstance(s, str) else s for s in (self.a, self.b))
        return a.transcript, b.transcript

    @property
    def group(self) -> str:
        """The class that the pair is counted in, else its label."""
        return self.kind or f"label {self.label}"


def bundled_pairs() -> list[LabelledPair]:
    """Return the pairs made for this project: each worse answer is worse by construction, in the way its class says."""
    return _read((files("harness.doctor") / "pairs.jsonl").read_text("utf-8").splitlines(), "pairs.jsonl")


def read_pairs(path: Path) -> list[LabelledPair]:
    """Read a user's own pairs, one JSON object a line. Raises UsageError naming line and fault."""
    name = f"--pairs {on_a_line(path)}"
    pairs = _read((line for _, line in text_lines(path, name)), name)
    if not pairs:
        raise UsageError(f"{name}: there is no pair in it; expected one JSON object a line, with query, a, b, label")
    return pairs


def _read(lines: Iterable[str], where: str) -> list[LabelledPair]:
    return [_pair(line, f"{where}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]


def _pair(line: str, where: str) -> LabelledPair:
    try:
        entry: object = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"{where}: no JSON ({on_a_line(exc)})") from None
    if not isinstance(entry, dict):
        raise UsageError(f"{where}: expected an object with query, a, b and label")
    missing = [name for name in ("query", "a", "b", "label") if name not in entry]
    if missing:
        raise UsageError(
            f"{where}: {' and '.join(missing)} missing; expected query, a, b (a text, or an object with "
            "answer and path) and label (a, b or tie)"
        )
    try:
        return LabelledPair.model_validate(cast("dict[str, object]", entry))
    except ValidationError as exc:
        fault = max(exc.errors(), key=lambda e: len(e["loc"]))  # the nearer of the two forms: text or object
        place = ".".join(str(p) for p in fault["loc"] if p not in {"LabelledAnswer", "str"})
        raise UsageError(f"{where}: {place} {quoted(str(fault['input']))}: {fault['msg']}") from None
