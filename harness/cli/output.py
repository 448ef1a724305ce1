"""Results on stdout, chatter on stderr."""

import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from harness.archive import RankingFile, RunReader
from harness.report import RankingSummary, counted, is_offline, overview, run_json, summarize

_WIDTH_WITHOUT_TERMINAL = 140


def stdout() -> Console:
    """Return a console for results; wide enough for a table where nobody's terminal sets the width."""
    return Console(width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL, highlight=False, soft_wrap=False)


def stderr(*, quiet: bool = False) -> Console:
    """Return a console for what is not the result."""
    return Console(stderr=True, quiet=quiet)


def print_json(value: object, *, indent: int | None = 1) -> None:
    """Print a result for machines."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=indent))


def print_run(
    reader: RunReader,
    ranking: RankingFile,
    *,
    as_json: bool,
    summary: RankingSummary | None = None,
    indent: int | None = 1,
) -> None:
    """Print a run with one of its rankings; `summary` saves summarizing the ranking again."""
    if as_json:
        print_json(run_json(reader, ranking), indent=indent)
        return
    console = stdout()
    if is_offline(reader, ranking):
        console.print(
            "SELF-TEST on the embedded offline parts: these ranks say nothing of any LLM.", style="bold yellow"
        )
    summary = summary or summarize(reader, ranking)
    console.print(overview(reader, ranking, summary, console.width))
    if not ranking.finished:
        queries = counted(len(reader.index.queries), "query", "queries")
        console.print(
            f"this ranking came to {len(ranking.groups)} of {queries}: it was cut short, or is under way; "
            "`harness resume` does the rest"
        )
    elif summary.best is None and (others := [head.id for head in reader.heads() if head.id != ranking.head.id]):
        console.print(f"this ranking places nobody; an earlier one: --ranking {others[-1]}")
    console.print(f"run: {reader.folder}", soft_wrap=True)
    console.print(f"page: {reader.folder / 'report.html'}", soft_wrap=True)


def next_commands(reader: RunReader, ranking: RankingFile, best: tuple[str, int] | None, typed: Sequence[str]) -> None:
    """Print what to type next. After a self-test: the command that was typed, with a key and with a local server."""
    command = f"{shlex.quote(python_here())} -m harness"
    run = reader.info.id if reader.folder.parent == Path("runs") else shlex.quote(str(reader.folder))
    of_query = f" --query {shlex.quote(best[0])}" if best and len(reader.index.queries) > 1 else ""
    lines = [
        f"{command} show {run}" + (f" --rollout {best[1]}{of_query}" if best else ""),
        f"{command} rescore {run} {'--topology arena' if _unjudged(ranking) else '--judge-model MODEL'}",
    ]
    if reader.info.agent_offline and typed[:1] == ["run"]:
        again = f"{command} {shlex.join(a for a in typed if a != '--offline')}"
        lines = [
            f"with a key:           OPENAI_API_KEY=sk-... {again}",
            f"with a local server:  {again} --base-url http://localhost:8000/v1 --model NAME",
        ]
    click.echo("\n" + "\n".join(f"next: {line}" for line in lines))


def _unjudged(ranking: RankingFile) -> bool:
    return ranking.head.settings.get("topology") == "none"


def python_here() -> str:
    """Return how to call this very Python from here: the virtual environment may not be activated."""
    running = Path(sys.executable)
    python = shutil.which("python")
    if python and Path(python) == running:
        return "python"
    return str(running.relative_to(Path.cwd())) if running.is_relative_to(Path.cwd()) else str(running)
