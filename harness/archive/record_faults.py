"""What cannot be so in a record, beyond its types: times, counts and marks with which sums and dates would fail."""

import json
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import Protocol

from pydantic import JsonValue

from harness.core.errors import UsageError
from harness.core.rankings import AnyVerdict, GroupRanking, Judged, Match, PairScores, Scored, SideScores
from harness.core.settings_sources import check_known

_YEARS = range(1900, 9000)
MOST = 2**53
"""Above this a number is no count."""
LONGEST_S = 1e10
"""Nothing that is timed in seconds takes so long."""
HIGHEST = 1e6
"""A mark or a score above this was given by nobody."""


class _HasId(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def created_at(self) -> datetime: ...


class _HasSettings(_HasId, Protocol):
    @property
    def settings(self) -> Mapping[str, JsonValue]: ...


class _HasStart(Protocol):
    @property
    def index(self) -> int: ...
    @property
    def started_at(self) -> datetime: ...


def head_faults(head: _HasId) -> Iterator[str]:
    """Yield what is wrong with the id and the time of a header."""
    if fault := name_fault(head.id):
        yield f"id: {fault}"
    yield from time_faults("created_at", head.created_at, aware=True)


def settings_faults(head: _HasSettings) -> Iterator[str]:
    """Yield what is wrong with the head of a ranking, and what may be wrong with `run.json` as well."""
    yield from head_faults(head)
    if fault := _settings_fault(json.dumps(head.settings)):
        yield f"settings: {fault}"


def name_fault(name: str) -> str | None:
    """Say why a name, which comes from an archive, is not used as a file's; None for a name that is."""
    fit = name.isprintable() and "/" not in name and 1 <= len(name) <= 255 and name not in {".", ".."}
    return None if fit else "not fit to be the name of a file"


def time_faults(name: str, time: datetime, *, aware: bool) -> Iterator[str]:
    """Yield what is wrong with a time, which must have a time zone if it is to be `aware`."""
    if time.year not in _YEARS:
        yield f"{name}: the year {time.year}"
    if aware and time.tzinfo is None:
        yield f"{name}: a time with its time zone is expected"


def rollout_faults(rollout: _HasStart) -> Iterator[str]:
    """Yield what is wrong with a rollout, whole or as the index marks it. An imported one may have no time zone."""
    if not 0 <= rollout.index <= MOST:
        yield "index: a whole number from 0 is expected"
    yield from time_faults("started_at", rollout.started_at, aware=False)
    if abs(getattr(rollout, "duration_s", 0.0)) > LONGEST_S:
        yield "duration_s: no rollout takes so long"


def verdict_faults(verdict: AnyVerdict) -> Iterator[str]:
    """Yield what is wrong with a verdict."""
    yield from time_faults("started_at", verdict.started_at, aware=True)
    if abs(verdict.duration_s) > LONGEST_S:
        yield "duration_s: no verdict takes so long"
    if isinstance(verdict, Judged):
        yield from _mark_faults("a", verdict.a)
        yield from _mark_faults("b", verdict.b)
    if isinstance(verdict, Scored):
        if not len(verdict.scores) == len(verdict.explanations) == len(verdict.transcripts):
            yield "scores: one, and one explanation, for each transcript is expected"
        if not all(0 <= score <= 1 for score in verdict.scores):
            yield "scores: numbers from 0 to 1 are expected"


def pair_scores_faults(scores: PairScores) -> Iterator[str]:
    """Yield what is wrong with what is read of a verdict on a pair."""
    yield from time_faults("started_at", scores.started_at, aware=True)
    if abs(scores.duration_s) > LONGEST_S:
        yield "duration_s: no verdict takes so long"
    for side, combined in (("a", scores.a.combined), ("b", scores.b.combined)):
        if abs(combined) > HIGHEST:
            yield f"{side}: a mark that no judge gives"


def match_faults(group: GroupRanking) -> Iterator[str]:
    """Yield what is wrong with the matches of a ranked group."""
    for number, match in enumerate(group.matches):
        for fault in _match_faults(match):
            yield f"matches.{number}: {fault}"
    if len({bool(match.jurors) for match in group.matches}) > 1:
        yield "matches: jurors in all of them are expected, or in none"


def group_faults(group: GroupRanking, stored: Collection[int]) -> Iterator[str]:
    """Yield where a ranked group does not fit its rollouts, of which `stored` holds the indices, or itself."""
    for index in sorted({r.index for r in group.rollouts} | {i for m in group.matches for i in (m.a, m.b)}):
        if index not in stored:
            yield f"it refers to rollout {index} of query {group.query!r}, which is not there"
    if len({r.index for r in group.rollouts}) != len(group.rollouts):
        yield "rollouts: one has two places"
    places = (n for r in group.rollouts for n in (r.score, r.rank, r.reward, r.advantage, r.margin, r.uncertainty))
    if any(abs(number) > HIGHEST for number in places if number is not None):
        yield "rollouts: a place that no ranking gives"


def _match_faults(match: Match) -> Iterator[str]:
    pair, verdicts = {match.a, match.b}, len(match.verdicts)
    if len(pair) != 2:
        yield "a rollout meets itself"
    if match.winner not in {None, *pair} or not pair.issuperset(match.shown_first):
        yield "it names a rollout that does not take part"
    if not 0 < verdicts == len(match.shown_first) == len(match.scores):
        yield "one rollout shown first, and one pair of scores, for each of its verdicts is expected"
    if len(match.jurors) not in {0, verdicts}:
        yield "jurors: one for each verdict is expected, or none"
    if not 0 <= match.round <= MOST:
        yield "round: a whole number from 0 is expected"
    if max(map(abs, chain((match.score_a, match.score_b), *match.scores))) > HIGHEST:
        yield "a score that no judge gives"


@lru_cache(maxsize=256)
def _settings_fault(settings: str) -> str | None:
    """Return what is wrong with settings as JSON, or None. A run and its rankings mostly have the same."""
    try:
        check_known(json.loads(settings))
    except UsageError as exc:
        return str(exc)
    return None


def _mark_faults(side: str, scores: SideScores) -> Iterator[str]:
    marks = [scores.combined, scores.path or 0, scores.answer or 0, *scores.dimensions.values()]
    if max(marks) > HIGHEST or min(marks) < -HIGHEST:
        yield f"{side}: a mark that no judge gives"
