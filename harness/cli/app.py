"""The app: its commands, and the one place where the environment is read and errors become exit codes."""

import io
import os
import signal
import sys
from typing import Any

import click

from harness.cli import options
from harness.cli.agents import agents
from harness.cli.best import best
from harness.cli.doctor import doctor
from harness.cli.import_ import import_
from harness.cli.ls import ls
from harness.cli.output import guard_output, say
from harness.cli.rank import rank
from harness.cli.replay import replay
from harness.cli.report import report
from harness.cli.rescore import rescore
from harness.cli.resume import resume
from harness.cli.rubric import rubric
from harness.cli.run import run
from harness.cli.schema import schema
from harness.cli.show import show
from harness.cli.stats import stats
from harness.cli.validate import validate
from harness.core.errors import ExitCode, HarnessError, short_message

_COMMANDS = (
    run,
    best,
    resume,
    rescore,
    replay,
    import_,
    show,
    ls,
    validate,
    schema,
    stats,
    report,
    rank,
    doctor,
    agents,
    rubric,
)
_EPILOG = (
    "Exit codes: 0 done; 1 failed rollouts or incomplete groups above --max-failures, or a replay diverged; 2 usage, "
    "or the first call was refused for key, model or address; 3 nothing rankable; 4 budget or quota reached; 5 archive "
    "damaged; 75 locked; 130/143 interrupted."
)


@click.group(cls=options.OrderedGroup, epilog=_EPILOG)
@click.version_option(package_name="arena-harness", message="%(package)s %(version)s", help="Print the version.")
def app() -> None:
    """Run an LLM agent many times, find out which runs were really better, keep the evidence."""


for _command in _COMMANDS:
    app.add_command(_command)


def main() -> None:
    """Run a command; exit with the code it returns, or with that of its error's family. A bug keeps its traceback.

    Commands get the environment as their context object: nothing below reads it again.
    """
    terminated: list[int] = []

    def on_terminate(*_: Any) -> None:
        terminated.append(1)
        for _press in range(2):  # one way out for both: as if Ctrl-C had been pressed twice, which lets nothing go on
            signal.raise_signal(signal.SIGINT)

    guard_output()
    signal.signal(signal.SIGTERM, on_terminate)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a script's background job: SIGTERM goes by SIGINT
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = app.main(standalone_mode=False, obj=dict(os.environ))
    except HarnessError as exc:
        _print_error(exc)
        code = 143 if terminated and exc.exit_code is ExitCode.INTERRUPTED else exc.exit_code
    except click.ClickException as exc:
        _print_usage_error(exc)
        code = exc.exit_code
    except click.Abort:  # Ctrl-C where nothing was under way
        code = ExitCode.INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone
        code = 1
    sys.exit(code)


def _print_usage_error(error: click.ClickException) -> None:
    lines = io.StringIO()
    error.show(lines)
    usage, label, message = lines.getvalue().rstrip("\n").partition("\nError: ")  # of no command: help, and no error
    say(usage + label + short_message(message.replace("\n", " ")), err=True)


def _print_error(error: HarnessError) -> None:
    say("error: " + short_message(str(error).replace("\n", " ")), err=True)
    if error.exit_code is ExitCode.DAMAGED and "harness validate" not in str(error):
        say("`harness validate RUN` names all damage; with --repair it moves damaged lines aside", err=True)
