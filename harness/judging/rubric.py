"""Rubrics: a Markdown file with front matter that names the dimensions; arithmetic of scores."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from harness.core.errors import UsageError, did_you_mean
from harness.core.verdicts import Cap, Flag, FlagKind, SideScores
from harness.judging.front_matter import Fault, Faulty, Parts, render_body, take_apart, template_faults
from harness.transcripts import Transcript

_PACKAGED = files("harness.judging") / "rubrics"
_ALSO_IN_A_PATH = frozenset({"addresses_judge", "forged_fence"})


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
    variable_names: ClassVar = ("name", "version", "dimensions", "path_weight", "answer_weight", "max_words")

    name: str
    version: int
    path_weight: Annotated[Decimal, Field(ge=0, le=1)]
    answer_weight: Annotated[Decimal, Field(ge=0, le=1)]
    rounding: Literal["half-up"] = "half-up"
    max_words: Annotated[int | None, Field(ge=1)] = None
    """The longest answer asked for; a longer one is flagged."""
    caps: Mapping[FlagKind, Mapping[str, Annotated[int, Field(ge=0, le=10)]]] = {}
    """By flag and dimension the highest mark that counts."""
    dimensions: tuple[Dimension, ...]
    """Those that are marked: a block of weight 0 has none."""
    left_out: tuple[str, ...] = ()
    """The file's dimensions in a block of weight 0."""
    body: str
    source: str

    @model_validator(mode="after")
    def _fits_together(self) -> "Rubric":
        if self.path_weight + self.answer_weight != 1:
            whole = f"path_weight {self.path_weight} + answer_weight {self.answer_weight} must be 1"
            raise _misfit(whole, "answer_weight")
        if not self.dimensions:
            raise _misfit("dimensions: there is none", "dimensions")
        keys = [d.key for d in self.dimensions]
        for at, key in enumerate(keys):
            if key in keys[:at]:
                raise _misfit(f"a dimension's key is used twice among {', '.join(keys)}", "dimensions", at, "key")
            if key in {"overall_p", "overall_a"}:
                raise _misfit(f"dimensions.{at}.key: the reply's form has an {key} of its own", "dimensions", at, "key")
        for block, weight in (("path", self.path_weight), ("answer", self.answer_weight)):
            if weight and not self.block(block):
                raise _misfit(f"{block}_weight is {weight} but no dimension has block: {block}", f"{block}_weight")
        self._check_caps()
        return self

    def _check_caps(self) -> None:
        blocks = {d.key: d.block for d in self.dimensions}
        for flag, limits in self.caps.items():
            if flag == "too_long" and self.max_words is None:
                raise _misfit("caps.too_long: needs max_words, which says what is too long", "caps", flag)
            for key in limits:
                if key not in blocks and key not in self.left_out:
                    raise _misfit(f"caps.{flag}: no dimension {key!r}{did_you_mean(key, blocks)}", "caps", flag, key)
                if blocks.get(key) == "path" and flag not in _ALSO_IN_A_PATH:
                    raise _misfit(f"caps.{flag}.{key}: is found in answers; {key} marks the path", "caps", flag, key)

    def __hash__(self) -> int:  # the default cannot hash `caps`
        return hash(self.source)

    @property
    def instructions(self) -> str:
        """The body as the judge reads it."""
        return render_body(self.body, self.variables)

    @property
    def variables(self) -> dict[str, Any]:
        """What the body may speak of."""
        return {name: getattr(self, name) for name in self.variable_names}

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

    def shown(self, transcript: Transcript) -> Transcript:
        """Return what the judge gets to see: of a block that is not marked, nothing."""
        hidden = {name: "" for name in ("path", "answer") if not self.block(name)}
        return replace(transcript, **hidden) if hidden else transcript

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

    def capped(self, scores: SideScores, flags: tuple[Flag, ...]) -> SideScores:
        """Return scores with their flags, the marks lowered where `caps` say so; a flag lowers only its own block."""
        marks, caps = dict(scores.dimensions), list[Cap]()
        for dimension in self.dimensions:
            key, mark = dimension.key, marks[dimension.key]
            limits = [(self.caps.get(f.kind, {}).get(key, 10), f) for f in flags if f.place == dimension.block]
            for most, flag in sorted(limits, key=lambda limit: limit[0])[:1]:
                if most < mark:
                    marks[key] = most
                    caps.append(Cap(dimension=key, flag=flag.kind, given=mark, most=most))
        return self.score(marks).model_copy(update={"flags": flags, "caps": tuple(caps)})

    @staticmethod
    def _overall(marks: Sequence[int]) -> int | None:
        return int((Decimal(sum(marks)) / len(marks)).quantize(Decimal(1), ROUND_HALF_UP)) if marks else None


_OURS = {"left_out", "body", "source"}
"""Fields that no front matter may fill."""


def packaged_rubrics() -> list[str]:
    """Return the names of the rubrics that come with the package."""
    return sorted(p.name.removesuffix(".md") for p in _PACKAGED.iterdir() if p.name.endswith(".md"))


def load_rubric(name: str) -> Rubric:
    """Load a packaged rubric by name, or a file by its path.

    Raises UsageError for an unknown name, a missing file, or a file that is no rubric, saying what is wrong with it
    and on which line.
    """
    return parse_rubric(rubric_source(name), name)


def rubric_source(name: str) -> str:
    """Return the text of a packaged rubric or of a file. Raises UsageError as load_rubric does."""
    if name in packaged_rubrics():
        return (_PACKAGED / f"{name}.md").read_text("utf-8")
    path = Path(name)
    if not path.suffix and not path.exists():
        names = packaged_rubrics()
        raise UsageError(f"no rubric {name!r}{did_you_mean(name, names)}; known: {', '.join(names)}, or pass a FILE.md")
    try:
        return path.read_text("utf-8-sig")
    except (OSError, ValueError) as exc:  # ValueError: no UTF-8, or a NUL in the name
        raise UsageError(f"--rubric {name}: cannot be read ({getattr(exc, 'strerror', None) or exc})") from None


def parse_rubric(source: str, where: str) -> Rubric:
    """Read a rubric from its text. Raises UsageError naming `where`, the line and the first fault."""
    result = read_rubric(source)
    if isinstance(result, Rubric):
        return result
    first, *others = result
    more = f" (and {len(others)} more: see `harness rubric check {where}`)" if others else ""
    raise UsageError(f"--rubric {where}:{first.line}: {first.text}{more}")


def read_rubric(source: str) -> Rubric | list[Fault]:
    """Return a rubric, or everything that is wrong with its text, by line."""
    try:
        parts = take_apart(source)
    except Faulty as exc:
        return [exc.fault]
    faults = [Fault(parts.line_of([key]), f"{key}: unknown key") for key in parts.front if key in _OURS]
    try:
        rubric = Rubric.model_validate(_members(parts) | {"body": parts.body, "source": source})
    except ValidationError as exc:
        faults += template_faults(parts.body, parts.body_line, Rubric.variable_names)
        return sorted({*faults, *(_fault(parts, error) for error in exc.errors())})
    rubric = _without_unweighed(rubric)
    faults += template_faults(rubric.body, parts.body_line, rubric.variables)
    return sorted(faults) or rubric


def _members(parts: Parts) -> dict[str, Any]:
    """Return what the front matter may say, the weights as they are written: 0.4 is exactly four tenths."""
    weights = {k: str(v) for k in ("path_weight", "answer_weight") if _is_number(v := parts.front.get(k))}
    return {k: v for k, v in parts.front.items() if k not in _OURS} | weights


def _without_unweighed(rubric: Rubric) -> Rubric:
    unweighed = {b for b, w in (("path", rubric.path_weight), ("answer", rubric.answer_weight)) if not w}
    kept = tuple(d for d in rubric.dimensions if d.block not in unweighed)
    left_out = tuple(d.key for d in rubric.dimensions if d.block in unweighed)
    return rubric.model_copy(update={"dimensions": kept, "left_out": left_out})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _misfit(message: str, *place: str | int) -> PydanticCustomError:
    return PydanticCustomError("misfit", "{message}", {"message": message, "place": place})


def _fault(parts: Parts, error: ErrorDetails) -> Fault:
    if error["type"] == "misfit":
        context = error.get("ctx", {})
        return Fault(parts.line_of(context["place"]), context["message"])
    place = [p for p in error["loc"] if p != "[key]"]
    message = error["msg"]
    if error["type"] == "extra_forbidden":
        model = Dimension if place[0] == "dimensions" else Rubric
        names = [name for name in model.model_fields if name not in _OURS]
        message = f"unknown key{did_you_mean(str(place[-1]), names)}; known: {', '.join(names)}"
    return Fault(parts.line_of(place), f"{'.'.join(map(str, place))}: {message}")
