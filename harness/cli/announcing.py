"""What is said before anything is spent: what it will take, what it will not be worth, what came to nothing."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.panel import Panel

from harness import pipeline
from harness.cli.costing import plan_lines
from harness.core.settings import Settings
from harness.core.settings_sources import environment, misspelt

_OF_PAIRS = ("topology", "order", "estimator", "reward", "budget", "sure", "judge_repeats")
_OF_MODELS = ("model", "base_url", "api")


def announce(console: Console, prepared: pipeline.Prepared, count: int) -> None:
    """Say what is about to be spent, and on whom."""
    warn(console, prepared)
    for line in plan_lines(prepared, count):
        console.print(line, highlight=False)


def warn(console: Console, prepared: pipeline.Prepared) -> None:
    """Say what the results will not be worth, and what in the environment seems to be meant for it."""
    for name, meant in misspelt(environment()).items():
        console.print(f"note: {name} is no setting; {meant} is", highlight=False)
    if prepared.offline:
        console.print(
            Panel(_offline_notice(prepared), title="OFFLINE SELF-TEST", border_style="yellow"), highlight=False
        )
    elif prepared.settings.judge_model is None and prepared.settings.topology != "none":
        console.print(
            f"note: the judge is the agent's own model, {prepared.judge.model}; judges favour their own. "
            "Name another with --judge-model.",
            highlight=False,
        )


def tell_design(console: Console, settings: Settings) -> None:
    """Say what a budget of judge calls is spent on."""
    if plan := pipeline.design(settings):
        console.print(plan, highlight=False)


def say_what_does_not_apply(console: Console, settings: Settings, wanted: Mapping[str, Any]) -> None:
    """Name the options given that only a tournament of pairs has."""
    idle = [f"--{name.replace('_', '-')}" for name in _OF_PAIRS if name in wanted]
    if settings.judge == "ruler" and idle:
        console.print(
            f"note: {', '.join(idle)} {'does' if len(idle) == 1 else 'do'} not apply to --judge ruler, which "
            "scores a whole group at once",
            highlight=False,
        )


def say_what_the_agent_has_no_use_for(console: Console, prepared: pipeline.Prepared, wanted: Mapping[str, Any]) -> None:
    """Name the options given that come to nothing with this agent."""
    idle = [f"--{name.replace('_', '-')}" for name in _OF_MODELS if wanted.get(name) is not None]
    if prepared.agent.offline and idle:
        console.print(f"note: the embedded model has no use for {', '.join(idle)}", highlight=False)
    loaded = prepared.agent.loaded
    if prepared.settings.judge_when == "tied" and loaded.reward is None:
        console.print(
            f"note: agent {loaded.name!r} has no reward(), so --judge-when tied leaves all of its rollouts "
            "to the judge",
            highlight=False,
        )


def _offline_notice(prepared: pipeline.Prepared) -> str:
    parts = [p for p, there in (("model", prepared.agent.offline), ("judge", prepared.judge.offline)) if there]
    why = "" if prepared.settings.offline else " No OPENAI_API_KEY and no address is set."
    if not prepared.agent.offline:
        why = ""
    return (
        f"This run uses the embedded {' and '.join(parts)}.{why}\nIt shows that everything works; "
        "its ranks say nothing of any LLM."
    )
