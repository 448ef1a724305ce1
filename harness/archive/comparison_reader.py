"""Reading a comparison: `compare.json`, and what came of each query. A line without faults refers to what is there."""

import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from harness.archive.reader import FolderReader
from harness.archive.record_faults import HIGHEST, LONGEST_S, MOST, head_faults, name_fault, settings_faults
from harness.archive.result_files import ResultType, heads_in, read_results
from harness.archive.run_info import COMPARISON_FILE, COMPARISON_SEGMENTS, read_info_file
from harness.archive.typed_records import RecordType, check_rubric_text, recorded_settings
from harness.core.comparisons import WINNERS, ComparedQuery, ComparedRollout, ComparedSide, CrossMatch
from harness.core.gates import InterimRule
from harness.core.records import Record
from harness.core.settings import Settings

_SHA256 = re.compile("[0-9a-f]{64}")
_LETTERS = string.ascii_uppercase


class ComparisonInfo(Record):
    """`compare.json`: written once, as the comparison begins. A folder with it, and no run.json, is a comparison."""

    schema_version: int
    id: str
    created_at: datetime
    sides: tuple[ComparedSide, ...]
    """As the user named them, and as they were when the comparison began."""
    settings: Mapping[str, JsonValue]
    judge: Mapping[str, JsonValue]
    """The judge as resolved when the comparison began: model, base_url, api."""
    rubric: str
    """The rubric's label."""
    rubric_text: str | None = None
    """The rubric's own text, whole; None where a key or a pattern of --redact stands in it."""
    rendering: Annotated[int, Field(ge=1, le=999)] = 1
    """The way in which the transcripts are written (harness.transcripts)."""
    task_from: Literal["agent", "file", "nothing"] = "agent"
    """Which task the judge is shown: the sides' own, where it is the same one; a file's (--task); or none."""
    task: str | None = None
    """The file's text; None where there is none, and where a key or a pattern of --redact stands in it."""
    pairs: Annotated[int, Field(ge=0, le=1_000_000)]
    """How many cross pairs of samples meet on each query."""
    cluster: str | None = None
    """The key of the queries' metadata by which queries are alike."""
    early_stop: InterimRule | None = None
    """With which looks a gate could stop before all queries were judged; None where it could not."""
    offline: bool
    """A side's model, or the judge, is the embedded one: the result says nothing of any LLM."""
    queries: int | None = None
    """How many queries the sides share; None where that was not known yet."""
    versions: Mapping[str, str]
    accepted: tuple[str, ...] = ()
    """What the user was warned of and went on with."""

    _text_has_its_fingerprint = model_validator(mode="after")(check_rubric_text)


class ComparisonHead(Record):
    """The first line of a comparison's file."""

    id: str
    created_at: datetime
    sides: tuple[ComparedSide, ...]
    """As they are now: a run that has grown since the comparison began has another basis."""
    notes: tuple[str, ...] = ()
    """What a reader must know, as far as it was known before anything was judged."""
    floors: tuple[float | None, ...]
    """For each side the standard deviation of a query's win rate between equal agents, from its own judged pairs; None
    where the run has too few."""
    interval_version: Annotated[int, Field(ge=1, le=999)] = 1
    """How the intervals are made (harness.comparison.outcomes): a comparison keeps those that it had."""


class ComparisonFooter(Record):
    """The last line of a comparison's file: the comparison is complete."""

    queries: int


class _MatchMark(Record):
    winner: str | None = None


class ComparedMark(Record):
    """Which query a line of a comparison's file holds, and which of its matches are open."""

    query: str
    matches: tuple[_MatchMark, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether a match waits for a verdict."""
        return any(match.winner is None for match in self.matches)


def info_faults(info: ComparisonInfo) -> Iterator[str]:
    """Yield what is wrong with `compare.json`."""
    yield from settings_faults(info)
    yield from _sides_faults(info.sides)
    if not isinstance(info.judge.get("identity"), str):
        yield "judge.identity: a text is expected"


def comparison_head_faults(head: ComparisonHead) -> Iterator[str]:
    """Yield what is wrong with the head of a comparison's file."""
    yield from head_faults(head)
    yield from _sides_faults(head.sides)
    if len(head.floors) != len(head.sides) or not all(0 <= (floor or 0) <= 1 for floor in head.floors):
        yield "floors: for each side a number from 0 to 1, or none, is expected"


def compared_faults(compared: ComparedQuery) -> Iterator[str]:
    """Yield what is wrong with a line of a comparison's file."""
    sides = len(compared.rollouts)
    if not 2 <= sides <= len(_LETTERS) or len(compared.ids) != sides or len(compared.left_out) not in {0, sides}:
        yield "rollouts, ids, left_out: as many as sides are expected, and two or more"
    if not all(0 <= count <= MOST for count in compared.left_out):
        yield "left_out: whole numbers from 0 are expected"
    for number, rollouts in enumerate(compared.rollouts):
        if max(Counter(r.index for r in rollouts).values(), default=1) > 1:
            yield f"rollouts.{number}: two have one index"
        yield from (f"rollouts.{number}: {fault}" for rollout in rollouts for fault in _rollout_faults(rollout))
    for number, match in enumerate(compared.matches):
        yield from (f"matches.{number}: {fault}" for fault in _match_faults(match, compared.rollouts))


def _sides_faults(sides: Sequence[ComparedSide]) -> Iterator[str]:
    if not 2 <= len(sides) <= len(_LETTERS) or [side.label for side in sides] != list(_LETTERS[: len(sides)]):
        yield "sides: two or more are expected, labelled A, B and so on"
    if len({side.run for side in sides}) != len(sides):
        yield "sides: a run is compared with itself"
    for number, side in enumerate(sides):
        if fault := name_fault(side.run):
            yield f"sides.{number}.run: {fault}"
        if not _SHA256.fullmatch(side.sha256):
            yield f"sides.{number}.sha256: the sha256 of a run.json is expected"
        if not 0 <= side.only_here <= MOST:
            yield f"sides.{number}.only_here: a whole number from 0 is expected"


def _rollout_faults(rollout: ComparedRollout) -> Iterator[str]:
    counts = {"index": rollout.index, "steps": rollout.steps, "tokens": rollout.tokens or 0}
    counts["answer_length"] = rollout.answer_length or 0
    for name, count in counts.items():
        if not 0 <= count <= MOST:
            yield f"{name}: a whole number from 0 is expected"
    if not 0 <= (rollout.duration_s or 0) <= LONGEST_S:
        yield "duration_s: no rollout takes so long"
    if any(abs(number or 0) > HIGHEST for number in (rollout.usd, rollout.verified)):
        yield "usd, verified: a number that no rollout has"
    for name in (rollout.transcript, rollout.path_blob, rollout.answer_blob):
        if name is not None and not _SHA256.fullmatch(name):
            yield "transcript, path_blob, answer_blob: a sha256 is expected"


def _match_faults(match: CrossMatch, rollouts: Sequence[Sequence[ComparedRollout]]) -> Iterator[str]:
    first, second = match.sides
    if not 0 <= first < second < len(rollouts):
        yield "sides: two of the sides are expected, the smaller one first"
        return
    if any(at not in {r.index for r in rollouts[side]} for side, at in ((first, match.first), (second, match.second))):
        yield "it refers to a rollout that is not there"
    if not len(match.verdicts) == len(match.shown_first) == len(match.scores):
        yield "one rollout shown first, and one pair of scores, for each verdict is expected"
    means = [score for score in (match.score_first, match.score_second) if score is not None]
    if any(abs(score) > HIGHEST for score in chain(means, *match.scores)):
        yield "a score that no judge gives"
    if len(means) == 1:
        yield "score_first, score_second: both or none are expected"
    if match.forfeit and (match.verdicts or match.winner != WINNERS[match.forfeit]):
        yield "a match that was lost by a failure has its winner, and no verdicts"
    if not match.forfeit and match.winner and not means:
        yield "a match without scores has no winner"


COMPARISON_HEAD = RecordType("header", ComparisonHead.model_validate, comparison_head_faults)
COMPARED_QUERY = RecordType("compared", ComparedQuery.model_validate, compared_faults)
COMPARED_MARK = RecordType("compared", ComparedMark.model_validate)
COMPARISON_FOOTER = RecordType("footer", ComparisonFooter.model_validate)


def read_comparison_info(folder: Path) -> tuple[ComparisonInfo, str]:
    """Return `compare.json` and the sha256 (hex) of its bytes. Raises ArchiveDamaged, NeedsUpgrade."""
    return read_info_file(folder / COMPARISON_FILE, "comparison", ComparisonInfo.model_validate, info_faults)


_COMPARISON = ResultType(COMPARISON_HEAD, COMPARED_QUERY, COMPARED_MARK, attrgetter("is_open"), COMPARISON_FOOTER)


@dataclass(frozen=True)
class ComparisonFile:
    """What one file of a comparison says: its header, the queries as compared, whether its footer is there."""

    head: ComparisonHead
    queries: Sequence[ComparedQuery]
    """Each is read when it is asked for."""
    finished: bool
    """Whether all queries are in it. Matches may be open all the same: a verdict failed."""
    path: Path
    incomplete: int
    """How many of the queries have a match that is open."""


class ComparisonReader(FolderReader):
    """A comparison as it is on disk now. Use it as a context manager, or close it: it keeps its files open."""

    def __init__(self, folder: Path, caches: Path | None = None) -> None:
        """Read `compare.json`. Raises as FolderReader and `read_comparison_info` do."""
        self.info: ComparisonInfo
        self.info, sha256 = read_comparison_info(folder)
        super().__init__(folder, self.info.id, sha256, COMPARISON_SEGMENTS, caches)

    @property
    def settings(self) -> Settings:
        """The settings that the comparison began with. Raises ArchiveDamaged if they are none."""
        return recorded_settings(self.info.settings, self.folder / COMPARISON_FILE)

    def newest(self) -> ComparisonFile | None:
        """Return the newest of the comparison's files, finished or not; None before there is one."""
        heads = heads_in(self.folder / "comparisons", COMPARISON_HEAD)
        return read_comparison(heads[-1][1]) if heads else None

    def files(self) -> list[ComparisonFile]:
        """Return all of the comparison's files, the oldest first: each resuming makes one."""
        heads = heads_in(self.folder / "comparisons", COMPARISON_HEAD)
        return [file for _, path in heads if (file := read_comparison(path))]

    def queries(self) -> Iterator[ComparedQuery]:
        """Yield the queries of the newest file, in the order compared; none before there is one."""
        newest = self.newest()
        yield from newest.queries if newest else ()


def read_comparison(path: Path) -> ComparisonFile | None:
    """Return a comparison's file, or None for one without a header: torn before that was whole, or repaired."""
    file = read_results(path, _COMPARISON)
    return file and ComparisonFile(file.head, file.results, file.finished, path, sum(file.briefs))
