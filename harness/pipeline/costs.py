"""What a plan's agent and judges are taken to cost, by the run's prices, and the ceiling on that."""

import shlex
from statistics import fmean

from harness.core.errors import UsageError
from harness.core.settings import Settings
from harness.core.wording import option, switch
from harness.endpoints.costs import (
    UNKNOWN_ADDRESS,
    Ceiling,
    CostBounds,
    Priced,
    Purchase,
    Tokens,
    agent_tokens,
    cost_bounds,
    judge_tokens,
    price_list,
)
from harness.pipeline.resolve import AgentSpec, JudgeSpec


def agent_cost(settings: Settings, agent: AgentSpec, runs: int) -> CostBounds | None:
    """Return what so many rollouts cost."""
    return cost_bounds((runs, runs), agent_tokens(settings.max_turns), agent.priced(price_list(settings)))


def judge_cost(settings: Settings, judge: JudgeSpec, calls: tuple[int, int]) -> CostBounds | None:
    """Return what calls cost that are shared out evenly among the jurors."""
    least, most = judge_tokens(settings.judge_budget)
    low = _mean_price(settings, judge, least, "flex" if settings.judge_tier != "default" else _dearest_tier(settings))
    high = _mean_price(settings, judge, most, _dearest_tier(settings))
    return None if low is None or high is None else CostBounds(calls[0] * low, calls[1] * high)


def _mean_price(settings: Settings, judge: JudgeSpec, tokens: Tokens, tier: str | None) -> float | None:
    """Return the jurors' mean price of a call at a service tier; None where a price is unknown."""
    prices = [priced.of(tokens.usage(), tier) for priced in _jurors(settings, judge)]
    return None if None in prices else fmean(price for price in prices if price is not None)


def _dearest_tier(settings: Settings) -> str | None:
    """Return the service tier of the dearest judge call; None for the ordinary one."""
    if settings.judge_batch:
        return "batch"
    return "flex" if settings.judge_tier == "flex" else None


def _jurors(settings: Settings, judge: JudgeSpec) -> list[Priced]:
    prices = price_list(settings)
    return [member.priced(prices) for member in judge.members]


def check_prices(settings: Settings, judge: JudgeSpec | None, agent: AgentSpec | None = None) -> None:
    """Refuse a ceiling on what has no price. Raises UsageError."""
    if settings.max_cost is None:
        return
    if agent:
        for priced in agent.priced_each(price_list(settings)):
            _check_price(settings.max_cost, "the agent's model", priced)
    for juror in _jurors(settings, judge) if judge else ():
        _check_price(settings.max_cost, "the judge", juror)


def _check_price(ceiling: float, who: str, at: Priced) -> None:
    if at.of(judge_tokens(0)[0].usage()) is None:
        where = f" at {at.base_url}" if at.base_url and at.base_url != UNKNOWN_ADDRESS else ""
        raise UsageError(
            f"{option('max_cost', ceiling)} cannot be kept: the price of {who} ({at.model or 'one of its own'}{where}) "
            f"is unknown; {_way_out(at)}, or leave {option('max_cost')} out"
        )


def _way_out(at: Priced) -> str:
    name = f"name it with {option('prices', {shlex.quote(at.model or 'MODEL'): 'IN/OUT'})}, in USD a million tokens"
    like = at.list_price
    return f"{name}, or take {like.provider_name}'s list price with {switch('price_by_name')}" if like else name


def ceiling_of(settings: Settings, judge: JudgeSpec | None, agent: AgentSpec | None = None) -> Ceiling:
    """Return --max-cost as a ceiling that knows what a call of either kind is likely to cost; `judge` None: unknown."""
    expected: dict[Purchase, float] = {}
    least = judge_tokens(settings.judge_budget)[0].usage()
    jurors = _jurors(settings, judge) if judge else []
    if listed := [usd for juror in jurors if (usd := juror.of(least, _dearest_tier(settings))) is not None]:
        expected["judge"] = max(listed)
    one = agent_tokens(settings.max_turns)[0].usage()
    if agent and (usd := agent.priced(price_list(settings)).of(one)) is not None:
        expected["agent"] = usd
    return Ceiling(settings.max_cost, expected)


def prices_by_name(settings: Settings, judge: JudgeSpec, agent: AgentSpec | None = None) -> list[str]:
    """Return in words which models take the list price of their name (--price-by-name), and whose price that is."""
    if not settings.price_by_name:
        return []
    prices = price_list(settings)
    priced = [*([agent.priced(prices)] if agent else []), *_jurors(settings, judge)]
    named = [(at.model, like) for at in priced if (like := at.list_price)]
    return list(dict.fromkeys(f"{model}: {like.provider_name}'s list price of {like.model}" for model, like in named))
