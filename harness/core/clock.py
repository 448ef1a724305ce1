"""The one place that reads the clock; everything below the rim takes time as an argument."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

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
