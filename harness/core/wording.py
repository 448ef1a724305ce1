"""How a message names a setting or a call: as whoever called does, the command line or Python.

What the archive keeps names the options of the command line, whoever called.
"""

import shlex
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from harness.core.settings import SETTINGS

_PYTHON = ContextVar("harness_called_from_python", default=False)
_COMMAND = ContextVar("harness_command", default="run")
_NAMES = ContextVar[Mapping[str, str]]("harness_names_of_settings", default={})  # noqa: B039 - nobody changes it
_PROGRAM = ContextVar[Callable[[], str]]("harness_program", default=lambda: "harness")
_FUNCTIONS = {"ls": "runs", "import": "import_run"}
"""The functions that are not named as their commands are."""


@contextmanager
def calling(names: Mapping[str, str]) -> Generator[None]:
    """Let messages call settings by other names meanwhile: those that a function's arguments have."""
    before = _NAMES.set(names)
    try:
        yield
    finally:
        _NAMES.reset(before)


@contextmanager
def from_python() -> Generator[None]:
    """Let the messages of what is called meanwhile name arguments in place of options."""
    before = _PYTHON.set(True)
    try:
        yield
    finally:
        _PYTHON.reset(before)


def set_command(name: str) -> None:
    """Let the messages of what is called from now on point to the help of a command."""
    _COMMAND.set(name)


def set_program(program: Callable[[], str]) -> None:
    """Let the messages of what is called from now on name the command as `program` does, as the user called it."""
    _PROGRAM.set(program)


def command(words: str = "") -> str:
    """Return a command line as the user would type it, from what stands after `harness`."""
    return f"{_PROGRAM.get()()} {words}".rstrip()


def as_called(message: str) -> str:
    """Return a message in which the commands to type are spelled as the user called the harness."""
    return message.replace("`harness ", f"`{command()} ")


def where_choices_are(command: str | None = None) -> str:
    """Return where range and choices of an option stand, in brackets: in the help of `command`, else of today's."""
    return "" if _PYTHON.get() else f" (range and choices: `{_PROGRAM.get()()} {command or _COMMAND.get()} --help`)"


def option(name: str, value: object = None) -> str:
    """Return what sets a setting or names a parameter: `--max-cost 5`, or `max_cost=5` from Python.

    Without `value`: `--max-cost`, or `max_cost=`.
    """
    if isinstance(value, float):
        value = float(f"{value:g}")
    if _PYTHON.get():
        name = _NAMES.get().get(name, name)
        return f"{name}=" if value is None else f"{name}={_argument(name, value)}"
    flag = SETTINGS[name].flag if name in SETTINGS else f"--{name.replace('_', '-')}"
    return flag if value is None or value is True else f"{flag} {_words(value)}"


def switch(name: str) -> str:
    """Return what turns a setting on: `--offline`, or `offline=True`."""
    return option(name, value=True)


def joined(option_text: str, value: str) -> str:
    """Return an option's text with a value as a message shows it; "" where the value is not shown."""
    return f"{option_text}{value}" if option_text.endswith("=") else f"{option_text} {value}".rstrip()


def call(function: str, *words: object, **arguments: object) -> str:
    """Return what to type: `harness resume RUN --rubric FILE`, or `harness.resume('RUN', rubric='FILE')`."""
    if _PYTHON.get():
        options = [option(name, value) for name, value in arguments.items()]
        inside = ", ".join([*(repr(str(word)) for word in words), *options])
        return f"`harness.{_FUNCTIONS.get(function, function)}({inside})`"
    options = [
        option(name, shlex.quote(value) if isinstance(value, str) else value) for name, value in arguments.items()
    ]
    return f"`{' '.join([command(), function, *(shlex.quote(str(word)) for word in words), *options])}`"


def _argument(name: str, value: object) -> str:
    several = name in SETTINGS and SETTINGS[name].repeatable and not SETTINGS[name].takes_one
    return repr([value] if several and isinstance(value, str) else value)


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={each}" for name, each in cast("Mapping[str, Any]", value).items())
    return f"{value:g}" if isinstance(value, float) else str(value)
