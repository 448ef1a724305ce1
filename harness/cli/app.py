"""The app: its commands, and the one place where errors become exit codes."""

import signal
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer

from harness.cli import (
    agents,
    best,
    doctor,
    importing,
    ls,
    rank,
    replay,
    report,
    rescore,
    resume,
    rubric,
    run,
    schema,
    show,
    stats,
    validate,
)
from harness.cli.own_defaults import OfARun
from harness.core.errors import ExitCode, HarnessError

_DISTRIBUTION = "arena-harness"
_EPILOG = (
    "Exit codes: 0 done; 1 failed rollouts or incomplete groups above --max-failures, or a replay diverged; 2 usage, "
    "or the first call was refused for key, model or address; 3 nothing rankable; 4 budget or quota reached; 5 archive "
    "damaged; 75 locked; 130/143 interrupted."
)

app = typer.Typer(
    name="harness",
    help="Run an LLM agent many times, find out which runs were really better, keep the evidence.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("run")(run.run)
app.command("best")(best.best)
app.command("resume")(resume.resume)
app.command("rescore", cls=OfARun)(rescore.rescore)
app.command("replay")(replay.replay)
app.command("import")(importing.import_)
app.command("show")(show.show)
app.command("ls")(ls.ls)
app.command("validate")(validate.validate)
app.command("schema")(schema.schema)
app.command("stats")(stats.stats)
app.command("report")(report.report)
app.command("rank")(rank.rank)
app.command("doctor")(doctor.doctor)
app.command("agents")(agents.agents)
app.add_typer(rubric.app, name="rubric")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"{_DISTRIBUTION} {version(_DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def _before_any_command(  # pyright: ignore[reportUnusedFunction] - registered
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run a command; exit with the code of its error family. A bug keeps its traceback."""
    terminated: list[int] = []

    def on_terminate(*_: Any) -> None:
        terminated.append(1)
        signal.raise_signal(signal.SIGINT)  # one way out for both: asyncio turns it into a clean cancellation

    signal.signal(signal.SIGTERM, on_terminate)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a script's background job: SIGTERM goes by SIGINT
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        app(standalone_mode=True)
    except HarnessError as exc:
        code = exc.exit_code
        typer.echo(f"error: {exc}", err=True)
        if code is ExitCode.DAMAGED and "harness validate" not in str(exc):
            typer.echo("`harness validate RUN` names all damage; with --repair it moves damaged lines aside", err=True)
        sys.exit(143 if terminated and code is ExitCode.INTERRUPTED else code)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone
        sys.exit(1)
