"""The beginning of a command that works for long: a line at once, for loading the SDK takes seconds, and Ctrl-C."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

from harness.cli.output import say
from harness.core.errors import Interrupted


def say_first(text: str, *, quiet: bool) -> None:
    """Say on a terminal what the command is about to do. A log has no need of that."""
    if not quiet and sys.stderr.isatty():
        say(f"{text} …", err=True)


@contextmanager
def nothing_begun() -> Generator[None]:
    """Let Ctrl-C meanwhile end the command with a line that says that nothing was begun. Raises Interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted: nothing was begun") from None
