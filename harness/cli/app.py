"""The app: its commands, and the one place where the environment is read and errors become exit codes."""

import atexit
import gc
import io
import os
import signal
import sys
from typing import Any

import click

from harness.cli import completion
from harness.cli.groups import LazyCommands, OrderedGroup
from harness.cli.output import guard_output, say
from harness.cli.program import program
from harness.core.errors import ExitCode, HarnessError, short_message
from harness.core.wording import as_called, command, set_command, set_program

_COMMANDS = {
    "run": "run",
    "best": "best",
    "resume": "resume",
    "rescore": "rescore",
    "compare": "compare",
    "gate": "gate",
    "replay": "replay",
    "merge": "merge",
    "import": "import_",
    "export": "export",
    "show": "show",
    "why": "why",
    "ls": "ls",
    "validate": "validate",
    "schema": "schema",
    "stats": "stats",
    "judges": "judges",
    "label": "label",
    "report": "report",
    "rank": "rank",
    "doctor": "doctor",
    "agents": "agents",
    "rubric": "rubric",
}
"""Each command's name, and the module of this room that holds it, under the module's own name."""
OBJECTS_BEFORE_A_LOOK = 100_000
"""So many new objects before the garbage collector looks at them."""
_EPILOG = (
    "Exit codes: 0 done; 1 failed rollouts, incomplete groups or open pairs above --max-failures, or a replay "
    "diverged; 2 usage, or the first call was refused for key, model or address; 3 nothing rankable or comparable; 4 "
    "budget or quota reached; 5 archive damaged; 75 locked; 130/143 interrupted."
)


@click.group(cls=OrderedGroup, commands=LazyCommands(__package__, _COMMANDS), epilog=_EPILOG)
@click.version_option(package_name="arena-harness", message="%(package)s %(version)s", help="Print the version.")
@click.option(
    "--install-completion",
    type=click.Choice(completion.SHELLS),
    is_eager=True,
    expose_value=False,
    callback=completion.install,
    help="Let a shell complete commands, options, agents and runs, and exit.",
)
@click.pass_context
def app(context: click.Context) -> None:
    """Run an LLM agent many times, find out which runs were really better, keep the evidence."""
    set_command(context.invoked_subcommand or "run")


def main() -> None:
    """Run a command; exit with the code it returns, or with that of its error's family. A bug keeps its traceback.

    Commands get the environment as their context object: nothing below reads it again.
    """
    terminated: list[int] = []

    def on_terminate(*_: Any) -> None:
        terminated.append(1)
        for _press in range(2):  # one way out for both: as if Ctrl-C had been pressed twice, which lets nothing go on
            signal.raise_signal(signal.SIGINT)

    _collect_garbage_rarely()
    guard_output()
    set_program(program)
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
    except click.Abort:  # Ctrl-C or SIGTERM where nothing was under way
        code = 143 if terminated else ExitCode.INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone
        code = 1
    sys.exit(code)


def _collect_garbage_rarely() -> None:
    """Do without what the garbage collector takes of a short command's time: a quarter, and it finds nothing there.

    Importing makes objects that stay, and at the end all of them are looked through once more. Where agents' code may
    have run, that last look is taken: a file that such code left open may be flushed by it.
    """
    gc.set_threshold(OBJECTS_BEFORE_A_LOOK, *gc.get_threshold()[1:])
    atexit.unregister(_skip_the_last_look)  # of an earlier call in this process
    atexit.register(_skip_the_last_look)


def _skip_the_last_look() -> None:
    if "agents" not in sys.modules:
        gc.freeze()


def _print_usage_error(error: click.ClickException) -> None:
    lines = io.StringIO()
    error.show(lines)
    usage, label, message = lines.getvalue().rstrip("\n").partition("\nError: ")  # of no command: help, and no error
    say(usage + label + short_message(message.replace("\n", " ")), err=True)


def _print_error(error: HarnessError) -> None:
    say("error: " + short_message(as_called(str(error).replace("\n", " "))), err=True)
    if error.exit_code is ExitCode.DAMAGED and "harness validate" not in str(error):
        say(f"`{command('validate RUN')}` names all damage; with --repair it moves damaged lines aside", err=True)
