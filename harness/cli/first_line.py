"""The first line of a command that works for long: printed at once, for loading the SDK takes seconds."""

import sys

from harness.cli.output import say


def say_first(text: str, *, quiet: bool) -> None:
    """Say on a terminal what the command is about to do. A log has no need of that."""
    if not quiet and sys.stderr.isatty():
        say(f"{text} …", err=True)
