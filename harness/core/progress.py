"""The clock that a command reads once, and what hears how far the work has come."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from harness.core.records import Usage


@dataclass
class StopSign:
    """Whether the user has asked the work to end: what is under way goes on, nothing new is begun."""

    asked: bool = False


Stage = Literal["rollouts", "judging"]


class Progress(Protocol):
    """A watcher of one run."""

    def opened(self, folder: Path) -> None:
        """The run's folder is there: from now on nothing that was paid for is lost."""

    def total(self, stage: Stage, low: int, high: int | None) -> None:
        """A stage takes from `low` to `high` pieces of work in all; `high` is None while nobody knows.

        Of rollouts both are the same, and known once: queries times n, less what is kept; for a stream of queries once
        the stream has ended. Of verdicts they close in on each other as queries are ranked. Where this is not called
        for a stage, what `expect` counted is all.
        """

    def expect(self, stage: Stage, count: int) -> None:
        """`count` pieces of work (rollouts, or verdicts) begin, or wait for their turn."""

    def done(self, stage: Stage, count: int = 1) -> None:
        """`count` pieces of work ended, well or badly."""

    def kept(self, stage: Stage, usage: Usage, usd: float | None, *, failed: bool) -> None:
        """A rollout or a verdict was kept: what it took, its price where that is known, whether it failed."""

    def retried(self) -> None:
        """A call to a model failed and is made again. A wait for a rate limit is no such failure."""

    def waiting(self, place: str, calls: int) -> None:
        """So many calls now wait for the endpoint `place`: for its rate limit, or until it answers again."""

    def note(self, text: str) -> None:
        """Something that the user should read while the work goes on."""


class Silent(Progress):
    """Watches and says nothing. A watcher that wants to know of some things only can be made from it."""


class Logged(Silent):
    """Watches in place of the user: what the user should read goes to the log `arena-harness`."""

    def opened(self, folder: Path) -> None:
        """Log where the run is."""
        logging.getLogger("arena-harness").info("run: %s", folder)

    def note(self, text: str) -> None:
        """Log a note."""
        logging.getLogger("arena-harness").warning("%s", text)


class PartsOfWork(Silent):
    """Tells a watcher of runs that are parts of larger work: the whole has a folder and totals of its own."""

    def __init__(self, progress: Progress) -> None:
        """Pass on to `progress`, a note that several parts have only once."""
        self.expect, self.done, self.kept = progress.expect, progress.done, progress.kept
        self.retried, self.waiting, self.note = progress.retried, progress.waiting, cache(progress.note)


ROLLOUTS_SHARE = 2 / 3
"""The part of the time that is for rollouts; the rest is kept for judging."""
_ALONE_SHARE = 1 / 10
"""The part of the time for which a first call goes alone, at most."""


@dataclass(frozen=True)
class Deadline:
    """When work must be over: seconds on the event loop's clock, infinite without a deadline."""

    at: float = math.inf
    """When all of it must be over."""
    rollouts_at: float = math.inf
    """When rollouts are no longer waited for, once two have ended well."""
    alone_s: float = math.inf
    """For so long a first call goes alone, at most: the others must have their time too."""

    seconds: float = math.inf
    """How long the work may take."""

    @classmethod
    def after(cls, seconds: float, now: float) -> "Deadline":
        """Return the deadline that is so many seconds after `now`."""
        return cls(now + seconds, now + ROLLOUTS_SHARE * seconds, _ALONE_SHARE * seconds, seconds)

    @property
    def is_set(self) -> bool:
        """Whether there is a deadline."""
        return self.at < math.inf


NO_DEADLINE = Deadline()


Clock = Callable[[], datetime]
"""Returns the present moment, in UTC."""


def now() -> datetime:
    """Return the present moment in UTC."""
    return datetime.now(UTC)  # noqa: TID251 - the clock itself
