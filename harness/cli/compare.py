"""`harness compare`: is one agent better than another?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from harness.cli.comparison_files import ComparisonFiles, file_options
from harness.cli.comparison_options import comparison_options
from harness.core.errors import ExitCode, on_a_line

if TYPE_CHECKING:
    from collections.abc import Mapping


@click.command()
@comparison_options
@file_options
@click.option("--allow-offline", is_flag=True, help="Compare runs on the embedded model too: a self-test.")
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
    say_first(f"loading what the comparison of {on_a_line(', '.join(sides))} needs", quiet=quiet)
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
    files, most = ComparisonFiles(given["markdown"], given["csv"]), asked.settings.max_failures
    files.check()
    announce_comparison(console, quote)
    result = compare_asked(asked, environ, console, quiet=quiet)
    return deliver_comparison(result, files, max_failures=most, as_json=as_json, quiet=quiet)
