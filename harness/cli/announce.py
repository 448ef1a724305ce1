"""What commands print before they spend: the cost of the work, the limits of its results, idle options."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.panel import Panel

from harness.cli.cost_lines import plan_lines
from harness.core.errors import did_you_mean, quoted
from harness.core.prices import prices_of
from harness.core.settings import SETTINGS, Settings
from harness.core.settings_sources import misspelt
from harness.pipeline.batches import describe_batches
from harness.pipeline.plan import Prepared, describe_calls
from harness.tournament.ranker import METHODS

_OF_MODELS = ("model", "base_url", "api")


def announce(console: Console, prepared: Prepared, queries: int, environ: Mapping[str, str]) -> None:
    """Print the warnings, and what a run of so many queries is about to take."""
    warn(console, prepared, environ)
    for line in plan_lines(prepared, queries):
        console.print(line)
    note_batches(console, prepared.settings)


def warn(console: Console, prepared: Prepared, environ: Mapping[str, str]) -> None:
    """Print what the results will not be worth, and which names in the environment look like misspelt settings."""
    for name, setting in misspelt(environ).items():
        console.print(f"note: {name} is no setting; {setting} is")
    if prepared.offline:
        print_offline_notice(console, _offline_notice(prepared))
    elif prepared.settings.judge_model is None and prepared.settings.topology != "none":
        console.print(
            f"note: the judge is the agent's own model, {prepared.judge.model}; judges favour their own. "
            "Name another with --judge-model.",
        )


def print_offline_notice(console: Console, notice: str) -> None:
    """Print, so that nobody overlooks it, that the results say nothing of any LLM."""
    whole_width = console.is_terminal  # without one a line has no end
    console.print(Panel(notice, title="OFFLINE SELF-TEST", border_style="yellow", expand=whole_width))


def announce_design(console: Console, settings: Settings) -> None:
    """Print what a budget of judge calls is spent on."""
    if plan := describe_calls(settings):
        console.print(plan)
    note_batches(console, settings)


def note_batches(console: Console, settings: Settings) -> None:
    """Print how many batches a judging takes, where one is not enough."""
    if several := describe_batches(settings):
        console.print(f"note: {several}")


def note_idle_judge_options(console: Console, settings: Settings, values: Mapping[str, Any]) -> None:
    """Name the settings among `values` that do nothing in this way of judging."""
    method = METHODS[settings.judge]
    idle = [SETTINGS[name].flag for name in method.without_effect if name in values]
    if idle:
        console.print(
            f"note: {', '.join(idle)} {'does' if len(idle) == 1 else 'do'} not apply to --judge {settings.judge}, "
            f"which {method.summary}",
        )


def note_idle_agent_options(console: Console, prepared: Prepared, values: Mapping[str, Any]) -> None:
    """Name the settings among `values` that do nothing with this agent."""
    idle = [SETTINGS[name].flag for name in _OF_MODELS if values.get(name) is not None]
    if prepared.agent.offline and idle:
        console.print(f"note: the embedded model has no use for {', '.join(idle)}")
    loaded = prepared.agent.loaded
    if prepared.settings.judge_when == "tied" and loaded.reward is None:
        console.print(
            f"note: agent {loaded.name!r} has no reward(), so --judge-when tied leaves all of its rollouts "
            "to the judge",
        )


def note_idle_prices(console: Console, prepared: Prepared, words: Iterable[str] | None) -> None:
    """Name the models among `words` of --price that are neither the agent's nor a judge's.

    What the models are of an agent that brings its own is not known.
    """
    if words is None or prepared.agent.model is None:
        return
    models = {prepared.agent.model, *(member.model for member in prepared.judge.members)}
    for name in sorted(prices_of(words).keys() - models):
        console.print(
            f"note: --price {quoted(name)} counts only where an endpoint replies with that name: neither the agent's "
            f"model nor a judge's has it{did_you_mean(name, models)}"
        )


def _offline_notice(prepared: Prepared) -> str:
    embedded = {"model": prepared.agent.offline, "judge": prepared.judge.offline}
    parts = [part for part, is_embedded in embedded.items() if is_embedded]
    by_default = prepared.agent.offline and not prepared.settings.offline
    why = " No OPENAI_API_KEY and no address is set." if by_default else ""
    return (
        f"This run uses the embedded {' and '.join(parts)}.{why}\nIt shows that everything works; "
        "its ranks say nothing of any LLM."
    )
