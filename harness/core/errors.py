"""Errors and their exit codes, and how messages word values, counts and commands."""

import difflib
import math
import re
import reprlib
import shlex
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from typing import TYPE_CHECKING, Any, cast

from harness.core.settings import SETTINGS
from harness.core.unicode import visible

if TYPE_CHECKING:
    from harness.core.records import Failure, Group


_MOST_QUOTED = 200
"""Characters of an input that a message quotes."""
_LONGEST_MESSAGE = 900
_LONGEST_WORD_COMPARED = 100
_LONG_WORD = re.compile(rf"\S{{{_MOST_QUOTED + 1},}}")


class ExitCode(IntEnum):
    """What a command's exit code means (docs/commands.md says the same to users)."""

    DONE = 0
    FAILURES = 1
    USAGE = 2
    NOTHING_RANKABLE = 3
    BUDGET = 4
    DAMAGED = 5
    OUTAGE = 6
    LOCKED = 75
    INTERRUPTED = 130


class HarnessError(Exception):
    """The root: catching it catches every deliberate error of this package."""

    exit_code: ExitCode = ExitCode.FAILURES
    group: "Group | None" = None
    """The rollouts that there are, where `best_of` raises the error after the agent has run."""


class UsageError(HarnessError):
    """Something the user gave cannot be used; nothing was spent because of it."""

    exit_code = ExitCode.USAGE


class Refused(UsageError):
    """The endpoint turned the first call down for its key, model or address."""


class OutOfQuota(Refused):
    """The endpoint turned the first call down because nothing is left on the account."""

    exit_code = ExitCode.BUDGET


class NothingRankable(HarnessError):
    """No rollout ended well, or what could be judged does not tell which is best."""

    exit_code = ExitCode.NOTHING_RANKABLE


class JudgeFailed(HarnessError):
    """No judge gave a verdict that can be used."""

    failures: "tuple[Failure, ...]" = ()
    """Those of the verdicts that are missing, where one group's were asked for; none where nothing was asked."""


class CeilingReached(JudgeFailed):
    """Verdicts are missing because --max-cost leaves no room for them."""

    exit_code = ExitCode.BUDGET


class CannotWrite(UsageError):
    """The archive cannot be written: no room, no right, a disk that fails. What was written before is whole."""


class NeedsUpgrade(UsageError):
    """A later harness wrote this; `version` is the schema version that it takes to read it."""

    def __init__(self, where: object, version: int, readable: int) -> None:
        """Name the place, its schema version, and the newest one that this harness reads."""
        self.version = version
        super().__init__(f"{where} has schema_version {version}; this harness reads up to {readable}: upgrade it")


class TooOld(UsageError):
    """An earlier harness made this run or comparison; `version` is that of the harness."""

    def __init__(self, where: object, version: str, oldest: str) -> None:
        """Name the file, the version that it states, and the oldest one that this harness reads."""
        self.version = version
        super().__init__(f"{where} was written by version {version}; this harness reads what {oldest} and later wrote")


class ArchiveDamaged(HarnessError):
    """A record in the archive does not agree with itself. The message names file, line and reason."""

    exit_code = ExitCode.DAMAGED


class ArchiveLocked(HarnessError):
    """Another process is writing to this run."""

    exit_code = ExitCode.LOCKED


class Interrupted(HarnessError):
    """The user stopped it; what was paid for is written."""

    exit_code = ExitCode.INTERRUPTED


def quoted(value: object) -> str:
    """Return a value as a message quotes it: as Python writes it, controls escaped, cut to 200 characters."""
    try:
        return _cut(repr(value[: _MOST_QUOTED + 1]) if isinstance(value, str) else _ABRIDGED.repr(value))
    except ValueError:  # Python writes no number of more than 4,300 digits
        return "a number of thousands of digits"


def on_a_line(text: object) -> str:
    """Return a text or path as a message names it, without quotation marks: visible, on one line, cut likewise."""
    return _cut(visible(str(text)[: _MOST_QUOTED + 1]).replace("\n", " "))


def short_message(message: str) -> str:
    """Return a message whose author did not know how long the words in it can get, short enough to be read."""
    short = _LONG_WORD.sub(lambda word: _cut(word[0]), message)
    return short if len(short) <= _LONGEST_MESSAGE else f"{short[: _LONGEST_MESSAGE - 4]} ..."


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_QUOTED else f"{text[: _MOST_QUOTED - 3]}..."


_ABRIDGED = reprlib.Repr()
"""Writes values down whole but for what is huge: many references to one list can stand for billions."""
_ABRIDGED.maxstring = _ABRIDGED.maxother = _ABRIDGED.maxlong = _MOST_QUOTED


def did_you_mean(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """Return `; did you mean 'x'?` for the one of `names` that is nearest to `name`, or an empty string."""
    if len(name) > _LONGEST_WORD_COMPARED:  # a comparison takes time by the product of the lengths
        return ""
    comparable = [other for other in names if len(other) <= _LONGEST_WORD_COMPARED]
    near = difflib.get_close_matches(name, comparable, n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def goes_on(message: str, more: str) -> str:
    """Return a message with a further clause, which is a sentence of its own after a question."""
    return f"{message} {more[:1].upper()}{more[1:]}" if message.endswith("?") else f"{message}; {more}"


def first_error(group: BaseExceptionGroup[Any]) -> Any:
    """Return the first error in a group, however deep: concurrent tasks refused for one reason say it several times."""
    first: Any = group.exceptions[0]
    return first_error(first) if isinstance(first, BaseExceptionGroup) else first  # pyright: ignore[reportUnknownArgumentType]


PLACE_IN_LINE: ContextVar[int] = ContextVar("PLACE_IN_LINE", default=0)
"""The number of the group that the current task, and whatever tasks it starts, work for; 0 where there is no line."""


def round_number(count: int) -> str:
    """Return a count to two digits, upwards: more would claim a precision that an estimate has not."""
    step = 10 ** max(0, len(str(count)) - 2)
    return f"{math.ceil(count / step) * step:,}"


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
    name = _NAMES.get().get(name, name)
    if _PYTHON.get():
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
