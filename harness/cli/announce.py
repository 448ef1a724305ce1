"""What commands print before they spend: the cost of the work, the limits of its results, idle options."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.panel import Panel

from harness.cli.console import stderr
from harness.cli.output import Caller, print_json, say
from harness.core.errors import counted, did_you_mean, option, quoted
from harness.core.prices import prices_of
from harness.core.recipes import AUTO_PARAPHRASES
from harness.core.settings import SETTINGS, Settings
from harness.core.settings_sources import CYCLIC_FROM, misspelt, settled
from harness.endpoints.costs import CostBounds, Tokens, agent_tokens, judge_tokens
from harness.pipeline.comparing.compare import ComparisonQuote, RollOutQuote
from harness.pipeline.plan import Prepared, describe_calls
from harness.pipeline.rescoring import Quote
from harness.pipeline.resolve import prices_by_name
from harness.pipeline.stages import describe_batches
from harness.report.terminal.table import on_one_line
from harness.report.text import dollars
from harness.rollouts.variation import recipes, vary_in
from harness.tournament.ranker import METHODS

_OF_MODELS = ("model", "base_url", "api")
_OFFLINE_COMPARISON = (
    "This comparison uses the embedded model or judge.\nIt shows that everything works; it says nothing of any LLM."
)


def announce_run(
    caller: Caller, prepared: Prepared, queries: int, values: Mapping[str, Any], flags: Mapping[str, Any]
) -> None:
    """Print what a run is about to take, and which of the user's `values` do nothing; with --dry-run as the result."""
    console = stderr(quiet=caller.quiet)
    note_idle_judge_options(console, prepared.settings, values)
    note_idle_agent_options(console, prepared, values)
    note_idle_prices(console, prepared, flags.get("prices"))
    warn(console, prepared, caller.environ)
    if caller.dry_run:
        print_plan(prepared, queries, as_json=caller.as_json)
        return
    for line in plan_lines(prepared, queries):
        console.print(line)
    _note_batches(console, prepared.settings)


def warn(console: Console, prepared: Prepared, environ: Mapping[str, str]) -> None:
    """Print what the results will not be worth, and which names in the environment look like misspelt settings."""
    for words in misspelt(environ):
        console.print(f"note: {words}")
    embedded = {"model": prepared.agent.offline, "judge": prepared.judge.offline}
    if prepared.offline:
        parts = [part for part, is_embedded in embedded.items() if is_embedded]
        by_default = prepared.agent.offline and not prepared.settings.offline
        why = " No OPENAI_API_KEY and no address is set." if by_default else ""
        text = f"This run uses the embedded {' and '.join(parts)}.{why}\nIt shows that everything works; "
        _print_offline_notice(console, text + "its ranks say nothing of any LLM.")
    elif prepared.settings.judge_model is None and not prepared.judge_agents and prepared.settings.topology != "none":
        console.print(
            f"note: the judge is the agent's own model, {prepared.judge.model}; judges favour their own. "
            "Name another with --judge-model."
        )


def _print_offline_notice(console: Console, notice: str) -> None:
    whole_width = console.is_terminal  # without one a line has no end
    console.print(Panel(notice, title="OFFLINE SELF-TEST", border_style="yellow", expand=whole_width))


def announce_design(console: Console, settings: Settings) -> None:
    """Print what a budget of judge calls is spent on."""
    if plan := describe_calls(settings):
        console.print(plan)
    _note_batches(console, settings)


def _note_batches(console: Console, settings: Settings) -> None:
    if several := describe_batches(settings):
        console.print(f"note: {several}")


def note_idle_judge_options(console: Console, settings: Settings, values: Mapping[str, Any]) -> None:
    """Name the settings among `values` that do nothing in this way of judging."""
    method = METHODS[settings.judge]
    idle = [SETTINGS[name].flag for name in method.without_effect if name in values]
    if idle:
        console.print(
            f"note: {', '.join(idle)} {'does' if len(idle) == 1 else 'do'} not apply to --judge {settings.judge}, "
            f"which {method.summary}"
        )


def note_idle_agent_options(console: Console, prepared: Prepared, values: Mapping[str, Any]) -> None:
    """Name the settings among `values` that do nothing with this agent."""
    idle = [SETTINGS[name].flag for name in _OF_MODELS if values.get(name) is not None]
    if prepared.agent.offline and idle:
        console.print(f"note: the embedded model has no use for {', '.join(idle)}")
    vary = vary_in(prepared.settings)
    if values.get("temperature") is not None and not (vary.temperature or vary.auto):
        console.print("note: --temperature does nothing here: temperature is not among the ways of --vary")
    loaded = prepared.agent.loaded
    if prepared.settings.judge_when == "tied" and loaded.reward is None:
        console.print(
            f"note: agent {loaded.name!r} has no reward(), so --judge-when tied leaves all of its rollouts to the judge"
        )


def note_idle_prices(console: Console, prepared: Prepared, words: Iterable[str] | None) -> None:
    """Name the models among `words` of --price that are neither the agent's nor a judge's.

    What the models are of an agent that brings its own is not known.
    """
    if words is None or prepared.agent.model is None:
        return
    models = {prepared.agent.model, *(member.asked for member in prepared.judge.members)}
    for name in sorted(prices_of(words).keys() - models):
        console.print(
            f"note: --price {quoted(name)} counts only where an endpoint replies with that name: neither the agent's "
            f"model nor a judge's has it{did_you_mean(name, models)}"
        )


def print_plan(prepared: Prepared, queries: int, *, as_json: bool) -> None:
    """Say what a run would take: the result of --dry-run."""
    if not as_json:
        say("\n".join([*plan_lines(prepared, queries), *_better_design(prepared)]))
    else:
        plan = {
            "queries": queries,
            "agent_runs": prepared.settings.n * queries,
            "judge_calls": list(prepared.judge_calls(queries)),
            "judge": prepared.judge.model,
            "agent_at": prepared.agent.place,
            "judge_at": prepared.judge.places,
            "cost_usd": _cost_ends(prepared.cost(queries)),
            "prices_by_name": prices_by_name(prepared.settings, prepared.judge, prepared.agent),
            "offline": prepared.offline,
            **({} if (vary := prepared.settings.vary) is None else {"vary": vary}),
        }
        print_json(plan, indent=None)


def plan_lines(prepared: Prepared, queries: int) -> list[str]:
    """Return what a run will take: agent runs, judge calls, their design, what they may cost."""
    low, high = prepared.judge_calls(queries)
    calls = counted(low, "judge call") if low == high else f"{low:,} to {high:,} judge calls"
    runs = counted(prepared.settings.n * queries, "agent run")
    by = f"(agent: {prepared.agent.place}, judge: {prepared.judge.places}, rubric: {prepared.rubric.name})"
    design_line = describe_calls(prepared.settings)
    by_name = "; ".join(prices_by_name(prepared.settings, prepared.judge, prepared.agent))
    return [
        f"{counted(queries, 'query', 'queries')}: {runs}, {calls} {by}",
        *([design_line] if design_line else []),
        *_recipe_lines(prepared),
        _cost_line(prepared, queries),
        *([f"prices by name (--price-by-name): {by_name}"] if by_name else []),
    ]


def _recipe_lines(prepared: Prepared) -> list[str]:
    """Return how samples differ, where not by temperature alone: each recipe, and each variant's first line."""
    if prepared.settings.vary is None:
        return []
    vary = vary_in(prepared.settings)
    if vary.asks_first:
        works = f"the first that works of temperature, effort and {AUTO_PARAPHRASES} paraphrases of the instructions"
        what = works if vary.auto else f"{vary}: paraphrases of the instructions"
        model, price = prepared.agent.place, cost_range(prepared.way_cost)
        return [f"samples vary by {what}; {model} is asked before the first rollout, cost {price}"]
    names = ", ".join(dict.fromkeys(recipe.name for recipe in recipes(vary)))
    first = [f"instructions={at}: {on_one_line(text, 100)}" for at, text in enumerate(vary.variants, 1)]
    return [f"samples vary by {counted(vary.count, 'recipe')}: {names or 'temperature'}", *first]


def _better_design(prepared: Prepared) -> list[str]:
    """Return which design ranks better for about as many calls, as benchmarks/ranking.py and leanings.py show."""
    settings = prepared.settings
    if settings.topology != "arena" or settings.n < CYCLIC_FROM or settings.judge != "pairwise":
        return []
    cyclic = replace(prepared, settings=settled(replace(settings, topology="auto")))
    calls = counted(cyclic.judge_calls(1)[1], "judge call")
    gain = "rank correlation .78 in place of .73 under a usual judge"
    if prepared.leanings and prepared.leanings.are_shown:
        gain = "rank correlation .76 in place of .72 under a judge with leanings, as this one"
    return [f"--topology auto: cyclic, {calls} a query; {gain} (8 rollouts)"]


def _cost_line(prepared: Prepared, queries: int) -> str:
    """Return the estimate of a run's cost, and what it assumes."""
    agent, judge, whole = prepared.agent_cost(queries), prepared.judge_cost(queries), prepared.cost(queries)
    if whole == CostBounds(0, 0):
        return "estimated cost: $0.00 (embedded parts)"
    if agent is None and judge is None:
        return (
            "estimated cost: unknown (no listed price for these models at these addresses; name prices with --price "
            "MODEL=IN/OUT, in USD a million tokens)"
        )
    of_run = _tokens_range(*agent_tokens(prepared.settings.max_turns))
    of_call = _tokens_range(*judge_tokens(prepared.settings.judge_budget))
    ceiling = prepared.settings.max_cost
    short = f"; {option('max_cost', ceiling)} is less" if whole and ceiling is not None and ceiling < whole.low else ""
    return (
        f"estimated cost: {cost_range(whole)} (agent {cost_range(agent)}, judge {cost_range(judge)}), "
        f"assuming {of_run} an agent run and {of_call} a judge call{short}"
    )


def _tokens_range(low: Tokens, high: Tokens) -> str:
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
            "cost_usd": _cost_ends(cost),
            "prices_by_name": list(quote.prices_by_name),
        }
        print_json(row | ({"would_miss": quote.bought[0]} if free else {}), indent=None)
    else:
        missed = f"reused {quote.reused:,}, would buy 0 (--free), would miss {quote.bought[0]:,}"
        line = missed if free else quote_line(quote)
        say(f"{run}: {line}" if several else line)


def quote_line(quote: Quote) -> str:
    """Return in a line what a rescoring would reuse and buy."""
    low, high = quote.bought
    buy = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"reused {quote.reused:,}, would buy {buy} (judge: {quote.judge_places}); {_quoted_cost(quote)}"


def _quoted_cost(quote: Quote) -> str:
    by_name = f" (--price-by-name; {'; '.join(quote.prices_by_name)})" if quote.prices_by_name else ""
    return f"estimated cost: {cost_range(quote.cost)}{by_name}"


def _cost_ends(bounds: CostBounds | None) -> list[float] | None:
    return [bounds.low, bounds.high] if bounds else None


def cost_range(bounds: CostBounds | None) -> str:
    """Return bounds of a cost in words."""
    if bounds is None:
        return "unknown"
    return dollars(bounds.low) if bounds.low == bounds.high else f"{dollars(bounds.low)} to {dollars(bounds.high)}"


def announce_comparison(console: Console, quote: ComparisonQuote | RollOutQuote) -> None:
    """Print what a comparison is about to take, and whom it asks, before anything is spent."""
    if quote.offline:
        _print_offline_notice(console, _OFFLINE_COMPARISON)
    for line in comparison_quote_lines(quote):
        console.print(line, soft_wrap=True)


def comparison_quote_lines(quote: ComparisonQuote | RollOutQuote) -> list[str]:
    """Return what a comparison takes: rollouts, pairs, verdicts, whom it asks, what that may cost."""
    by = f"judge: {quote.judge_places}, rubric: {quote.rubric}"
    queries = counted(quote.queries, "query", "queries")
    if isinstance(quote, RollOutQuote):
        runs = counted(quote.agent_runs, "agent run")
        agents = ", ".join(f"{label}: {place}" for label, place in quote.places)
        parts = f"(agents {cost_range(quote.agent_cost)}, judge {cost_range(quote.judge_cost)})"
        return [
            f"{queries}: {runs}, up to {counted(quote.judge_calls[1], 'judge call')} ({agents}, {by})",
            f"estimated cost: {cost_range(quote.cost)} {parts}",
        ]
    pairs = counted(quote.pairs, "pair")
    lost = f", {quote.forfeits:,} of them lost by a failure, without a judge" if quote.forfeits else ""
    shared = f"{queries} in common: {pairs}, the anchors' among them{lost}"
    if quote.complete:
        return [shared, "nothing to buy: the comparison is there"]
    return [shared, f"reused {quote.reused:,}, would buy {quote.bought[0]:,} ({by}); {_quoted_cost(quote)}"]


def comparison_quote_json(quote: ComparisonQuote | RollOutQuote) -> Mapping[str, object]:
    """Return what a comparison takes, for --json."""
    row: dict[str, object] = {"queries": quote.queries, "judge": quote.judge, "judge_at": quote.judge_places}
    row |= {"offline": quote.offline, "cost_usd": _cost_ends(quote.cost)}
    if isinstance(quote, RollOutQuote):
        agents = [place for _, place in quote.places]
        return row | {"agent_runs": quote.agent_runs, "judge_calls": [*quote.judge_calls], "agents_at": agents}
    more = {"pairs": quote.pairs, "forfeits": quote.forfeits, "reused": quote.reused, "would_buy": [*quote.bought]}
    return row | more | {"prices_by_name": [*quote.prices_by_name]}
