"""`harness import`: trajectories made elsewhere, as a run."""

import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from harness.cli import options
from harness.core.errors import UsageError, did_you_mean, quoted
from harness.core.wording import counted


@click.command("import")
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=options.FILE,
    help="JSONL, JSON with one trajectory or a list of them, or a folder of JSONL.",
)
@click.option(
    "--format",
    "format_",
    metavar="FORMAT",
    help="messages, atif, groups, art, sft, dpo or openai-preference. [default: as each object shows]",
)
@click.option("--first-is-anchor", is_flag=True, help="The first trajectory of each query is the greedy one.")
@click.option("--name", default="imported", help="A name for the agent that made them. [default: imported]")
@options.setting_options("redact", "runs_dir")
@options.json_option
@click.pass_obj
def import_(
    environ: Mapping[str, str],
    files: tuple[Path, ...],
    format_: str | None,
    name: str,
    flags: Mapping[str, Any],
    *,
    first_is_anchor: bool,
    as_json: bool,
) -> None:
    """Make a run of trajectories made elsewhere, to be ranked by rescore. No model is asked.

    Chat messages: an object a trajectory with `messages`, and optionally query_id, id, reward, reference, metadata.
    ATIF: Harbor's Agent Trajectory Interchange Format. Training data, as export writes it: groups (ART's, too) with
    their rewards, pairs, examples; its ranking comes along. Trajectories with one query id, else those with one first
    user message, form a group. Without --first-is-anchor a group has no anchor and is ranked without one.
    """
    from harness.cli.output import print_json, say
    from harness.cli.program import program
    from harness.core.settings_sources import load, merge_sources
    from harness.formats.trajectory_files import FORMATS
    from harness.pipeline.import_run import import_trajectories
    from harness.pipeline.run_environment import RunEnvironment

    if format_ is not None and format_ not in FORMATS:
        raise UsageError(
            f"--format {quoted(format_)}: choose one of {', '.join(FORMATS)}{did_you_mean(format_, FORMATS)}"
        )
    settings, around = load(merge_sources(flags, environ, None)), RunEnvironment(environ)
    folder, imported = import_trajectories(
        files, settings, around, format=format_, first_is_anchor=first_is_anchor, name=name
    )
    counts = imported.counts
    for what, times in sorted(imported.unplaced.items()):
        say(f"not kept: {what}, in {counted(times, 'trajectory', 'trajectories')}", err=True)
    if as_json:
        groups = [{"query": q, "rollouts": count, "ranked": imported.ranked(q)} for q, count in counts.items()]
        print_json({"run": folder.name, "path": str(folder), "groups": groups, "not_kept": imported.unplaced})
        return
    say(f"{counted(sum(counts.values()), 'rollout')} of {counted(len(counts), 'query', 'queries')}: {folder}")
    if imported.places:
        ranked = Counter(map(imported.ranked, counts))
        say(f"{_ranked(ranked)}; no judge was asked")
        if ranked.keys() - {"not at all"}:
            say(f"\nnext: {program()} show {shlex.quote(str(folder))}")
            return
    if single := sum(count < 2 for count in counts.values()):
        say(f"note: {single} of them with a single rollout, which carries no signal", err=True)
    command = f"{program()} rescore {shlex.quote(str(folder))} --judge-model MODEL"
    say(f"\nnext: {command}")


def _ranked(queries: Counter[Any]) -> str:
    """Return how many queries are ranked, and of how many only a part of the rollouts, or none, has a place."""
    if queries.keys() == {"wholly"}:
        return f"{counted(queries['wholly'], 'query', 'queries')} ranked as the file says"
    there = [how for how in ("wholly", "in part", "not at all") if queries[how]]
    parts = [f"{counted(queries[how], 'query', 'queries')} {how}" for how in there]
    return f"ranked as the file says: {', '.join(parts)}"
