"""The one place that reads the clock; everything below the rim takes time as an argument."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Returns the present moment, in UTC."""


def now() -> datetime:
    """Return the present moment in UTC."""
    return datetime.now(UTC)  # noqa: TID251 - the clock itself
