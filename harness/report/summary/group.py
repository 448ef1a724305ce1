"""One query of a ranking, summed up: a line for lists of queries, and the figures that add up over queries."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from operator import add, attrgetter

from harness.core.cost import NOTHING, Cost, cost, total_cost
from harness.core.group_cache import CachedGroup, CachedRollout, CachedVerdict
from harness.core.rankings import GroupRanking, Scored
from harness.core.records import Group, Role
from harness.ranking.judge_stats.tally import JudgeCall, Tally, judge_calls, tally
from harness.report.summary.match_verdicts import ScoresLookup, verdict_keys
from harness.report.summary.rollouts import last_meeting, samples_above_anchor, score_name

Tallies = Mapping[str, Tally]
"""Tallies by judge."""


@dataclass(frozen=True)
class QualityFigure:
    """A figure of a judge, and what the figure means in one line."""

    name: str
    label: str
    value: str
    meaning: str


@dataclass(frozen=True)
class JudgeFigures:
    """How the judge behaved and what it cost, over one or more groups."""

    matches: int = 0
    both_orders: int = 0
    """Matches judged in both orders with two different transcripts: only such matches can flip."""
    flips: int = 0
    decided: int = 0
    """Verdicts with a winner, of two different transcripts."""
    first_wins: int = 0
    failed: int = 0
    bought: int = 0
    reused: int = 0
    calls: int = 0
    """Model calls paid for in this ranking, repair turns included."""
    cached: int = 0
    """Input tokens that the provider says came from its cache."""
    input: int = 0
    """Input tokens, those included."""
    tokens: int | None = None
    """Tokens of the calls whose endpoint reported usage; None if none did."""
    cost: Cost = NOTHING

    def __add__(self, other: "JudgeFigures") -> "JudgeFigures":
        """Add up."""
        tokens, cost = sum_reported((self.tokens, other.tokens)), self.cost + other.cost
        return JudgeFigures(*map(add, _COUNTS(self), _COUNTS(other)), tokens=tokens, cost=cost)


_COUNTS = attrgetter(*(f.name for f in fields(JudgeFigures) if f.name not in {"tokens", "cost"}))


@dataclass(frozen=True)
class AgentFigures:
    """How many rollouts ran, which failed, and what they cost; without arguments, the figures of no rollout."""

    runs: int = 0
    failed: Counter[str] = field(default_factory=Counter[str])
    """Failed rollouts by kind of failure."""
    partial: int = 0
    """Rollouts that did not fail and were captured in part only."""
    tokens: int | None = None
    """Tokens of the rollouts whose endpoint reported usage; None if none did."""
    cost: Cost = NOTHING

    def __add__(self, other: "AgentFigures") -> "AgentFigures":
        """Add up."""
        failed = self.failed + other.failed if other.failed else self.failed
        tokens, cost = sum_reported((self.tokens, other.tokens)), self.cost + other.cost
        return AgentFigures(self.runs + other.runs, failed, self.partial + other.partial, tokens, cost)


def judge_figures(ranking: GroupRanking, calls: Iterable[JudgeCall]) -> JudgeFigures:
    """Return the judge's figures in one group, of which `calls` are all; matches on earlier scores do not count."""
    matches = [m for m in ranking.matches if not m.repeated]
    leads = [call.score_first - call.score_second for call in calls]
    return paid_figures(
        ranking,
        matches=len(matches),
        # of identical transcripts there is one verdict for both orders
        both_orders=sum(len({*m.shown_first}) == 2 and len({*m.verdicts}) == len(m.verdicts) for m in matches),
        flips=sum([m.flipped for m in matches]),
        decided=len(leads) - leads.count(0),
        first_wins=sum([lead > 0 for lead in leads]),
        failed=len(ranking.failed_verdicts),
    )


def paid_figures(ranking: GroupRanking, **others: int) -> JudgeFigures:
    """Return of one group's ranking what was bought for it, and at what price; `others` are further figures."""
    usage = ranking.judge_usage
    return JudgeFigures(
        **others,
        bought=ranking.judged,
        reused=ranking.reused,
        calls=usage.requests,
        cached=usage.cached or 0,
        input=usage.input or 0,
        tokens=usage.tokens,
        cost=ranking.judge_cost,
    )


def calls_by_judge(
    ranking: GroupRanking, verdicts: ScoresLookup, answer_words: Mapping[int, int] | None = None
) -> dict[str, list[JudgeCall]]:
    """Return the calls that one group's ranking rests on, by judge; `answer_words` are lengths by rollout."""
    judged = (verdict for key in verdict_keys(ranking.matches) if (verdict := verdicts(key)))
    return judge_calls(ranking, judged, answer_words or {})


def tallies(group: Group, ranking: GroupRanking, verdicts: ScoresLookup) -> dict[str, Tally]:
    """Sum up one group's verdicts by judge."""
    answer_words = {r.index: len(r.trajectory.answer.split()) for r in group.rollouts}
    return {judge: tally(calls) for judge, calls in calls_by_judge(ranking, verdicts, answer_words).items()}


def add_tallies(parts: Iterable[Tallies]) -> dict[str, Tally]:
    """Add up tallies judge by judge."""
    sums: dict[str, Tally] = {}
    for part in parts:
        for judge, added in part.items():
            sums[judge] = sums.get(judge, Tally()) + added
    return sums


def sum_reported(tokens: Iterable[int | None]) -> int | None:
    """Return the sum of the numbers of tokens that were reported; None if none was."""
    reported = [t for t in tokens if t is not None]
    return sum(reported) if reported else None


TimeSpan = tuple[float, float]
"""From when to when, in seconds since 1970."""


@dataclass(frozen=True)
class ModelNames:
    """The names of the models that took part."""

    asked: frozenset[str] = frozenset()
    replied: frozenset[str] = frozenset()
    """As the replies named them."""
    judges: frozenset[str] = frozenset()

    def __add__(self, other: "ModelNames") -> "ModelNames":
        return ModelNames(self.asked | other.asked, self.replied | other.replied, self.judges | other.judges)


@dataclass(frozen=True, slots=True)
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
    usd_at_least: float | None = None
    """The part of an unknown price that is known."""

    @property
    def cost(self) -> Cost:
        """What agent and judge cost."""
        return cost(self.usd, self.usd_at_least)


@dataclass(frozen=True)
class GroupSummary:
    """What one group adds to the summary of a ranking."""

    line: QueryLine
    agents: AgentFigures
    judge: JudgeFigures
    calls: Mapping[str, Sequence[JudgeCall]]
    """The calls that it rests on, by judge."""
    models: ModelNames
    spans: tuple[TimeSpan, ...]
    """When a rollout or a verdict was under way: in order, and none overlaps another."""
    sources: Counter[str]
    """How many of its verdicts were bought in which other run."""


def summarize_group(
    number: int, extract: CachedGroup, ranking: GroupRanking, scored: Callable[[str], Scored | None]
) -> GroupSummary:
    """Sum up one group, the `number`-th query; `scored` looks verdicts on lists up by key."""
    by_key = extract.by_key()
    verdicts = [verdict for key in verdict_keys(ranking.matches) if (verdict := by_key.get(key))]
    lists = list(filter(None, map(scored, ranking.verdicts)))
    rollouts, every = extract.rollouts, [*verdicts, *lists]
    calls = _calls(rollouts, verdicts)
    agents = AgentFigures(
        runs=len(rollouts),
        failed=Counter(r.failure for r in rollouts if r.failure),
        partial=sum(r.capture == "partial" and r.failure is None for r in rollouts),
        tokens=sum_reported(r.tokens for r in rollouts),
        cost=total_cost(r.cost for r in rollouts),
    )
    judge = judge_figures(ranking, chain.from_iterable(calls.values()))
    timed = [(began := each.started, began + each.seconds) for each in (*rollouts, *verdicts)]
    timed += [(began := v.started_at.timestamp(), began + v.duration_s) for v in lists]
    spans = tuple(merged_spans(timed))
    models = ModelNames(
        asked=frozenset(chain.from_iterable(r.asked for r in rollouts)),
        replied=frozenset(chain.from_iterable(r.replied for r in rollouts)),
        judges=frozenset(v.judge for v in every),
    )
    line = _query_line(number, extract, ranking, agents, judge, spans)
    sources = Counter(verdict.source for verdict in every if verdict.source)
    return GroupSummary(line, agents, judge, calls, models, spans, sources)


def merged_spans(spans: Iterable[TimeSpan]) -> Iterator[TimeSpan]:
    """Yield spans in order; spans that touch or overlap become one."""
    ordered = iter(sorted(spans))
    if (earliest := next(ordered, None)) is None:
        return
    begin, end = earliest
    for begins, ends in ordered:
        if begins > end:
            yield begin, end
            begin, end = begins, ends
        elif ends > end:
            end = ends
    yield begin, end


def _calls(rollouts: Iterable[CachedRollout], verdicts: Iterable[CachedVerdict]) -> dict[str, list[JudgeCall]]:
    """Return verdicts as calls, by judge; one on two equal transcripts does not count."""
    shown = {r.number: (r.shown or "", r.answer_words) for r in rollouts}
    by_judge: dict[str, list[JudgeCall]] = {}
    for one, other, repeat, _, judge, score_one, score_other, claimed, claimed_winner, repaired, _, _, _ in verdicts:
        (first, length_first), (second, length_second) = shown[one], shown[other]
        if first != second:
            scores, found = (score_one, score_other, repeat), (claimed, claimed_winner, repaired)
            call = JudgeCall._make((first, second, *scores, *found, length_first, length_second))
            by_judge.setdefault(judge, []).append(call)
    return by_judge


def _query_line(
    number: int,
    extract: CachedGroup,
    ranking: GroupRanking,
    agents: AgentFigures,
    judge: JudgeFigures,
    spans: Iterable[TimeSpan],
) -> QueryLine:
    ranked = sorted((r for r in ranking.rollouts if r.rank is not None), key=lambda r: r.order)
    roles: dict[int, Role] = {r.number: r.role for r in extract.rollouts}
    anchors = [number for number, role in roles.items() if role == "anchor"]
    by_tie = False
    if len(ranked) > 1 and ranking.estimator == "tiers" and ranked[0].rank != ranked[1].rank:
        match = last_meeting(ranking, ranked[0].index, ranked[1].index)
        by_tie = match is not None and match.winner is None
    return QueryLine(
        number=number,
        id=extract.query,
        title=extract.title,
        signal=ranking.signal,
        complete=ranking.status == "complete",
        first=tuple(r.index for r in ranked if r.rank == ranked[0].rank),
        first_role=roles[ranked[0].index] if ranked else None,
        by_tie=by_tie,
        score=ranked[0].score if ranked else None,
        score_name=score_name(ranking),
        scores=tuple(r.score for r in ranked if r.score is not None),
        anchor_score=next((r.score for r in ranked if r.index in anchors), None),
        p_best=ranked[0].p_best if ranked else None,
        flips=(judge.flips, judge.both_orders),
        tokens=sum_reported((agents.tokens, judge.tokens)),
        **(agents.cost + judge.cost).named("usd"),
        seconds=round(sum(end - start for start, end in spans), 6),
        metadata=extract.metadata,
        above_anchor=samples_above_anchor(anchors, ranking),
        runs=agents.runs,
        failed=agents.failed.total(),
    )
