"""One query of a ranking, summed up: a line for lists of queries, and the figures that add up over queries."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from operator import itemgetter

from pydantic import JsonValue

from harness.core.rankings import GroupRanking
from harness.core.records import Group, Role, Rollout
from harness.core.sums import sum_if_known
from harness.core.verdicts import PairJudgment, Scored
from harness.ranking import Tally
from harness.report.summary.figures import (
    AgentFigures,
    JudgeFigures,
    agent_figures,
    judge_figures,
    sum_reported,
    tallies,
)
from harness.report.summary.first_two import last_meeting
from harness.report.summary.match_verdicts import ScoresLookup, verdict_keys
from harness.report.summary.placed_rollouts import (
    PlacedRollout,
    samples_above_anchor,
    score_name,
    sharing_first_place,
    with_a_rank,
)

TimeSpan = tuple[datetime, datetime]
_TITLE = 300
"""Characters of a query's text, and of what came with it, that a line keeps."""


@dataclass(frozen=True)
class ModelNames:
    """The names of the models that took part."""

    asked: frozenset[str] = frozenset()
    replied: frozenset[str] = frozenset()
    """As the replies named them."""
    judges: frozenset[str] = frozenset()

    def __add__(self, other: "ModelNames") -> "ModelNames":
        return ModelNames(self.asked | other.asked, self.replied | other.replied, self.judges | other.judges)


@dataclass(frozen=True)
class QueryLine:
    """The line of a query in a list of many."""

    number: int
    """From 1, in the order of the queries."""
    id: str
    title: str
    signal: str
    complete: bool
    first: tuple[int, ...]
    """The rollouts that share first place."""
    first_role: Role | None
    """The role of the first of them."""
    by_tie: bool
    """Whether one rollout is first though its match with the second was a tie: its seed decided."""
    score: float | None
    """Of the first of them, and what it is a score of."""
    score_name: str
    scores: tuple[float, ...]
    """Of all rollouts that have one, best place first."""
    anchor_score: float | None
    p_best: float | None
    flips: tuple[int, int]
    """Matches that flipped, and matches that could."""
    tokens: int | None
    """Of agent and judge; None where no endpoint reported any."""
    usd: float | None
    """What agent and judge cost; None where a price is unknown."""
    seconds: float
    """While a rollout or a verdict was under way."""
    metadata: Mapping[str, float | str]
    """What came with the query: numbers, and the beginnings of all else as text."""
    above_anchor: tuple[int, int]
    """Ranked samples above the anchor, and ranked samples in all."""
    runs: int
    failed: int


@dataclass(frozen=True)
class GroupSummary:
    """What one group adds to the summary of a ranking."""

    line: QueryLine
    agents: AgentFigures
    judge: JudgeFigures
    tallies: dict[str, Tally]
    models: ModelNames
    spans: tuple[TimeSpan, ...]
    """When a rollout or a verdict was under way: in order, and none overlaps another."""
    sources: Counter[str]
    """How many of its verdicts were bought in which other run."""


def summarize_group(
    number: int,
    group: Group,
    ranking: GroupRanking,
    judged: ScoresLookup,
    scored: Callable[[str], Scored | None],
) -> GroupSummary:
    """Sum up one group, the `number`-th query; `judged` and `scored` look its verdicts up by key."""
    judged = cache(judged)
    verdicts = list(_verdicts(ranking, judged, scored))
    timed: list[Rollout | PairJudgment | Scored] = [*group.rollouts, *verdicts]
    agents, judge = agent_figures(group.rollouts), judge_figures(ranking, judged)
    spans = tuple(merged_spans((r.started_at, r.started_at + timedelta(seconds=r.duration_s)) for r in timed))
    return GroupSummary(
        line=_query_line(number, group, ranking, _Totals(agents, judge, spans)),
        agents=agents,
        judge=judge,
        tallies=tallies(group, ranking, judged),
        models=_model_names(group, verdicts),
        spans=spans,
        sources=Counter(verdict.source for verdict in verdicts if verdict.source),
    )


def merged_spans(spans: Iterable[TimeSpan]) -> Iterator[TimeSpan]:
    """Yield spans in order; spans that touch or overlap become one."""
    current: TimeSpan | None = None
    until = -math.inf
    seconds = ((start.timestamp(), end.timestamp(), (start, end)) for start, end in spans)  # much faster to compare
    for begins, ends, span in sorted(seconds, key=itemgetter(0)):
        if current and begins <= until:
            current = (current[0], span[1] if ends > until else current[1])
        else:
            if current:
                yield current
            current, until = span, ends
        until = max(until, ends)
    if current:
        yield current


def _verdicts(
    ranking: GroupRanking, judged: ScoresLookup, scored: Callable[[str], Scored | None]
) -> Iterator[PairJudgment | Scored]:
    """Yield the verdicts of a group, pairwise and listwise, each once."""
    for key in verdict_keys(ranking.matches):
        if verdict := judged(key):
            yield verdict
    for key in ranking.verdicts:
        if verdict := scored(key):
            yield verdict


@dataclass(frozen=True)
class _Totals:
    """What agent and judge took for one group."""

    agents: AgentFigures
    judge: JudgeFigures
    spans: tuple[TimeSpan, ...]


def _query_line(number: int, group: Group, ranking: GroupRanking, totals: _Totals) -> QueryLine:
    placed = with_a_rank(group, ranking)
    agents, judge = totals.agents, totals.judge
    return QueryLine(
        number=number,
        id=group.query.id,
        title=group.query.text[:_TITLE],
        signal=ranking.signal,
        complete=ranking.status == "complete",
        first=tuple(r.index for r in sharing_first_place(placed)),
        first_role=placed[0].rollout.role if placed else None,
        by_tie=_by_tie(placed, ranking),
        score=placed[0].ranked.score if placed else None,
        score_name=score_name(ranking),
        scores=tuple(p.ranked.score for p in placed if p.ranked.score is not None),
        anchor_score=next((p.ranked.score for p in placed if p.rollout.role == "anchor"), None),
        p_best=placed[0].ranked.p_best if placed else None,
        flips=(judge.flips, judge.both_orders),
        tokens=sum_reported((agents.tokens, judge.tokens)),
        usd=sum_if_known((agents.usd, judge.usd)),
        seconds=sum((end - start).total_seconds() for start, end in totals.spans),
        metadata={name: _brief(v) for name, v in group.query.metadata.items() if v is not None},
        above_anchor=samples_above_anchor(group, ranking),
        runs=agents.runs,
        failed=agents.failed.total(),
    )


def _by_tie(placed: Sequence[PlacedRollout], ranking: GroupRanking) -> bool:
    if len(placed) < 2 or ranking.estimator != "tiers" or placed[0].ranked.rank == placed[1].ranked.rank:
        return False
    match = last_meeting(ranking, placed[0].rollout.index, placed[1].rollout.index)
    return match is not None and match.winner is None


def _brief(value: JsonValue) -> float | str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:_TITLE]


def _model_names(group: Group, verdicts: Iterable[PairJudgment | Scored]) -> ModelNames:
    asked = (model for r in group.rollouts for model in (r.requested.model, *(c.model for c in r.calls)))
    replied = (c.replied_model for r in group.rollouts for c in r.calls)
    return ModelNames(
        asked=frozenset(filter(None, asked)),
        replied=frozenset(filter(None, replied)),
        judges=frozenset(v.judge for v in verdicts),
    )
