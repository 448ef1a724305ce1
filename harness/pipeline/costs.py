"""What a run takes: its judge calls by their bounds, what agent and judges are estimated to cost, and the ceiling."""

import shlex
from dataclasses import dataclass
from statistics import fmean

from harness.core.errors import UsageError, option, switch
from harness.core.progress import Progress
from harness.core.rankings import GroupRanking
from harness.core.records import Group
from harness.core.settings import Settings
from harness.endpoints.costs import UNKNOWN_ADDRESS, Ceiling, CostBounds, Priced, agent_tokens, judge_tokens, price_list
from harness.pipeline.resolve import AgentSpec, JudgeSpec
from harness.tournament.ranker import Ranker


def judge_cost(settings: Settings, judge: JudgeSpec, calls: tuple[int, int]) -> CostBounds | None:
    """Return what calls cost that are shared out evenly among the jurors."""
    least, most = judge_tokens(settings.judge_budget)
    dearest, bounds = _dearest_tier(settings), list[float]()
    for tokens, tier in ((least, "flex" if settings.judge_tier != "default" else dearest), (most, dearest)):
        prices = [priced.of(tokens.usage(), tier) for priced in _jurors(settings, judge)]
        if None in prices:
            return None
        bounds.append(fmean(price for price in prices if price is not None))
    return CostBounds(calls[0] * bounds[0], calls[1] * bounds[1])


def _dearest_tier(settings: Settings) -> str | None:
    if settings.judge_batch:
        return "batch"
    return "flex" if settings.judge_tier == "flex" else None


def _jurors(settings: Settings, judge: JudgeSpec) -> list[Priced]:
    prices = price_list(settings)
    return [Priced(member.model, member.base_url, member.offline, prices) for member in judge.members]


def check_prices(settings: Settings, judge: JudgeSpec | None, agent: AgentSpec | None = None) -> None:
    """Refuse a ceiling on what has no price. Raises UsageError."""
    if settings.max_cost is None:
        return
    priced = [("the agent's model", at) for at in agent.priced(price_list(settings))] if agent else []
    priced += [("the judge", at) for at in _jurors(settings, judge)] if judge else []
    for who, at in priced:
        if at.of(judge_tokens(0)[0].usage()) is None:
            model = shlex.quote(at.model or "MODEL")
            way_out = f"name it with {option('prices', {model: 'IN/OUT'})}, in USD a million tokens"
            if like := at.list_price:
                way_out += f", or take {like.provider_name}'s list price with {switch('price_by_name')}"
            where = f" at {at.base_url}" if at.base_url and at.base_url != UNKNOWN_ADDRESS else ""
            raise UsageError(
                f"{option('max_cost', settings.max_cost)} cannot be kept: the price of {who} "
                f"({at.model or 'one of its own'}{where}) is unknown; {way_out}, or leave {option('max_cost')} out"
            )


def make_ceiling(settings: Settings, judge: JudgeSpec | None, agent: AgentSpec | None = None) -> Ceiling:
    """Return --max-cost as a ceiling that knows what a call of either kind is likely to cost; `judge` None: unknown."""
    least, tier = judge_tokens(settings.judge_budget)[0].usage(), _dearest_tier(settings)
    judged = [usd for juror in _jurors(settings, judge) if (usd := juror.of(least, tier)) is not None] if judge else []
    rolled_out = (
        agent.priced(price_list(settings))[0].of(agent_tokens(settings.max_turns)[0].usage()) if agent else None
    )
    return Ceiling(
        settings.max_cost,
        {**({"judge": max(judged)} if judged else {}), **({} if rolled_out is None else {"agent": rolled_out})},
    )


def prices_by_name(settings: Settings, judge: JudgeSpec, agent: AgentSpec | None = None) -> list[str]:
    """Return in words which models take the list price of their name (--price-by-name), and whose price that is."""
    if not settings.price_by_name:
        return []
    prices = price_list(settings)
    priced = [*(agent.priced(prices)[:1] if agent else []), *_jurors(settings, judge)]
    named = [(at.model, like) for at in priced if (like := at.list_price)]
    return list(dict.fromkeys(f"{model}: {like.provider_name}'s list price of {like.model}" for model, like in named))


@dataclass(frozen=True)
class Size:
    """How many queries are ranked (None: nobody knows yet), and how many rollouts of one may have ended well."""

    queries: int | None
    rollouts: int


@dataclass
class JudgeCalls:
    """The judge calls of a ranking: those of the queries that are ranked, and at most so many for the others."""

    progress: Progress
    ranker: Ranker
    size: Size
    free: bool = False
    begun: int = 0
    made: int = 0
    under_way: int = 0
    """At most so many for the queries that are being ranked."""

    def report(self) -> None:
        """Report the bounds to the watcher."""
        if self.free:
            self.progress.total("judging", 0, 0)
        elif self.size.queries is None:
            self.progress.total("judging", self.made, None)
        else:
            open_calls = (self.size.queries - self.begun) * self._most(self.size.rollouts)
            self.progress.total("judging", self.made, self.made + self.under_way + open_calls)

    def begin(self, group: Group) -> int:
        """Count a query whose rollouts are there; return how many calls it takes at most."""
        self.begun += 1
        ok = sum(rollout.status == "ok" for rollout in group.rollouts)
        most = min(self._most(ok), self._most(self.size.rollouts))
        self.under_way += most
        self.report()
        return most

    def end(self, most: int, ranking: GroupRanking | None = None) -> None:
        """Count what the ranking of a query took, for which `begin` gave `most`; None if the judge turned it down."""
        self.under_way -= most
        if ranking:
            failed = len(ranking.failed_verdicts) + len(ranking.absent_verdicts)
            self.made += min(most, ranking.judged + failed)
        self.report()

    def leave(self, made: int) -> None:
        """Count a query that is not ranked, for which so many calls were made."""
        self.begun += 1
        self.made += made
        self.report()

    def learn(self, queries: int) -> None:
        """Learn how many queries there are."""
        self.size = Size(queries, self.size.rollouts)
        self.report()

    def _most(self, rollouts: int) -> int:
        return self.ranker.call_bounds(rollouts)[1] if rollouts else 0
