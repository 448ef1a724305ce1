"""The one door to what a run's files hold: members become a typed record, or ArchiveDamaged with file, line and reason.

A run folder is data from a stranger. No other module validates what an archive holds (tests/test_architecture.py).
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from pydantic import Field, JsonValue, ValidationError, model_validator

from harness.archive import record_faults as faults
from harness.archive.lines import LocatedRecord, RecordFiles, RecordPlace, begins_as_written, check_sum, decode
from harness.core import rankings
from harness.core.errors import ArchiveDamaged, UsageError
from harness.core.judge_profile import JudgeLeanings, JudgeProfile, ProbedJudge, profile_in
from harness.core.records import Query, Record, Rollout, digest, is_none
from harness.core.settings import Settings
from harness.core.settings_sources import load


class RankedQuery(NamedTuple):
    """Which query's group a line of a ranking holds, whether that is ranked in full, and the places."""

    query: str
    is_open: bool
    """Whether something is missing of it."""
    provisional: bool
    ranks: Sequence[tuple[int, float]]
    """The index and the rank of each rollout that has one."""


_BEFORE = re.compile(
    rb'[^[]*,"kind":"group","query":"([ !#-[\]-~]*)","topology":"\w*","estimator":"\w*",'
    rb'"status":"(complete|incomplete)","signal":"\w*","provisional":(true|false),"secondary_fit":"\w*","matches":\['
)
_BEGIN, _END = b'],"rollouts":[', b'],"failed_verdicts":['
_PLACE = re.compile(rb'\{"index":(\d{1,9}),"score":[^,]*,"rank":(null|\d{1,9}\.\d),')
_QUOTES = 2 * len(rankings.Ranked.model_fields)
"""In a place without a text: those around the names."""


def read_in_brief(line: bytes) -> RankedQuery | None:
    """Return what a line says of its group, or None for one that is not just as this version writes it."""
    before = _BEFORE.match(line)
    at = line.find(_BEGIN, before.end() - 1) if before else -1
    end = line.find(_END, at)
    if before is None or at < 0 or end < 0 or line.rfind(_BEGIN) != at:
        return None
    places = line[at + len(_BEGIN) : end]
    read = _PLACE.findall(places)
    if places.count(b"{") != len(read) or places.count(b'"') != _QUOTES * len(read):
        return None
    query, status, provisional = before.groups()
    ranks = [(int(index), float(rank)) for index, rank in read if rank != b"null"]
    return RankedQuery(query.decode(), status == b"incomplete", provisional == b"true", ranks)


class _HasRubric(Protocol):
    @property
    def rubric(self) -> str | None: ...
    @property
    def rubric_text(self) -> str | None: ...


T = TypeVar("T")
_WithRubric = TypeVar("_WithRubric", bound=_HasRubric)


def check_rubric_text(record: _WithRubric) -> _WithRubric:
    """Raise ValueError for a rubric's text whose fingerprint is not the one in the rubric's label."""
    text = record.rubric_text  # of a rubric with dimensions, or in plain words
    if text is not None and (record.rubric or "").rpartition(" ")[2] not in {
        hashlib.sha256(text.encode()).hexdigest()[:12],
        digest(text)[:12],
    }:
        raise ValueError("rubric_text is not the text whose fingerprint the rubric's label holds")
    return record


_REASON = 300
"""Characters of a reason: what a stranger wrote may be in it."""


class RankingHead(Record):
    """The first line of a rankings file."""

    id: str
    created_at: datetime
    settings: dict[str, JsonValue]
    judge: dict[str, JsonValue]
    rubric: str
    free: bool = False
    """Made with --free: what it lacks was not to be bought, so `resume` does not buy it."""
    rendering: Annotated[int, Field(ge=1, le=999)] = 1
    """The way in which the judge's transcripts are written (harness.transcripts)."""
    fit_version: Annotated[int, Field(ge=1, le=999)] = 1
    """Which version of the fits its probabilities come from (harness.ranking)."""
    rubric_text: str | None = None
    """The rubric's own text, whole; None where a key or a pattern of --redact stands in it."""
    leanings: JudgeLeanings | None = Field(default=None, exclude_if=is_none)
    """What probes show of its judge, as far as its fits go by that."""

    _text_has_its_fingerprint = model_validator(mode="after")(check_rubric_text)


class Footer(Record):
    """The last line of a rankings file: the ranking is complete."""

    groups: int
    profiles: tuple[JudgeProfile, ...] = ()
    """What `pooled` has taught of each judge."""


class BlobText(Record):
    """A large text and its hash."""

    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    text: str


class QueryName(Record):
    """What the index keeps of a query."""

    id: str


class _FailureKind(Record):
    kind: str


class RolloutMark(Record):
    """What the index keeps of a rollout, checked without the whole of it."""

    query: str
    index: int
    status: Literal["ok", "failed"]
    failure: _FailureKind | None = None
    started_at: datetime
    price_usd: float | None = None
    price_usd_at_least: float | None = None


class _Requests(Record):
    requests: int = 0


class VerdictMark(Record):
    """What the index keeps of a verdict, checked without the whole of it."""

    key: str
    status: Literal["ok", "failed"]
    usage: _Requests = _Requests.model_construct()
    source: str | None = None
    price_usd: float | None = None
    price_usd_at_least: float | None = None


class _RankedPlace(Record):
    index: int
    rank: float | None = None


class _RankedQuery(Record):
    query: str
    status: Literal["complete", "incomplete"]
    provisional: bool = False
    rollouts: tuple[_RankedPlace, ...] = ()

    @property
    def mark(self) -> RankedQuery:
        ranks = [(place.index, place.rank) for place in self.rollouts if place.rank is not None]
        return RankedQuery(self.query, self.status == "incomplete", self.provisional, ranks)


@dataclass(frozen=True)
class RecordType(Generic[T]):
    """A kind of line: its name there, what makes a record of its members, and what the types alone cannot say."""

    kind: str
    validate: Callable[[Any], T]
    faults: Callable[[T], Iterator[str]] | None = None
    from_json: Callable[[bytes], T] | None = None
    """Does what `validate` does with parsed JSON, in a fraction of the time. It may refuse more, with a ValueError."""
    quick: Callable[[bytes], T | None] | None = None
    """Does the same of a line that is just as we write it, and returns None for any other."""


SEGMENT_HEAD = "header"
"""The kind of the first line of a segment; nothing is read from it."""
QUERY = RecordType("query", Query.model_validate, from_json=Query.model_validate_json)
QUERY_NAME = RecordType("query", QueryName.model_validate)
ROLLOUT = RecordType("rollout", Rollout.model_validate, faults.rollout_faults, Rollout.model_validate_json)
ROLLOUT_MARK = RecordType("rollout", RolloutMark.model_validate, faults.rollout_faults)


def _validate_verdict(members: Mapping[str, Any]) -> rankings.AnyVerdict:
    """Validate as `VERDICT` does, in half of the time."""
    kinds: dict[Any, type[rankings.AnyVerdict]] = {"ok": rankings.Judged, "failed": rankings.Unjudged}
    if "transcripts" in members:
        kinds = {"ok": rankings.Scored, "failed": rankings.Unscored}
    record = kinds.get(members.get("status"))
    return record.model_validate(members) if record else rankings.VERDICT.validate_python(members)


def _verdict_from_json(line: bytes) -> rankings.AnyVerdict:
    """Read a pair's verdict that came out, as nearly all did. Raises ValueError for what may be another one."""
    if b"transcripts" in line:
        raise ValueError("perhaps a verdict on a list")
    return rankings.Judged.model_validate_json(line)


VERDICT_LINE = RecordType("verdict", _validate_verdict, faults.verdict_faults, _verdict_from_json)
PAIR_SCORES = RecordType(
    "verdict", rankings.PairScores.model_validate, faults.pair_scores_faults, rankings.PairScores.model_validate_json
)
VERDICT_MARK = RecordType("verdict", VerdictMark.model_validate)
RANKING_HEAD = RecordType("header", RankingHead.model_validate, faults.settings_faults)
RANKED_GROUP = RecordType(
    "group", rankings.GroupRanking.model_validate, faults.match_faults, rankings.GroupRanking.model_validate_json
)
RANKED_QUERY = RecordType(
    "group",
    lambda members: _RankedQuery.model_validate(members).mark,
    from_json=lambda line: _RankedQuery.model_validate_json(line).mark,
    quick=read_in_brief,
)
PROBED_JUDGE = RecordType("probed", ProbedJudge.model_validate)
FOOTER = RecordType("footer", Footer.model_validate)
BLOB = RecordType("blob", BlobText.model_validate)


def read_record(located: LocatedRecord, record_type: RecordType[T]) -> T:
    """Return the typed record of a line. Raises ArchiveDamaged for a line of another kind, or that does not fit."""
    kind = located.members["kind"]
    if kind != record_type.kind:
        raise damaged(located, f"a record of the kind {kind!r} stands where {record_type.kind!r} is expected")
    return checked(located.members, record_type.validate, located, record_type.faults)


def read_at_place(files: RecordFiles, place: RecordPlace, record_type: RecordType[T]) -> T:
    """Return the typed record at a place. Raises as `decode` and `read_record` do."""
    line = files.line(place)
    check_sum(line, place)
    return read_line(line, place, record_type)


def read_line(line: bytes, place: RecordPlace, record_type: RecordType[T]) -> T:
    """Return the typed record of a line that fits its checksum. Raises as `decode` and `read_record` do."""
    as_written = begins_as_written(line, record_type.kind)
    if as_written and record_type.quick and (known := record_type.quick(line)) is not None:
        return known
    if as_written and record_type.from_json and b"NaN" not in line and b"Infinity" not in line:
        try:  # and not `suppress`, which takes longer than the rest
            record = record_type.from_json(line)
            if record_type.faults is None or next(record_type.faults(record), None) is None:
                return record
        except ValueError:
            pass
    return read_record(LocatedRecord(place, place.offset + len(line), decode(line, place)), record_type)


def checked(
    members: object, validate: Callable[[Any], T], where: object, faults_of: Callable[[T], Iterator[str]] | None = None
) -> T:
    """Return what `validate` makes of members. Raises ArchiveDamaged naming `where`: a place, or a located record."""
    try:
        record = validate(members)
        reason = next(faults_of(record), None) if faults_of else None
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        reason = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as exc:
        reason = f"{type(exc).__name__}: {exc}"
    else:
        if reason is None:
            return record
    raise damaged(where, f"no valid record: {reason}")


def recorded_settings(values: Mapping[str, JsonValue], where: object) -> Settings:
    """Return settings that an archive states. Raises ArchiveDamaged naming `where` if they are none."""
    try:
        settings = load(values)
        if settings.judge_profile:
            profile_in(settings.judge_profile, "judge_profile")  # a word for a file or a run is never looked up
    except (UsageError, RecursionError) as exc:
        raise damaged(where, f"its settings cannot be used: {exc}") from None
    # no archive says where
    return replace(settings, engine="local", ray_address=None, ship=(), isolate="none", memory=None)


def damaged(where: object, reason: str) -> ArchiveDamaged:
    """Return the error for damage at a place, or in a located record; a long reason is cut."""
    where = where.where if isinstance(where, LocatedRecord) else where
    return ArchiveDamaged(f"{where}: {reason if len(reason) <= _REASON else reason[:_REASON] + ' …'}")
