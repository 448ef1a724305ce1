"""`harness gate`: may this agent replace that one? An exit code for CI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from harness.cli import options
from harness.cli.comparison_options import comparison_options
from harness.core.errors import ExitCode, on_a_line

if TYPE_CHECKING:
    from collections.abc import Mapping


@click.command()
@click.option(
    "--margin",
    type=click.FloatRange(0.001, 0.49),
    default=0.05,
    metavar="SHARE",
    help="B may be preferred in this much less than half of the pairs. [default: 0.05]",
)
@click.option(
    "--looks",
    type=click.IntRange(1, 8),
    default=1,
    metavar="N",
    help="Judge in so many steps, and stop at the first one that tells. [default: 1]",
)
@click.option("--allow-unsure", is_flag=True, help="Exit with 0 where the gate cannot tell.")
@click.option(
    "--buy-anew", is_flag=True, help="Go on where the baseline was judged by another rubric: buy all verdicts anew."
)
@click.option(
    "--markdown",
    metavar="FILE",
    type=options.FILE,
    help="Write the result as Markdown. [default: add it to $GITHUB_STEP_SUMMARY, where that is set]",
)
@click.option("--junit", metavar="FILE", type=options.FILE, help="Write the result as a JUnit file.")
@comparison_options
@click.pass_obj
def gate(environ: Mapping[str, str], sides: tuple[str, ...], **given: Any) -> ExitCode:
    """Let B pass if it is not worse than A, the baseline; A and B are named as for `compare`.

    B is not worse if the whole 95 % interval of its win rate is above 0.5 - margin: exit 0. B is worse if the interval
    is below 0.5: exit 1. Else the gate cannot tell: exit 1, or 0 with --allow-unsure. A gate that could say nothing is
    refused, exit 2. Before anything is spent the gate says how probably an equally good B passes.
    """
    from harness.cli.archived_run import runs_folder
    from harness.cli.first_line import nothing_begun, say_first

    parent, quiet = runs_folder(given["runs_dir"], environ), given["quiet"]
    say_first(f"loading what the gate for {on_a_line(', '.join(sides))} needs", quiet=quiet)
    with nothing_begun():
        from harness.cli import process
        from harness.cli.compared_sides import asked_sides
        from harness.cli.comparison_costs import announce_comparison, quote_asked
        from harness.cli.comparison_result import compare_asked
        from harness.cli.console import stderr
        from harness.cli.gate_result import GateFiles, announce_gate, asked_gate, deliver_gate, print_gate_quote
        from harness.pipeline.comparing.gating import power_check

        process.silence_logs(verbose=given["verbose"])
        asked, rules = asked_gate(asked_sides(sides, given | {"allow_offline": True}, parent, environ), given)
    console, files = stderr(quiet=quiet), GateFiles.of(given["markdown"], given["junit"], environ)
    if given["dry_run"]:
        foretold = power_check(asked.sides, asked.queries, environ, asked.options, rules)
        quote = quote_asked(asked, environ, console)
        print_gate_quote(quote, foretold, rules, as_json=given["as_json"])
        return ExitCode.DONE
    with files.with_refusal():
        foretold = power_check(asked.sides, asked.queries, environ, asked.options, rules)
        announce_comparison(console, quote_asked(asked, environ, console))
        announce_gate(console, foretold, rules)
        result = compare_asked(asked, environ, console, quiet=quiet)
        return deliver_gate(result, asked, rules, foretold, files, as_json=given["as_json"], quiet=quiet)
