"""The line of the groups of a run: who came first is served first, wherever calls of many groups wait."""

from contextvars import ContextVar

PLACE_IN_LINE: ContextVar[int] = ContextVar("PLACE_IN_LINE", default=0)
"""The number of the group that the current task, and whatever tasks it starts, work for; 0 where there is no line."""
