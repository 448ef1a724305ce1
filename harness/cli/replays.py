"""What `replay` and `import` do once parsed: call the pipeline, print what came of it."""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import anyio
import typer
from rich.text import Text

from harness import pipeline
from harness.archive import find_run
from harness.cli.output import python_here, runs_dir_of, stdout
from harness.cli.running import hush
from harness.core.errors import ExitCode, Interrupted, UsageError, did_you_mean
from harness.core.settings_sources import environment, load, merge_sources
from harness.formats import FORMATS
from harness.rollouts import LoadedAgent, Replayed, load_agent

_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def replay_command(
    *,
    run: str,
    rollout: int | None,
    query: str | None,
    live_tools: bool,
    agent: str | None,
    runs_dir: Path | None,
    as_json: bool,
    verbose: bool,
) -> None:
    """Do `harness replay`."""
    hush(verbose=verbose)
    folder = find_run(run, runs_dir_of(runs_dir))
    with redirect_stdout(sys.stderr):  # what an agent's file and tools print is not the result
        loaded = load_agent(agent, Path.cwd()) if agent else None
        try:
            found = anyio.run(_all, folder, loaded, query, rollout, live_tools)
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None
    diverged = [r for r in found if r.divergence]
    if as_json:
        rollouts = [r.model_dump(mode="json") for r in found]
        typer.echo(
            json.dumps(
                {"run": folder.name, "identical": not diverged, "rollouts": rollouts}, ensure_ascii=False, indent=1
            )
        )
    else:
        several = len({r.query for r in found}) > 1
        for one in found:
            _print(one, several=several)
        told = "all identical" if not diverged else f"{len(diverged)} diverged"
        typer.echo(f"{folder}: {len(found)} {'rollout' if len(found) == 1 else 'rollouts'} replayed, {told}")
    if diverged:
        raise typer.Exit(ExitCode.FAILURES)


def import_command(
    *,
    files: Sequence[Path],
    format: str | None,  # noqa: A002 - the option's name
    first_is_anchor: bool,
    name: str,
    flags: Mapping[str, Any],
    as_json: bool,
) -> None:
    """Do `harness import`."""
    if format is not None and format not in FORMATS:
        raise UsageError(f"--format {format!r}: choose one of {', '.join(FORMATS)}{did_you_mean(format, FORMATS)}")
    environ = environment()
    settings = load(merge_sources(flags, environ, None))
    folder, counts = pipeline.import_trajectories(
        files, settings, pipeline.Surroundings(environ), format=format, first_is_anchor=first_is_anchor, name=name
    )
    if as_json:
        told = {
            "run": folder.name,
            "path": str(folder),
            "groups": [{"query": q, "rollouts": n} for q, n in counts.items()],
        }
        typer.echo(json.dumps(told, ensure_ascii=False, indent=1))
        return
    few = [q for q, n in counts.items() if n < 2]
    typer.echo(
        f"{sum(counts.values())} rollouts of {len(counts)} {'query' if len(counts) == 1 else 'queries'}: {folder}"
    )
    if few:
        typer.echo(f"note: {len(few)} of them with a single rollout, which carries no signal", err=True)
    typer.echo(
        f"\nnext: {shlex.quote(python_here())} -m harness rescore {shlex.quote(str(folder))} --judge-model MODEL"
    )


async def _all(
    folder: Path, loaded: LoadedAgent | None, query: str | None, rollout: int | None, live_tools: bool
) -> list[Replayed]:
    outcomes = pipeline.replay_run(folder, loaded, environment(), query=query, rollout=rollout, live_tools=live_tools)
    return [one async for one in outcomes]


def _print(one: Replayed, *, several: bool) -> None:
    console, change = stdout(), one.divergence
    name = f"{one.query} rollout {one.index}" if several else f"rollout {one.index}"
    calls = f"{one.calls} model {'call' if one.calls == 1 else 'calls'}"
    if change is None:
        console.print(Text.assemble(f"{name}: ", ("identical", "green"), f" ({calls})"), soft_wrap=True)
    else:
        places = [
            f"model call {change.call} of {one.calls}" if change.call else None,
            f"step {change.step}" if change.step else None,
            f"agent {change.agent}" if change.agent else None,
            f"tool {change.tool}" if change.tool else None,
        ]
        where = ", ".join(p for p in places if p)
        told = f": {change.detail}" if change.detail else ""
        console.print(
            Text.assemble(f"{name}: ", (change.what, "bold red"), f" at {where}" if where else "", told), soft_wrap=True
        )
        for line in change.diff.splitlines():
            console.print(Text(f"  {line}", _DIFF_STYLES.get(line[:1], "")), soft_wrap=True)
    for note in one.notes:
        console.print(Text(f"  note: {note}"), soft_wrap=True)
