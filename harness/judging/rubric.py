"""Rubrics: a Markdown file with front matter that names the dimensions; arithmetic of scores."""

import hashlib
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import yaml
from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.errors import UsageError, did_you_mean
from harness.records import SideScores

_PACKAGED = files("harness.judging") / "rubrics"
_TEMPLATES = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
"""Sandboxed: a rubric is a text that people pass on, and must not be able to run anything."""


class Dimension(BaseModel):
    """One thing to mark, an integer 0..10, on the path or on the answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    title: str
    block: Literal["path", "answer"]
    description: str


class Rubric(BaseModel):
    """What a judge marks and how the marks combine. `source` is the whole file: its hash is the rubric's identity."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: int
    path_weight: Annotated[Decimal, Field(ge=0, le=1)]
    answer_weight: Annotated[Decimal, Field(ge=0, le=1)]
    dimensions: Annotated[tuple[Dimension, ...], Field(min_length=1)]
    body: str
    source: str

    @model_validator(mode="after")
    def _fits_together(self) -> "Rubric":
        if self.path_weight + self.answer_weight != 1:
            raise ValueError(f"path_weight {self.path_weight} + answer_weight {self.answer_weight} must be 1")
        keys = [d.key for d in self.dimensions]
        if len(set(keys)) < len(keys):
            raise ValueError(f"a dimension's key is used twice among {', '.join(keys)}")
        for block, weight in (("path", self.path_weight), ("answer", self.answer_weight)):
            if weight and not self.block(block):
                raise ValueError(f"{block}_weight is {weight} but no dimension has block: {block}")
        try:
            _ = self.instructions
        except Exception as exc:  # noqa: BLE001 - whatever a template can run into
            raise ValueError(f"the body cannot be rendered: {exc}") from None
        return self

    @property
    def instructions(self) -> str:
        """The body as the judge reads it."""
        return _TEMPLATES.from_string(self.body).render(dimensions=self.dimensions, name=self.name)

    @property
    def fingerprint(self) -> str:
        """The sha256 (hex) of the file."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    @property
    def label(self) -> str:
        """Name, version and the start of the fingerprint, for people."""
        return f"{self.name}@{self.version} {self.fingerprint[:12]}"

    def block(self, name: str) -> list[Dimension]:
        """Return the dimensions of one block, in the file's order."""
        return [d for d in self.dimensions if d.block == name]

    def score(self, marks: Mapping[str, int]) -> SideScores:
        """Combine one side's marks: block = mean rounded half up; combined = weighted sum to one decimal, half up."""
        path, answer = (self._overall([marks[d.key] for d in self.block(b)]) for b in ("path", "answer"))
        combined = self.path_weight * (path or 0) + self.answer_weight * (answer or 0)
        return SideScores(
            dimensions=dict(marks),
            path=path,
            answer=answer,
            combined=float(combined.quantize(Decimal("0.1"), ROUND_HALF_UP)),
        )

    @staticmethod
    def _overall(marks: Sequence[int]) -> int | None:
        return int((Decimal(sum(marks)) / len(marks)).quantize(Decimal(1), ROUND_HALF_UP)) if marks else None


def packaged_rubrics() -> list[str]:
    """Return the names of the rubrics that come with the package."""
    return sorted(p.name.removesuffix(".md") for p in _PACKAGED.iterdir() if p.name.endswith(".md"))


def load_rubric(name: str) -> Rubric:
    """Load a packaged rubric by name, or a file by its path.

    Raises UsageError for an unknown name, a missing file, or a file that is no rubric, saying what is wrong with it.
    """
    if name in packaged_rubrics():
        return parse_rubric((_PACKAGED / f"{name}.md").read_text("utf-8"), name)
    path = Path(name)
    if not path.suffix and not path.exists():
        known = packaged_rubrics()
        raise UsageError(f"no rubric {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}, or pass a FILE.md")
    try:
        return parse_rubric(path.read_text("utf-8-sig"), name)
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"--rubric {name}: cannot be read ({getattr(exc, 'strerror', None) or exc})") from None


def parse_rubric(source: str, where: str) -> Rubric:
    """Read a rubric from its text. Raises UsageError naming `where` and the first fault."""
    parts = source.split("---\n", 2)
    if len(parts) < 3 or parts[0].strip():
        raise UsageError(f"--rubric {where}: expected front matter between two lines of ---")
    try:
        front: Any = yaml.safe_load(parts[1])
        if not isinstance(front, dict):
            raise UsageError(f"--rubric {where}: the front matter must be `key: value` lines")
        told = cast("dict[str, Any]", front)
        weights = {k: str(told[k]) for k in ("path_weight", "answer_weight") if k in told}  # 0.4 as written, exactly
        return Rubric.model_validate(told | weights | {"body": parts[2].strip(), "source": source})
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(str(p) for p in first["loc"])
        raise UsageError(f"--rubric {where}: {place + ': ' if place else ''}{first['msg']}") from None
    except (yaml.YAMLError, ValueError) as exc:  # ValueError: a date like 2026-13-45
        raise UsageError(f"--rubric {where}: the front matter is not YAML: {str(exc).splitlines()[0]}") from None
