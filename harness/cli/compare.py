"""`harness compare`: is one agent better than another?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from harness.cli import completion, options
from harness.core.compare_settings import OF_JUDGING, OF_ROLLING_OUT
from harness.core.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping


@click.command()
@click.argument(
    "sides",
    metavar="A B...",
    nargs=-1,
    required=True,
    shell_complete=completion.runs_and_agents,
    help="Archived runs (ids, prefixes, folders, `last`), or agents to roll out now (NAME, module:attr, path.py:attr). "
    "One agent will do with several --instructions, --model or --config: a side for each.",
)
@click.option("--queries", metavar="FILE", help="Queries for agents: JSONL, CSV or lines. [default: a run's]")
@click.option(
    "--pairs",
    type=click.IntRange(1, 1000),
    default=2,
    metavar="K",
    help="Cross pairs of samples that meet on each query, for each two sides. [default: 2]",
)
@click.option(
    "--task",
    metavar="FILE",
    type=options.FILE,
    help="Show the judge this text as the task. [default: the instructions and tools, where all sides have the same]",
)
@click.option("--cluster", metavar="KEY", help="Queries with the same value of this metadata key are alike.")
@options.repeated_options("instructions", "model", "config")
@options.setting_options(*OF_JUDGING, default="the runs' own")
@options.setting_options(*OF_ROLLING_OUT)
@click.option("--allow-offline", is_flag=True, help="Compare runs on the embedded model too: a self-test.")
@options.reuse_option
@options.trust_option
@options.dry_run_option
@options.setting_option("runs_dir")
@options.json_option
@options.wide_option
@options.quiet_option
@options.verbose_option
@click.pass_obj
def compare(environ: Mapping[str, str], sides: tuple[str, ...], **given: Any) -> ExitCode:
    """Compare runs or agents: rollouts of both on the same query are judged in pairs, each pair in both orders.

    Queries are matched by what they ask. Verdicts that are there are reused, also those of earlier comparisons of the
    same runs; the runs are never written to. Agents are rolled out first, each in a run of its own. The result is a
    folder beside the runs, which `show`, `report`, `stats` and `resume` take like a run.
    """
    from harness.cli.archived_run import runs_folder
    from harness.cli.first_line import nothing_begun, say_first

    parent, quiet, as_json = runs_folder(given["runs_dir"], environ), given["quiet"], given["as_json"]
    say_first(f"loading what the comparison of {', '.join(sides)} needs", quiet=quiet)
    with nothing_begun():
        from harness.cli import process
        from harness.cli.compared_sides import asked_sides
        from harness.cli.comparison_costs import announce_comparison, print_comparison_quote, quote_asked
        from harness.cli.comparison_result import compare_asked, deliver_comparison
        from harness.cli.console import stderr

        process.silence_logs(verbose=given["verbose"])
        asked = asked_sides(sides, given, parent, environ)
    console = stderr(quiet=quiet)
    quote = quote_asked(asked, environ, console)
    if given["dry_run"]:
        print_comparison_quote(quote, as_json=as_json)
        return ExitCode.DONE
    announce_comparison(console, quote)
    result = compare_asked(asked, environ, console, quiet=quiet)
    return deliver_comparison(result, max_failures=asked.settings.max_failures, as_json=as_json, quiet=quiet)
