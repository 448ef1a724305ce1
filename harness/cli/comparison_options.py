"""The arguments and options of the commands that compare: the sides, what they are asked, how they are judged."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import click

from harness.cli import completion, options
from harness.core.compare_settings import OF_JUDGING, OF_ROLLING_OUT

_OPTIONS: tuple[options.Decorator, ...] = (
    click.argument(
        "sides",
        metavar="A B...",
        nargs=-1,
        required=True,
        shell_complete=completion.runs_and_agents,
        help="Archived runs (ids, prefixes, folders, `last` for the newest run), or agents to roll out now (NAME, "
        "module:attr, path.py:attr). One agent will do with several --instructions, --model or --config: a side for "
        "each.",
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
    click.option(
        "--task",
        metavar="FILE",
        type=options.FILE,
        help="Show the judge this text as the task. [default: the instructions and tools, where all sides have the "
        "same]",
    ),
    click.option("--cluster", metavar="KEY", help="Queries with the same value of this metadata key are alike."),
    options.repeated_options("instructions", "model", "config"),
    options.setting_options(*OF_JUDGING, default="the runs' own"),
    options.setting_options("n", default="an anchor, and a sample for each of --pairs"),
    options.setting_options(*(name for name in OF_ROLLING_OUT if name != "n")),
    options.reuse_option,
    options.trust_option,
    options.dry_run_option,
    options.setting_option("runs_dir"),
    options.json_option,
    options.wide_option,
    options.quiet_option,
    options.verbose_option,
)


def comparison_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the sides and the options of a comparison to a command, which gets them as `sides` and by their names."""
    return reduce(lambda decorated, option: option(decorated), reversed(_OPTIONS), command)
