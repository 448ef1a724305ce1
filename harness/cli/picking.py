"""What `best` does once parsed: a run made for its first place."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from harness import pipeline
from harness.archive import RunReader
from harness.cli.announcing import announce, warn
from harness.cli.costing import print_plan
from harness.cli.output import print_run, stderr
from harness.cli.running import checked, hush, interruptible
from harness.cli.watching import Watcher
from harness.core.rankings import GroupRanking
from harness.core.records import Group
from harness.core.settings import Settings
from harness.core.settings_sources import environment, load, merge_sources
from harness.report import write_page


def best_command(
    *,
    agent: str,
    query: str | None,
    flags: Mapping[str, Any],
    config: Path | None,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Do `harness best`."""
    hush(verbose=verbose)
    environ = environment()
    settings = _settings(flags, environ, config)
    queries, prepared = checked(agent, query, None, settings, environ)
    console = stderr(quiet=quiet)
    if dry_run:
        warn(console, prepared)
        print_plan(prepared, 1, as_json=as_json)
        return
    announce(console, prepared, 1)
    with Watcher(console, quiet=quiet) as watcher:
        around = pipeline.Surroundings(environ, progress=watcher)
        ran = interruptible(lambda: pipeline.run_queries(prepared, queries, around), watcher)
    reader = RunReader(ran.path)
    ranking = reader.ranking(ran.ranking_id)
    write_page(reader, ranking, ran.path / "report.html")
    group, ranked = reader.group(queries[0]), ranking.groups[0]
    best = pipeline.best_rollout(group, ranked)
    if as_json:
        print_run(reader, ranking, as_json=True)
    else:
        typer.echo(best.trajectory.answer)
    console.print(f"{why(group, ranked, best.index)}; run: {ran.path}", highlight=False, soft_wrap=True)


def why(group: Group, ranking: GroupRanking, best: int) -> str:
    """Return in a line why a rollout is the best."""
    of = f"rollout {best} is the best of {len(group.rollouts)}"
    row = next(r for r in ranking.rollouts if r.index == best)
    calls = f"{ranking.judged + ranking.reused} judge calls"
    if row.p_best is None or not ranking.matches:
        alone = sum(r.status == "ok" for r in group.rollouts) == 1
        level = "the only one that ended well" if alone else "the judge told none of them apart, so it is the first"
        return f"{of}: {'; '.join(ranking.notes) or level}"
    saved = f", {ranking.spared} saved by stopping early" if ranking.spared else ""
    return f"{of} with probability {row.p_best:.2f} ({calls}{saved})"


def _settings(flags: Mapping[str, Any], environ: Mapping[str, str], config: Path | None) -> Settings:
    """Take the design from `for_best` whatever is set for runs; the rest as a run does."""
    given = merge_sources(flags, environ, config)
    design = pipeline.for_best(load(given).n)
    if flags.get("sure") is not None and "sure" in design:
        design["sure"] = flags["sure"]
    return load(given | {"order": None, "budget": None} | design)
