"""Rubrics: a Markdown file with front matter that names the dimensions; where it comes from, arithmetic of scores."""

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from importlib.resources import files
from operator import attrgetter
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from harness.core.errors import UsageError, did_you_mean, goes_on, on_a_line, option, quoted
from harness.core.rankings import Cap, Flag, FlagKind, SideScores
from harness.core.records import digest
from harness.core.unicode import visible
from harness.judging.transcript_form import TranscriptForm
from harness.rubric_text.bounded import TRUSTED, TextReader, in_child
from harness.rubric_text.front_matter import Fault, Faulty, Parts
from harness.rubric_text.template import PlainDimension, Variables
from harness.transcripts.transcript import RENDERING, Transcript

RubricFaults = tuple[Fault, ...]
"""Everything that is wrong with a rubric's text, by line."""
_MOST_FAULTS = 100
_MOST_QUOTED, _LONGEST = 200, 600
_ALSO_IN_A_PATH = frozenset({"addresses_judge", "forged_fence", "hidden_text"})


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
    rounding: Literal["half-up"] = "half-up"
    max_words: Annotated[int | None, Field(ge=1)] = None
    """The longest answer asked for; a longer one is flagged."""
    files: bool = False
    """Whether the judge reads what became of the files in a rollout's workspace, as a part of the answer."""
    evidence: bool = False
    """Whether the judge reads which of an answer's claims stand in no tool output, which are flagged, too."""
    caps: Mapping[FlagKind, Mapping[str, Annotated[int, Field(ge=0, le=10)]]] = {}
    """By flag and dimension the highest mark that counts."""
    dimensions: tuple[Dimension, ...]
    """Those that are marked: a block of weight 0 has none."""
    left_out: tuple[str, ...] = ()
    """The file's dimensions in a block of weight 0."""
    body: str
    source: str
    require_citations: bool = False
    """Whether each remark of a verdict must cite what stands there (--require-citations)."""
    instructions: str = ""
    """The body as the judge reads it, rendered once."""

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
                among = _quoted(", ".join(keys))
                raise _misfit(f"a dimension's key is used twice among {among}", "dimensions", at, "key")
            if key in {"overall_p", "overall_a"}:
                raise _misfit(f"dimensions.{at}.key: the reply's form has an {key} of its own", "dimensions", at, "key")
        for block, weight in (("path", self.path_weight), ("answer", self.answer_weight)):
            if weight and not self.block(block):
                raise _misfit(f"{block}_weight is {weight} but no dimension has block: {block}", f"{block}_weight")
        return self

    @model_validator(mode="after")
    def _caps_fit(self) -> "Rubric":
        blocks = {d.key: d.block for d in self.dimensions}
        for flag, limits in self.caps.items():
            if flag == "too_long" and self.max_words is None:
                raise _misfit("caps.too_long: needs max_words, which says what is too long", "caps", flag)
            if flag == "unsupported" and not self.evidence:
                raise _misfit("caps.unsupported: needs evidence: yes, which looks for it", "caps", flag)
            for key in limits:
                if key not in blocks and key not in self.left_out:
                    unknown = f"no dimension {_quoted(key)!r}{did_you_mean(_quoted(key), blocks)}"
                    raise _misfit(f"caps.{flag}: {unknown}", "caps", flag, key)
                if blocks.get(key) == "path" and flag not in _ALSO_IN_A_PATH:
                    raise _misfit(f"caps.{flag}.{key}: is found in answers; {key} marks the path", "caps", flag, key)
        return self

    def __hash__(self) -> int:  # the default cannot hash `caps`
        return hash(self.source)

    @property
    def variables(self) -> Variables:
        """What the body may speak of, in plain values."""
        dimensions = tuple(PlainDimension(d.key, d.title, d.block, d.description) for d in self.dimensions)
        weights = self.path_weight, self.answer_weight
        return Variables(self.name, self.version, dimensions, *weights, self.max_words)

    @property
    def fingerprint(self) -> str:
        """The sha256 (hex) of the file."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    @property
    def label(self) -> str:
        """Name, version and the start of the fingerprint, for people."""
        return f"{self.name}@{self.version} {self.fingerprint[:12]}"

    @property
    def rendering(self) -> int:
        """The way in which transcripts are written for it."""
        return TranscriptForm(files=self.files, evidence=self.evidence).rendering

    def block(self, name: str) -> list[Dimension]:
        """Return the dimensions of one block, in the file's order."""
        return [d for d in self.dimensions if d.block == name]

    def shown(self, transcript: Transcript) -> Transcript:
        """Return what the judge gets to see: of a block that is not marked, nothing."""
        hidden = _hidden_blocks(self)
        return replace(transcript, **dict.fromkeys(hidden, "")) if hidden else transcript

    def score(self, marks: Mapping[str, int]) -> SideScores:
        """Combine one side's marks: block = mean rounded half up; combined = weighted sum to one decimal, half up."""

        def overall(block: list[int]) -> int | None:
            return int((Decimal(sum(block)) / len(block)).quantize(Decimal(1), ROUND_HALF_UP)) if block else None

        path, answer = (overall([marks[d.key] for d in self.block(b)]) for b in ("path", "answer"))
        combined = self.path_weight * (path or 0) + self.answer_weight * (answer or 0)
        rounded = float(combined.quantize(Decimal("0.1"), ROUND_HALF_UP))
        return SideScores(dimensions=dict(marks), path=path, answer=answer, combined=rounded)

    def capped(self, scores: SideScores, flags: tuple[Flag, ...]) -> SideScores:
        """Return scores with their flags, the marks lowered where `caps` say so; a flag lowers only its own block."""
        if not flags:
            return scores
        marks, caps = dict(scores.dimensions), list[Cap]()
        for dimension in self.dimensions:
            key, mark = dimension.key, marks[dimension.key]
            limits = [(self.caps.get(f.kind, {}).get(key, 10), f) for f in flags if f.place == dimension.block]
            for most, flag in sorted(limits, key=lambda limit: limit[0])[:1]:
                if most < mark:
                    marks[key] = most
                    caps.append(Cap(dimension=key, flag=flag.kind, given=mark, most=most))
        return self.score(marks).model_copy(update={"flags": flags, "caps": tuple(caps)})


@lru_cache(maxsize=64)  # each key of a verdict asks
def _hidden_blocks(rubric: Rubric) -> tuple[str, ...]:
    return tuple(name for name in ("path", "answer") if not rubric.block(name))


_OURS = {"left_out", "body", "source", "instructions", "require_citations"}
"""Fields that no front matter may fill."""


def read_by(reader: TextReader, source: str) -> Rubric | RubricFaults:
    """Return the rubric that `reader` makes of a text, or everything that is wrong with it, by line."""
    try:
        made = _checked(reader, reader.take_apart(source), source)
    except Faulty as exc:
        made = [exc.fault]
    if isinstance(made, Rubric):
        return made
    # as people may be shown it: whatever a fault quotes of the file neither breaks the line nor hides
    return tuple(Fault(f.line, visible(f.text[:_LONGEST]).replace("\n", " ")) for f in made[:_MOST_FAULTS])


def _checked(reader: TextReader, parts: Parts, source: str) -> Rubric | list[Fault]:
    faults = [Fault(parts.find_line([key]), f"{key}: unknown key") for key in parts.front if key in _OURS]
    members = {name: value for name, value in parts.front.items() if name not in _OURS}
    for name in ("path_weight", "answer_weight"):  # as they are written: 0.4 is exactly four tenths
        if isinstance(weight := members.get(name), int | float) and not isinstance(weight, bool):
            members[name] = str(weight)
    try:
        rubric = Rubric.model_validate(members | {"body": parts.body, "source": source})
    except ValidationError as exc:
        faults += reader.template_faults(parts.body, parts.body_line)
        faults += [_fault(parts, error) for error in exc.errors(include_url=False)]
        return sorted(dict.fromkeys(faults), key=attrgetter("line"))
    unweighed = {b for b, w in (("path", rubric.path_weight), ("answer", rubric.answer_weight)) if not w}
    kept = tuple(d for d in rubric.dimensions if d.block not in unweighed)
    left_out = tuple(d.key for d in rubric.dimensions if d.block in unweighed)
    rubric = rubric.model_copy(update={"dimensions": kept, "left_out": left_out})
    rendered = reader.render(rubric.body, parts.body_line, rubric.variables)
    if isinstance(rendered, str) and not faults:
        return rubric.model_copy(update={"instructions": rendered})
    return sorted(faults if isinstance(rendered, str) else faults + rendered, key=attrgetter("line"))


def _misfit(message: str, *place: str | int) -> PydanticCustomError:
    return PydanticCustomError("misfit", "{message}", {"message": message, "place": place})


def _fault(parts: Parts, error: ErrorDetails) -> Fault:
    if error["type"] == "misfit":
        context = error.get("ctx", {})
        return Fault(parts.find_line(context["place"]), context["message"])
    place = [p for p in error["loc"] if p != "[key]"]
    message = error["msg"]
    if error["type"] == "extra_forbidden":
        model = Dimension if place[0] == "dimensions" else Rubric
        names = [name for name in model.model_fields if name not in _OURS]
        message = goes_on(f"unknown key{did_you_mean(_quoted(place[-1]), names)}", f"known: {', '.join(names)}")
    return Fault(parts.find_line(place), f"{'.'.join(map(_quoted, place))}: {message}")


def _quoted(word: str | int) -> str:
    return str(word)[:_MOST_QUOTED]


LIST_RUBRIC = "ruler"
PAIRWISE_DEFAULT = "writing"
_PACKAGED = files("harness.judging") / "rubrics"
_MOST_BYTES = 1_000_000


def packaged_rubrics() -> list[str]:
    """Return the names of the rubrics that come with the package."""
    return sorted(p.name.removesuffix(".md") for p in _PACKAGED.iterdir() if p.name.endswith(".md"))


def load_rubric(name: str) -> Rubric:
    """Load a packaged rubric by name, or a file by its path. Raises UsageError with the line of what is wrong."""
    return parse_rubric(rubric_source(name), option("rubric", on_a_line(name)))


def rubric_source(name: str, where: str | None = None) -> str:
    """Return the text of a packaged rubric or of a file. Raises UsageError as load_rubric does, but naming `where`."""
    if name in packaged_rubrics():
        return (_PACKAGED / f"{name}.md").read_text("utf-8")
    if not is_file_name(name):
        known = packaged_rubrics()
        there_are = f"known: {', '.join(known)}, or pass a FILE.md"
        raise UsageError(goes_on(f"no rubric {quoted(name)}{did_you_mean(name, known)}", there_are))
    return text_of_file(name, where)


def parse_rubric(source: str, where: str) -> Rubric:
    """Read a rubric from its text. Raises UsageError naming `where`, the line and the first fault."""
    return usable(read_rubric(source), where)


def usable(result: Rubric | RubricFaults, where: str) -> Rubric:
    """Return a rubric. Raises UsageError with the first fault of what is none."""
    if isinstance(result, Rubric):
        return result
    first, *others = result
    name = where.removeprefix(option("rubric")).strip()
    more = f" (and {len(others)} more: see `harness rubric check {name}`)" if others else ""
    raise UsageError(f"{where}:{first.line}: {first.text}{more}")


def read_rubric(source: str) -> Rubric | RubricFaults:
    """Return a rubric, or its faults by line. What is not packaged is read in a child of limited time and memory."""
    try:
        return _read_once(source)
    except _NoRubric as exc:
        return exc.faults


class _NoRubric(Exception):
    def __init__(self, faults: RubricFaults) -> None:
        super().__init__()
        self.faults = faults


@lru_cache(maxsize=16)
def _read_once(source: str) -> Rubric:
    """Return a rubric. Raises _NoRubric, which is not remembered: a busy machine may have been the reason."""
    if source in _packaged_texts():
        read = read_by(TRUSTED, source)
    else:
        try:
            with in_child() as reader:
                read = read_by(reader, source)
        except Faulty as exc:
            raise _NoRubric((exc.fault,)) from None
    if isinstance(read, Rubric):
        return read
    raise _NoRubric(read)


@lru_cache(maxsize=1)
def _packaged_texts() -> frozenset[str]:
    return frozenset((_PACKAGED / f"{name}.md").read_text("utf-8") for name in packaged_rubrics())


def is_file_name(name: str) -> bool:
    """Whether a word names a file rather than a packaged rubric: it has a suffix, or it is there."""
    try:
        return bool(Path(name).suffix) or Path(name).exists()
    except OSError:  # too long for a file's name
        return True


def text_of_file(name: str, where: str | None = None) -> str:
    """Return the text of a file of the user's. Raises UsageError, naming `where`, else the option, above 1 MB, too."""
    try:
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # a FIFO keeps nobody waiting
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("it is no plain file")  # noqa: TRY301
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")  # noqa: TRY301
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, ValueError) as exc:  # ValueError: no UTF-8, or a NUL in the name
        reason = getattr(exc, "strerror", None) or exc
        raise UsageError(f"{where or option('rubric', on_a_line(name))}: cannot be read ({reason})") from None


@dataclass(frozen=True)
class ListRubric:
    """What a listwise judge goes by: a text in plain words."""

    name: str
    text: str
    rendering: ClassVar[int] = RENDERING

    @property
    def fingerprint(self) -> str:
        """The sha256 (hex) of the text."""
        return digest(self.text)

    @property
    def source(self) -> str:
        """The text that a run keeps."""
        return self.text

    @property
    def label(self) -> str:
        """Name and the start of the fingerprint, for people."""
        return f"{self.name} {self.fingerprint[:12]}"


def is_packaged_list_rubric(name: str) -> bool:
    """Whether a name stands for the packaged text: its own, or the pairwise default's, which settings hold."""
    return name in {LIST_RUBRIC, PAIRWISE_DEFAULT}


def load_list_rubric(name: str | None) -> ListRubric:
    """Return the packaged text for None (or the pairwise default's name), else that of a file of the user's own.

    Raises UsageError for a file that cannot be read or is empty, and for a rubric of the pairwise judge's.
    """
    if name is None or is_packaged_list_rubric(name):
        return ListRubric(LIST_RUBRIC, files("harness.judging").joinpath("ruler.md").read_text("utf-8").strip())
    if not is_file_name(name):
        raise UsageError(
            f"{option('rubric', on_a_line(name))}: {option('judge', 'ruler')} goes by {LIST_RUBRIC!r} or by a text "
            f"FILE.md of your own{did_you_mean(name, [LIST_RUBRIC, *packaged_rubrics()])}"
        )
    return parse_list_rubric(text_of_file(name), Path(name).stem, option("rubric", on_a_line(name)))


def parse_list_rubric(text: str, name: str, where: str) -> ListRubric:
    """Return a text as a rubric of that name. Raises UsageError naming `where` for one that no list is judged by."""
    text = text.strip()
    if not text:
        raise UsageError(f"{where}: it is empty")
    if stray := re.search("[\0\ud800-\udfff]", text):
        raise UsageError(f"{where}:{text[: stray.start()].count(chr(10)) + 1}: it is no text: it holds {stray[0]!a}")
    if text.startswith("---\n"):
        ours, theirs = option("judge", "ruler"), option("judge", "pairwise")
        raise UsageError(f"{where}: front matter is for {theirs}, {ours} goes by plain text")
    return ListRubric(name, text)
