"""What work will take and is expected to cost, in lines for people or as JSON."""

from harness.cli.output import print_json, say
from harness.core.wording import counted
from harness.endpoints.costs import CostBounds, Tokens, agent_tokens, judge_tokens
from harness.pipeline.costs import prices_by_name
from harness.pipeline.plan import Prepared, describe_calls
from harness.pipeline.rescoring import Quote
from harness.report.text import dollars


def print_plan(prepared: Prepared, queries: int, *, as_json: bool) -> None:
    """Say what a run would take: the result of --dry-run."""
    if as_json:
        plan = {
            "queries": queries,
            "agent_runs": prepared.settings.n * queries,
            "judge_calls": list(prepared.judge_calls(queries)),
            "judge": prepared.judge.model,
            "agent_at": prepared.agent.place,
            "judge_at": prepared.judge.places,
            "cost_usd": cost_ends(prepared.cost(queries)),
            "prices_by_name": prices_by_name(prepared.settings, prepared.judge, prepared.agent),
            "offline": prepared.offline,
        }
        print_json(plan, indent=None)
    else:
        say("\n".join(plan_lines(prepared, queries)))


def plan_lines(prepared: Prepared, queries: int) -> list[str]:
    """Return what a run will take: agent runs, judge calls, their design, what they may cost."""
    low, high = prepared.judge_calls(queries)
    calls = counted(low, "judge call") if low == high else f"{low:,} to {high:,} judge calls"
    runs = counted(prepared.settings.n * queries, "agent run")
    by = f"(agent: {prepared.agent.place}, judge: {prepared.judge.places}, rubric: {prepared.rubric.name})"
    design_line = describe_calls(prepared.settings)
    return [
        f"{counted(queries, 'query', 'queries')}: {runs}, {calls} {by}",
        *([design_line] if design_line else []),
        _cost_line(prepared, queries),
        *_prices_by_name(prepared),
    ]


def _prices_by_name(prepared: Prepared) -> list[str]:
    lines = prices_by_name(prepared.settings, prepared.judge, prepared.agent)
    return [f"prices by name (--price-by-name): {'; '.join(lines)}"] if lines else []


def _cost_line(prepared: Prepared, queries: int) -> str:
    """Return the estimate of a run's cost, and what it assumes."""
    agent, judge, whole = prepared.agent_cost(queries), prepared.judge_cost(queries), prepared.cost(queries)
    parts = f"(agent {cost_range(agent)}, judge {cost_range(judge)})"
    if whole == CostBounds(0, 0):
        return "estimated cost: $0.00 (embedded parts)"
    if agent is None and judge is None:
        return (
            "estimated cost: unknown (no listed price for these models at these addresses; name prices with --price "
            "MODEL=IN/OUT, in USD a million tokens)"
        )
    estimate = f"estimated cost: {cost_range(whole) if whole else 'unknown'} {parts}"
    settings = prepared.settings
    assumed = [
        f"{tokens_range(*agent_tokens(settings.max_turns))} an agent run",
        f"{tokens_range(*judge_tokens(settings.judge_budget))} a judge call",
    ]
    return f"{estimate}, assuming {' and '.join(assumed)}"


def tokens_range(low: Tokens, high: Tokens) -> str:
    """Return tokens in and out of a piece of work, from the least to the most."""
    least, most = low.usage(), high.usage()
    return f"{least.input:,} to {most.input:,} tokens in, {least.output:,} to {most.output:,} out"


def print_quote(run: str, quote: Quote, *, as_json: bool, several: bool, free: bool) -> None:
    """Say what rescoring a run would reuse and buy (`free`: leave open); of `several` runs, which one it is."""
    if as_json:
        bought, cost = ((0, 0), CostBounds(0.0, 0.0)) if free else (quote.bought, quote.cost)
        row = {
            "run": run,
            "judge": quote.judge,
            "judge_at": quote.judge_places,
            "reused": quote.reused,
            "would_buy": list(bought),
            "cost_usd": cost_ends(cost),
            "prices_by_name": list(quote.prices_by_name),
        }
        print_json(row | ({"would_miss": quote.bought[0]} if free else {}), indent=None)
        return
    line = (
        f"reused {quote.reused:,}, would buy 0 (--free), would miss {quote.bought[0]:,}" if free else quote_line(quote)
    )
    say(f"{run}: {line}" if several else line)


def quote_line(quote: Quote) -> str:
    """Return in a line what a rescoring would reuse and buy."""
    low, high = quote.bought
    buy = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    by_name = f" (--price-by-name; {'; '.join(quote.prices_by_name)})" if quote.prices_by_name else ""
    cost = f"{cost_range(quote.cost)}{by_name}"
    return f"reused {quote.reused:,}, would buy {buy} (judge: {quote.judge_places}); estimated cost: {cost}"


def cost_ends(bounds: CostBounds | None) -> list[float] | None:
    """Return the least and the most that work is taken to cost, for JSON; None where a price is unknown."""
    return [bounds.low, bounds.high] if bounds else None


def cost_range(bounds: CostBounds | None) -> str:
    """Return what work is taken to cost, from the least to the most."""
    if bounds is None:
        return "unknown"
    return dollars(bounds.low) if bounds.low == bounds.high else f"{dollars(bounds.low)} to {dollars(bounds.high)}"
