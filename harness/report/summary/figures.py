"""What the judge and the agent did and cost, in figures that add up over groups."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import add, attrgetter

from harness.core.group_cache import CachedRollout
from harness.core.rankings import GroupRanking, Match
from harness.core.records import Group
from harness.core.sums import sum_if_known
from harness.ranking.judge_stats.tally import JudgeCall, Tally, judge_calls, tally
from harness.report.summary.match_verdicts import ScoresLookup, verdict_keys

Tallies = Mapping[str, Tally]
"""Tallies by judge."""


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
    usd: float | None = 0.0

    def __add__(self, other: "JudgeFigures") -> "JudgeFigures":
        """Add up; a cost with an unknown part is unknown."""
        return JudgeFigures(
            *map(add, _COUNTS(self), _COUNTS(other)),
            tokens=sum_reported((self.tokens, other.tokens)),
            usd=sum_if_known((self.usd, other.usd)),
        )


_COUNTS = attrgetter(*(f.name for f in fields(JudgeFigures) if f.name not in {"tokens", "usd"}))


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
    usd: float | None = 0.0

    def __add__(self, other: "AgentFigures") -> "AgentFigures":
        """Add up; a cost with an unknown part is unknown."""
        return AgentFigures(
            runs=self.runs + other.runs,
            failed=self.failed + other.failed if other.failed else self.failed,
            partial=self.partial + other.partial,
            tokens=sum_reported((self.tokens, other.tokens)),
            usd=sum_if_known((self.usd, other.usd)),
        )


def judge_figures(ranking: GroupRanking, calls: Iterable[JudgeCall]) -> JudgeFigures:
    """Return the judge's figures in one group, of which `calls` are all, each once. Costs are those of what was bought.

    A match that rests on an earlier one counts once.
    """
    matches = [m for m in ranking.matches if not m.repeated]
    leads = [call.score_first - call.score_second for call in calls]
    return paid_figures(
        ranking,
        matches=len(matches),
        both_orders=sum(map(_both_orders, matches)),
        flips=sum([m.flipped for m in matches]),
        decided=len(leads) - leads.count(0),
        first_wins=sum([lead > 0 for lead in leads]),
        failed=len(ranking.failed_verdicts),
        reused=ranking.reused,
    )


def paid_figures(ranking: GroupRanking, **others: int) -> JudgeFigures:
    """Return of one group's ranking what was bought for it, and at what price; `others` are further figures."""
    usage = ranking.judge_usage
    return JudgeFigures(
        **others,
        bought=ranking.judged,
        calls=usage.requests,
        cached=usage.cached or 0,
        input=usage.input or 0,
        tokens=usage.tokens,
        usd=ranking.judge_usd,
    )


def agent_figures(rollouts: Sequence[CachedRollout]) -> AgentFigures:
    """Return the agent's figures over rollouts."""
    return AgentFigures(
        runs=len(rollouts),
        failed=Counter(r.failure for r in rollouts if r.failure),
        partial=sum(r.capture == "partial" and r.failure is None for r in rollouts),
        tokens=sum_reported(r.tokens for r in rollouts),
        usd=sum_if_known(r.usd for r in rollouts),
    )


def tallies(group: Group, ranking: GroupRanking, verdicts: ScoresLookup) -> dict[str, Tally]:
    """Sum up one group's verdicts by judge."""
    judged = (verdict for key in verdict_keys(ranking.matches) if (verdict := verdicts(key)))
    answer_words = {r.index: len(r.trajectory.answer.split()) for r in group.rollouts}
    return {judge: tally(calls) for judge, calls in judge_calls(ranking, judged, answer_words).items()}


def add_tallies(parts: Iterable[Tallies]) -> dict[str, Tally]:
    """Add up tallies judge by judge."""
    sums: dict[str, Tally] = {}
    for part in parts:
        for judge, added in part.items():
            sums[judge] = sums.get(judge, Tally()) + added
    return sums


def _both_orders(match: Match) -> bool:
    """Tell whether both orders were judged, of two different transcripts: identical ones have one key for both."""
    keys, shown_first = match.verdicts, match.shown_first
    if len(keys) == 2:  # as in most matches
        return shown_first[0] != shown_first[1] and keys[0] != keys[1]
    return len(set(shown_first)) == 2 and len(set(keys)) == len(keys)


def sum_reported(tokens: Iterable[int | None]) -> int | None:
    """Return the sum of the numbers of tokens that were reported; None if none was."""
    reported = [t for t in tokens if t is not None]
    return sum(reported) if reported else None
