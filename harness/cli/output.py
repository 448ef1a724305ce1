"""Results on stdout, chatter on stderr."""

import json
import shlex
import sys

import typer
from rich.console import Console

from harness.archive import RankingFile, RunReader
from harness.report.machine import as_json as to_json
from harness.report.machine import is_offline
from harness.report.tables import overview

_WIDTH_WITHOUT_TERMINAL = 140


def stdout() -> Console:
    """Return a console for results; wide enough for a table where nobody's terminal sets the width."""
    return Console(width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL, highlight=False, soft_wrap=False)


def stderr(*, quiet: bool = False) -> Console:
    """Return a console for what is not the result."""
    return Console(stderr=True, quiet=quiet)


def print_run(reader: RunReader, ranking: RankingFile, *, as_json: bool) -> None:
    """Print a run with one of its rankings."""
    if as_json:
        typer.echo(json.dumps(to_json(reader, ranking), ensure_ascii=False, indent=1))
        return
    console = stdout()
    if is_offline(reader, ranking):
        console.print(
            "SELF-TEST on the embedded offline parts: these ranks say nothing of any LLM.", style="bold yellow"
        )
    console.print(overview(reader, ranking))
    console.print(f"run: {reader.folder}", soft_wrap=True)
    console.print(f"page: {reader.folder / 'report.html'}", soft_wrap=True)


def next_commands(reader: RunReader, command: str | None, *, offline: bool) -> None:
    """Print what to type next: after a self-test, how to use the real thing."""
    run = reader.info.id
    lines = [f"python -m harness show {run} --rollout 0", f"python -m harness rescore {run} --order single"]
    if offline and command:
        command = f"python -m harness {shlex.join(shlex.split(command))}"
        lines = [
            f"with a key:           OPENAI_API_KEY=sk-... {command}",
            f"with a local server:  {command} --base-url http://localhost:8000/v1 --model NAME",
        ]
    typer.echo("\n" + "\n".join(f"next: {line}" for line in lines))
