"""Every error the harness raises on purpose, one family an exit code.

A message says what is wrong, which value, and what to do. `ExitCode` is the documented list.
"""

import difflib
import re
import reprlib
from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from harness.core.unicode import visible

if TYPE_CHECKING:
    from harness.core.records import Group

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


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the one of `names` that is nearest to `name`, or an empty string."""
    if len(name) > _LONGEST_WORD_COMPARED:  # a comparison takes time by the product of the lengths
        return ""
    comparable = [other for other in names if len(other) <= _LONGEST_WORD_COMPARED]
    near = difflib.get_close_matches(name, comparable, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def first_error(group: BaseExceptionGroup[Any]) -> Any:
    """Return the first error in a group, however deep: concurrent tasks refused for one reason say it several times."""
    first: Any = group.exceptions[0]
    return first_error(first) if isinstance(first, BaseExceptionGroup) else first  # pyright: ignore[reportUnknownArgumentType]
