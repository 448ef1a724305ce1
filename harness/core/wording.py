"""How a message names a setting or a call: as whoever called does, the command line or Python.

What the archive keeps names the options of the command line, whoever called; `as_spoken` translates it for Python.
"""

import re
import shlex
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from harness.core.settings import SETTINGS

PLACE_IN_LINE: ContextVar[int] = ContextVar("PLACE_IN_LINE", default=0)
"""The number of the group that the current task, and whatever tasks it starts, work for; 0 where there is no line."""


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number of things: `1 run`, `2,000 runs`."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"


_PYTHON = ContextVar("harness_called_from_python", default=False)
_COMMAND = ContextVar("harness_command", default="run")
_NAMES = ContextVar[Mapping[str, str]]("harness_names_of_settings", default={})  # noqa: B039 - nobody changes it
_PROGRAM = ContextVar[Callable[[], str]]("harness_program", default=lambda: "harness")
_FUNCTIONS = {"ls": "runs", "import": "import_run", "best": "best_of", "show": "open_comparison"}
"""The functions that are not named as their commands are; a message names `show` for comparisons alone."""
_SWITCHES = set(
    "accept_changed_agent allow_offline final_answer force free live mixed retry_failed trust_archive wait".split()
)
_ARGUMENTS = _SWITCHES | set("agent config deadline output pairs ports ranking reuse split style".split())
"""The arguments that are no settings; those that are switches take no value on the command line."""
_TYPED = re.compile(r"`(?:harness )?(run|resume|rescore|replay|validate|import|best|ls)((?: [^`]*)?)`")
_FLAG = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)(?: ([\w.]*\w))?")


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
        several = name in SETTINGS and SETTINGS[name].repeatable and not SETTINGS[name].takes_one
        return f"{name}=" if value is None else f"{name}={[value] if several and isinstance(value, str) else value!r}"
    flag = SETTINGS[name].flag if name in SETTINGS else f"--{_plain(name)}"
    if value is None or value is True:
        return flag
    if isinstance(value, Mapping):
        return f"{flag} {' '.join(f'{key}={each}' for key, each in cast('Mapping[str, Any]', value).items())}"
    return f"{flag} {value:g}" if isinstance(value, float) else f"{flag} {value}"


def before_colon(name: str) -> str:
    """Return what sets a setting where a colon and what is wrong with it follow: `--max-cost`, or `max_cost`."""
    return option(name).removesuffix("=")


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
    typed = [command(), function, *(shlex.quote(str(word)) for word in words)]
    for name, several in arguments.items():  # a repeated option has several values
        off_flag = SETTINGS[name].off_flag if name in SETTINGS else None
        for value in cast("tuple[object, ...]", several) if isinstance(several, tuple) else (several,):
            usual = option(name, shlex.quote(value) if isinstance(value, str) else value)
            typed.append(off_flag if value is False and off_flag else usual)
    return f"`{' '.join(typed)}`"


def as_spoken(text: str) -> str:
    """Return a text of the command line as whoever called would put it: in Python it names functions and arguments."""
    if not _PYTHON.get():
        return text

    def in_python(typed: re.Match[str]) -> str:
        function, rest = typed.groups()
        words = [repr(word) for word in _FLAG.sub("", rest).split()]
        arguments = [_flag_in_python(flag) for flag in _FLAG.finditer(rest)]
        return f"`harness.{_FUNCTIONS.get(function, function)}({', '.join(words + arguments)})`"

    return _FLAG.sub(_flag_in_python, _TYPED.sub(in_python, text))


def _flag_in_python(flag: re.Match[str]) -> str:
    """Return the argument for a flag, with its value where what stands behind the flag is one."""
    word = flag[2]
    behind = "" if word is None else f" {word}"
    if (name := _FLAGS.get(flag[1])) is None:
        return flag[0]
    if name in _SWITCHES or (name in SETTINGS and SETTINGS[name].type is bool):
        return option(name, flag[1] == _plain(name)) + behind
    if word and name in SETTINGS and (word in SETTINGS[name].choices or word.isupper() or word.isdecimal()):
        is_number = word.isdecimal() and word not in SETTINGS[name].choices
        return option(name, int(word) if is_number else word)
    return option(name) + behind  # the next word of a sentence


def _plain(name: str) -> str:
    return name.replace("_", "-")


_FLAGS = (
    {_plain(name): name for name in _ARGUMENTS}
    | {setting.flag.removeprefix("--"): name for name, setting in SETTINGS.items()}
    | {s.off_flag.removeprefix("--"): name for name, s in SETTINGS.items() if s.off_flag}
)
"""The name of the argument for each flag of the command line."""
