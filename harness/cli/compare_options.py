"""What `compare` and `gate` take, and what their help says: the sides, what they are asked, how they are judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from harness.cli import completion, options
from harness.cli.look_options import comparison_files
from harness.core.settings import OF_JUDGING, OF_ROLLING_OUT, VARIED

VARIED_OPTIONS = (*VARIED, "config")
"""What one agent may be given several of: a side for each."""


@dataclass(frozen=True)
class SidesAsked:
    """The sides of a comparison as a user names them, what they are asked, and how they are judged."""

    sides: tuple[str, ...]
    flags: Mapping[str, Any]
    queries: str | None
    pairs: int
    task: Path | None
    cluster: str | None
    instructions: tuple[Path, ...]
    model: tuple[str, ...]
    config: tuple[Path, ...]
    labels: Path | None
    min_agreement: float
    allow_offline: bool = True
    grid: bool = False

    @property
    def varied(self) -> Mapping[str, Sequence[Any]]:
        """The values of --instructions, --model and --config, where there are any."""
        return {name: getattr(self, name) for name in VARIED_OPTIONS if getattr(self, name)}


@dataclass(frozen=True)
class GateAsked:
    """What a gate asks of a comparison, and where its result is written beside stdout."""

    margin: float
    looks: int
    allow_unsure: bool
    buy_anew: bool
    markdown: Path | None
    junit: Path | None


@dataclass(frozen=True)
class ImproveAsked:
    """What a user asks of an improvement, beside settings."""

    agent: str
    queries: str
    gate: str | None
    gate_judge_model: str | None
    parts: str
    proposer_model: str | None
    rounds: int
    children: int
    batch: int
    looks: int
    apply: Path | None


_SIDES = (
    options.arguments(
        "sides",
        "A B...",
        "Archived runs (ids, prefixes, folders, `last` for the newest run), or agents to roll out now (NAME, "
        "module:attr, path.py:attr). One agent will do with several --instructions, --model or --config: a side for "
        "each.",
        shell_complete=completion.runs_and_agents,
    ),
    click.option("--queries", metavar="FILE", help="Queries for agents: JSONL, CSV or lines. [default: a run's]"),
    click.option(
        "--pairs",
        type=click.IntRange(1, 1000),
        default=2,
        metavar="K",
        show_default=True,
        help="Cross pairs of samples that meet on each query, for each two sides.",
    ),
    options.file_option(
        "--task",
        "Show the judge this text as the task. [default: the instructions and tools, where all sides have the same]",
    ),
    click.option("--cluster", metavar="KEY", help="Queries with the same value of this metadata key are alike."),
    options.file_option(
        "--labels",
        "Labelled pairs of answers: say what people would say, and go by it. [default: those that `label` kept]",
    ),
    click.option(
        "--min-agreement",
        type=click.FloatRange(0, 1),
        default=0.6,
        metavar="SHARE",
        help="A judge that surely agrees with the labels on less than this informs, and does not gate. [default: 0.6]",
    ),
    *(options.repeated_option(name) for name in VARIED_OPTIONS),
    options.setting_options(*OF_JUDGING, default="the runs' own"),
    options.setting_options("n", default="an anchor, and a sample for each of --pairs"),
    options.setting_options(*(name for name in OF_ROLLING_OUT if name != "n")),
    options.reuse_option,
    options.trust_option,
)


def _count(flag: str, default: int, most: int, help_text: str) -> options.Decorator:
    """Add an option that takes a whole number from 1."""
    shown = f"{help_text} [default: {default}]"
    return click.option(flag, type=click.IntRange(1, most), default=default, metavar="N", help=shown)


_HOW = (options.dry_run_option, options.caller("runs_dir", "json", "wide", "quiet", "verbose"))

compare_command = options.declared(
    "begin:begin_compare",
    """Compare runs or agents: rollouts of both on the same query are judged in pairs, each pair in both orders.

    Queries are matched by what they ask. Verdicts that are there are reused, also those of earlier comparisons of the
    same runs; the runs are never written to. Agents are rolled out first, each in a run of its own. The result is a
    folder beside the runs, which `show`, `report`, `stats` and `resume` take like a run.
    """,
    options.record(
        "asked",
        SidesAsked,
        *_SIDES,
        options.flag("--grid", "Cross the values of two of --instructions, --model, --config: a side for each pair."),
        options.flag("--allow-offline", "Compare runs on the embedded model too: a self-test."),
    ),
    comparison_files,
    *_HOW,
)
gate_command = options.declared(
    "begin:begin_gate",
    """Let B pass if it is not worse than A, the baseline; A and B are named as for `compare`.

    B is not worse if the whole 95 % interval of its win rate is above 0.5 - margin: exit 0. B is worse if the interval
    is below 0.5: exit 1. Else the gate cannot tell: exit 1, or 0 with --allow-unsure. A gate that could say nothing is
    refused, exit 2. Before anything is spent the gate says how probably an equally good B passes.
    """,
    options.record(
        "gate",
        GateAsked,
        click.option(
            "--margin",
            type=click.FloatRange(0.001, 0.49),
            default=0.05,
            metavar="SHARE",
            help="B may be preferred in this much less than half of the pairs. [default: 0.05]",
        ),
        _count("--looks", 1, 8, "Judge in so many steps, and stop at the first one that tells."),
        options.flag("--allow-unsure", "Exit with 0 where the gate cannot tell."),
        options.flag("--buy-anew", "Go on where the baseline was judged by another rubric: buy all verdicts anew."),
        options.file_option(
            "--markdown", "Write the result as Markdown. [default: add it to $GITHUB_STEP_SUMMARY, where that is set]"
        ),
        options.file_option("--junit", "Write the result as a JUnit file."),
    ),
    options.record("asked", SidesAsked, *_SIDES),
    *_HOW,
)
improve_command = options.declared(
    "begin:begin_improve",
    """Improve an agent's instructions: find where its rollouts differ and why, write new ones, let them meet.

    Each round writes candidates from what the judge's verdicts teach; they meet the others on the training queries. The
    best one is then compared with the agent as it was on queries that no candidate has met, and accepted only if it is
    better there: the whole 95 % interval of its win rate above 50 %, and not by length alone. Exit 0: accepted; 1: not.
    The same command, or `resume`, goes on with what was cut short.
    """,
    options.record(
        "asked",
        ImproveAsked,
        click.argument(
            "agent", shell_complete=completion.agent_names, help="NAME, module:attr or path.py:attr, as for `run`."
        ),
        click.option("--queries", metavar="FILE", required=True, help="Training queries: JSONL, CSV or lines."),
        click.option(
            "--gate", metavar="FILE", help="Held-out queries. [default: half of --queries, by a hash of what they ask]"
        ),
        click.option(
            "--gate-judge-model",
            metavar="MODEL",
            help="A second judge for the gate: it must find the best one better, too.",
        ),
        click.option(
            "--parts",
            metavar="NAMES",
            default="instructions",
            help="The texts to improve, with commas: instructions, AGENT.instructions of a handoff's target or "
            "of an agent used as a tool, TOOL.description. [default: instructions]",
        ),
        click.option("--proposer-model", metavar="MODEL", help="Who writes candidates. [default: the agent's model]"),
        _count("--rounds", 6, 100, "Rounds at most."),
        _count("--children", 3, 20, "Candidates that a round writes; one more joins two of the best."),
        _count("--batch", 8, 1000, "Training queries that a round adds."),
        _count("--looks", 1, 8, "Judge the gate in so many steps, and stop at the first one that tells."),
        options.file_option("--apply", "Write the accepted instructions here, as --instructions reads them."),
    ),
    options.setting_options("n", default="2: an anchor and a sample"),
    options.setting_options(*OF_JUDGING, *(name for name in OF_ROLLING_OUT if name != "n"), *VARIED),
    options.config_option,
    options.dry_run_option,
    options.caller("runs_dir", "json", "quiet", "verbose"),
)
