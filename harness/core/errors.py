"""Every error the harness raises on purpose, one family an exit code.

A message says what is wrong, which value, and what to do. `ExitCode` is the documented list.
"""

import difflib
from collections.abc import Iterable
from enum import IntEnum
from typing import Any


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


class CannotWrite(UsageError):
    """The archive cannot be written: no room, no right, a disk that fails. What was written before is whole."""


class NeedsUpgrade(UsageError):
    """A later harness wrote this; `version` is the schema version that it takes to read it."""

    def __init__(self, where: object, version: int, readable: int) -> None:
        """Name the place, its schema version, and the newest one that this harness reads."""
        self.version = version
        super().__init__(f"{where} has schema_version {version}; this harness reads up to {readable}: upgrade it")


class ArchiveDamaged(HarnessError):
    """A record in the archive does not agree with itself. The message names file, line and reason."""

    exit_code = ExitCode.DAMAGED


class ArchiveLocked(HarnessError):
    """Another process is writing to this run."""

    exit_code = ExitCode.LOCKED


class Interrupted(HarnessError):
    """The user stopped it; what was paid for is written."""

    exit_code = ExitCode.INTERRUPTED


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the one of `names` that is nearest to `name`, or an empty string."""
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def first_error(group: BaseExceptionGroup[Any]) -> Any:
    """Return the first error in a group, however deep: concurrent tasks refused for one reason say it several times."""
    first: Any = group.exceptions[0]
    return first_error(first) if isinstance(first, BaseExceptionGroup) else first  # pyright: ignore[reportUnknownArgumentType]
