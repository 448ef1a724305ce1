"""How a message names a setting or a call: as whoever called does, the command line or Python.

What the archive keeps names the options of the command line, whoever called.
"""

import shlex
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_PYTHON = ContextVar("harness_called_from_python", default=False)


@contextmanager
def from_python() -> Generator[None]:
    """Let the messages of what is called meanwhile name arguments in place of options."""
    before = _PYTHON.set(True)
    try:
        yield
    finally:
        _PYTHON.reset(before)


def option(name: str, value: object = None) -> str:
    """Return what sets a setting: `--max-cost 5`, or `max_cost=5` from Python; True is a flag without a value."""
    if _PYTHON.get():
        return f"{name}=" if value is None else f"{name}={value!r}"
    flag = "-n" if name == "n" else f"--{name.replace('_', '-')}"
    return flag if value in (None, True) else f"{flag} {value}"


def call(function: str, *words: object, **arguments: object) -> str:
    """Return what to type: `harness resume RUN --rubric FILE`, or `harness.resume('RUN', rubric='FILE')`."""
    options = [option(name, value) for name, value in arguments.items()]
    if _PYTHON.get():
        return f"`harness.{function}({', '.join([*(repr(str(word)) for word in words), *options])})`"
    return f"`{' '.join(['harness', function, *(shlex.quote(str(word)) for word in words), *options])}`"
