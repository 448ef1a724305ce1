"""The app: its commands, and the one place where the environment is read and errors become exit codes."""

import atexit
import errno
import gc
import io
import os
import shlex
import shutil
import signal
import sys
from collections import UserDict
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from harness.cli import completion
from harness.cli.options import OrderedGroup
from harness.cli.output import guard_output, say
from harness.core.errors import ExitCode, HarnessError, as_called, call, set_command, set_program, short_message

_GROUPS = {
    "Start": ("start_options", ("run", "best", "resume", "fork", "doctor", "agents")),
    "Look": ("look_options", ("show", "why", "credit", "ls", "stats", "plan", "report")),
    "Judge again": ("keep_options", ("rescore", "rank", "judges", "label", "rubric")),
    "Compare": ("compare_options", ("compare", "gate", "improve")),
    "Train": ("keep_options", ("gateway", "export", "import")),
    "Keep": ("keep_options", ("merge", "validate", "replay", "schema")),
}
"""The commands under each heading of the help, and the module of this room that declares them as `NAME_command`."""
OBJECTS_BEFORE_A_LOOK = 100_000
"""So many new objects before the garbage collector looks at them."""
_WHOLE_SENTENCE = 10_000
"""Characters: no summary of a command is longer, so none is cut."""
_EPILOG = (
    "Exit codes: 0 done; 1 failed rollouts, incomplete groups or open pairs above --max-failures, or a replay "
    "diverged; 2 usage, or the first call was refused for key, model or address; 3 nothing rankable or comparable; 4 "
    "budget or quota reached; 5 archive damaged; 6 an endpoint failed midway (gate, improve); 75 locked; 130/143 "
    "interrupted."
)


class _Declared(UserDict[str, Any]):
    """Commands by name. A module that declares commands is imported when one of them is looked up."""

    def __getitem__(self, name: str) -> click.Command:
        known = self.data[name]
        if isinstance(known, str):
            known = getattr(import_module(f"{__package__}.{known}"), f"{name}_command")
            known.name = name
            self.data[name] = known
        return known


_COMMANDS = _Declared({name: module for module, names in _GROUPS.values() for name in names})


class _Commands(OrderedGroup):
    """The commands, which the help lists under their headings."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section a heading, with the whole first sentence of each command."""
        del ctx
        width = max(map(len, self.commands))
        for heading, (_, names) in _GROUPS.items():
            with formatter.section(heading):
                commands = [(name, self.commands[name]) for name in names]
                formatter.write_dl([(f"{name:{width}}", c.get_short_help_str(_WHOLE_SENTENCE)) for name, c in commands])


@click.group(cls=_Commands, commands=_COMMANDS, epilog=_EPILOG)
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

    # A quarter of a short command's time is the garbage collector's, which finds nothing there.
    gc.set_threshold(OBJECTS_BEFORE_A_LOOK, *gc.get_threshold()[1:])
    atexit.unregister(_skip_the_last_look)  # of an earlier call in this process
    atexit.register(_skip_the_last_look)
    guard_output()
    set_program(_program)
    signal.signal(signal.SIGTERM, on_terminate)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a script's background job: SIGTERM goes by SIGINT
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = app.main(standalone_mode=False, obj=dict(os.environ))
    except HarnessError as exc:
        say("error: " + short_message(as_called(str(exc).replace("\n", " "))), err=True)
        if exc.exit_code is ExitCode.DAMAGED and "harness validate" not in str(exc):
            say(f"{call('validate', 'RUN')} names all damage; with --repair it moves damaged lines aside", err=True)
        code = 143 if terminated and exc.exit_code is ExitCode.INTERRUPTED else exc.exit_code
    except click.ClickException as exc:
        lines = io.StringIO()
        exc.show(lines)
        usage, label, message = lines.getvalue().rstrip("\n").partition("\nError: ")  # of no command: help alone
        say(usage + label + short_message(message.replace("\n", " ")) + _what_helps(exc), err=True)
        code = exc.exit_code
    except click.Abort:  # Ctrl-C or SIGTERM where nothing was under way
        code = 143 if terminated else ExitCode.INTERRUPTED
    except OSError as exc:
        code = _unprinted(exc)
    sys.exit(code)


def _what_helps(exc: click.ClickException) -> str:
    """Return what helps who typed an agent's name or a bare query before the last word, or looks for one rollout."""
    if isinstance(exc, click.NoSuchOption) and exc.option_name in {"--rollout", "-r"}:
        return " `harness show --rollout K` shows one rollout, and with --credit what each step of it was worth."
    typed = exc.ctx.params if isinstance(exc, click.UsageError) and exc.ctx else {}
    if "extra argument" not in exc.message or not {"query", "agent"} <= typed.keys():
        return ""
    return ": QUERY is one argument, in quotes, and --agent NAME names the agent"


def _unprinted(exc: OSError) -> int:
    """Say that stdout's disk is full, and return the exit code; raise any other error. Gone readers are click's."""
    if exc.filename or exc.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        raise exc
    with suppress(OSError):
        sys.stdout.close()  # else Python tries again at the end, and says so
    say(f"error: cannot write what this command prints: {exc.strerror}", err=True)
    return ExitCode.USAGE


def _skip_the_last_look() -> None:
    """Leave out the garbage collector's look at all objects, but where an agent's code may have left a file open."""
    if "agents" not in sys.modules:
        gc.freeze()


def _program() -> str:
    """Return what to type in place of `harness`: the script that was called, else this very Python with the module.

    The virtual environment may not be activated: then the name alone would find nothing, or another one.
    """
    script = Path(sys.argv[0])
    if script.name != "harness":
        return f"{shlex.quote(_from_here(Path(sys.executable), 'python'))} -m harness"
    return shlex.quote(_from_here(script, "harness"))


def _from_here(path: Path, name: str) -> str:
    """Return `name` where the shell finds `path` by it, else the path, relative if it is below this folder."""
    by_name = shutil.which(name)
    if str(path) == name or (by_name and Path(by_name) == path):
        return name
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
