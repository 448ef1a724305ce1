r"""What any command is told, and the one way to the terminal: lines in which nothing is hidden, JSON for machines.

Whatever models, tools, endpoints and archives say is text from strangers. A terminal obeys some characters (titles,
links, colours, the cursor) and hides others. People get marks such as `<U+001B>` in their place, machines `\u001b`.
"""

import io
import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from harness.core.errors import Interrupted
from harness.core.unicode import escape_json, visible


@dataclass(frozen=True)
class Caller:
    """What a user may say to several commands, and the environment."""

    environ: Mapping[str, str] = field(default_factory=lambda: click.get_current_context().obj or {})
    runs_dir: Path | None = None
    """Where runs are; None: where the environment says."""
    config: Path | None = None
    reuse: tuple[str, ...] = ()
    trust_archive: bool = False
    dry_run: bool = False
    wait: bool = False
    as_json: bool = False
    wide: bool = False
    """Whether tables are as wide as what is in them; consoles ask click for it."""
    quiet: bool = False
    report: bool = True
    """Whether the page of a run is written."""
    verbose: bool = False


def say(text: str, *, err: bool = False) -> None:
    """Print lines for people, on stdout or stderr."""
    stream = sys.stderr if err else sys.stdout
    stream.write(visible(text) + "\n")
    stream.flush()


def print_json(value: object, *, indent: int | None = 1) -> None:
    """Print a result for machines: what `say` marks is escaped, and read back as it was."""
    say(escape_json(json.dumps(value, ensure_ascii=False, indent=indent)))


@contextmanager
def while_loading(text: str, *, quiet: bool) -> Generator[None]:
    """Say on a terminal what the command is about to do, for loading the SDK takes seconds; a log needs no such line.

    Ctrl-C meanwhile ends the command with a line that says that nothing was begun. Raises Interrupted.
    """
    if not quiet and sys.stderr.isatty():
        say(f"{text} …", err=True)
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted: nothing was begun") from None


def guard_output() -> None:
    """Send through `say` what Python itself prints: warnings, logs without a handler, the traceback of a bug.

    A terminal that cannot show a character gets its number instead; a stream that was closed (`>&-`) is as /dev/null.
    """
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - the same
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.excepthook = lambda _, bug, __: say("".join(traceback.format_exception(bug)).rstrip(), err=True)
    warnings.showwarning = lambda message, category, filename, lineno, _=None, line=None: say(
        warnings.formatwarning(message, category, filename, lineno, line).rstrip(), err=True
    )
    logging.lastResort = _LogLines(logging.WARNING)


class _LogLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        context = click.get_current_context(silent=True)
        if context and context.params.get("quiet") and record.levelno < logging.ERROR:
            return
        try:
            say(self.format(record), err=True)
        except Exception:  # noqa: BLE001 - as logging's own handlers do
            self.handleError(record)
