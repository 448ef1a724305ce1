"""`harness merge`: one run out of several."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from harness.cli import completion, options


@click.command()
@click.argument(
    "runs",
    metavar="RUN...",
    nargs=-1,
    required=True,
    shell_complete=completion.run_ids,
    help="Runs of one agent, settings, judge and rubric on different queries: ids, prefixes, folders.",
)
@click.option("--output", "-o", metavar="RUN", help="The new run: a name in --runs-dir, or a path. [default: an id]")
@options.setting_option("runs_dir")
@options.json_option
@options.quiet_option
@options.report_option
@click.pass_obj
def merge(
    environ: Mapping[str, str], runs: tuple[str, ...], output: str | None, runs_dir: Path | None, **flags: Any
) -> None:
    """Make one run of several, such as those of `run --shard`, by copying their records. Nothing is asked or bought.

    Each ranking that all runs have becomes one of all groups; `pooled` learns the judge from all of them anew. Every
    record is checked. The runs stay as they are.
    """
    import shlex

    from harness.archive.layout import find_run
    from harness.archive.reader import RunReader
    from harness.cli.archived_run import runs_folder
    from harness.cli.output import print_json, say
    from harness.cli.page_drawing import draw_pages
    from harness.cli.program import program
    from harness.core.wording import counted
    from harness.pipeline.merging.merge import merge_runs
    from harness.pipeline.run_environment import RunEnvironment
    from harness.report.summary.ranking import summarize

    quiet = flags["quiet"]
    folder = runs_folder(runs_dir, environ)
    merged = merge_runs([find_run(word, folder) for word in runs], output, folder, RunEnvironment(environ))
    for note in () if quiet else merged.notes:
        say(f"note: {note}", err=True)
    if flags["as_json"]:
        counts = {name: getattr(merged, name) for name in ("queries", "rollouts", "rankings")}
        print_json({"run": merged.path.name, "path": str(merged.path)} | counts | {"notes": list(merged.notes)})
    else:
        sizes = f"{counted(merged.queries, 'query', 'queries')} and {counted(merged.rollouts, 'rollout')}"
        say(f"{counted(len(runs), 'run')} merged, {sizes}: {merged.path}")
        say(f"\nnext: {program()} show {shlex.quote(str(merged.path))}")
    if merged.rankings and flags["report"]:
        with RunReader(merged.path) as reader:
            ranking = reader.ranking()
            draw_pages(reader, ranking, summarize(reader, ranking), quiet=quiet)
