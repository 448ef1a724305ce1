"""What a comparison will take and is expected to cost, in lines for people or as JSON."""

from collections.abc import Mapping

from rich.console import Console

from harness.cli import process
from harness.cli.announce import print_offline_notice
from harness.cli.compared_sides import AskedSides
from harness.cli.cost_lines import cost_ends, cost_range
from harness.cli.output import print_json, say
from harness.cli.progress_bars import ProgressBars
from harness.core.wording import counted
from harness.pipeline.comparing.new_sides import quote_sides
from harness.pipeline.comparing.quote import ComparisonQuote
from harness.pipeline.comparing.roll_out_quote import RollOutQuote
from harness.pipeline.run_environment import RunEnvironment

_OFFLINE = (
    "This comparison uses the embedded model or judge.\nIt shows that everything works; it says nothing of any LLM."
)


def quote_asked(asked: AskedSides, environ: Mapping[str, str], console: Console) -> ComparisonQuote | RollOutQuote:
    """Return what a comparison would reuse, run and buy. Raises UsageError for what cannot be compared."""
    with ProgressBars(console, quiet=True) as bars:
        around = RunEnvironment(environ)
        return process.run_interruptible(lambda: quote_sides(asked.sides, asked.queries, around, asked.options), bars)


def announce_comparison(console: Console, quote: ComparisonQuote | RollOutQuote) -> None:
    """Print what a comparison is about to take, and whom it asks, before anything is spent."""
    if quote.offline:
        print_offline_notice(console, _OFFLINE)
    for line in quote_lines(quote):
        console.print(line, soft_wrap=True)


def print_comparison_quote(quote: ComparisonQuote | RollOutQuote, *, as_json: bool) -> None:
    """Print what a comparison would take: the result of --dry-run."""
    if as_json:
        print_json(quote_row(quote), indent=None)
    else:
        say("\n".join(quote_lines(quote)))


def quote_lines(quote: ComparisonQuote | RollOutQuote) -> list[str]:
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
    named = f" (--price-by-name; {'; '.join(quote.prices_by_name)})" if quote.prices_by_name else ""
    verdicts = f"reused {quote.reused:,}, would buy {quote.bought[0]:,} ({by})"
    return [shared, f"{verdicts}; estimated cost: {cost_range(quote.cost)}{named}"]


def quote_row(quote: ComparisonQuote | RollOutQuote) -> Mapping[str, object]:
    """Return what a comparison takes, for --json."""
    row: dict[str, object] = {"queries": quote.queries, "judge": quote.judge, "judge_at": quote.judge_places}
    row |= {"offline": quote.offline, "cost_usd": cost_ends(quote.cost)}
    if isinstance(quote, RollOutQuote):
        agents = [place for _, place in quote.places]
        return row | {"agent_runs": quote.agent_runs, "judge_calls": [*quote.judge_calls], "agents_at": agents}
    more = {"pairs": quote.pairs, "forfeits": quote.forfeits, "reused": quote.reused, "would_buy": [*quote.bought]}
    return row | more | {"prices_by_name": [*quote.prices_by_name]}
