"""Exceptions that end without the frames that they passed.

A traceback holds all frames of its task: hundreds of objects. anyio's callback at the end of a cancelled task, and
tenacity's record of an attempt, each form a cycle with the exception, so only a full garbage collection frees the
frames; in a server, full collections block the loop. So what ends an exception forgets its traceback.
"""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TypeVarTuple, Unpack, cast

import anyio
from anyio.abc import TaskGroup

Args = TypeVarTuple("Args")


def forget_frames(exc: BaseException | None) -> None:
    """Take the tracebacks away from an exception, from those that it was raised from, and from those of a group."""
    waiting, seen = [exc], set[int]()
    while waiting:
        if (one := waiting.pop()) is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = None
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", one).exceptions


class WithoutFrames:
    """A block that exceptions leave without the frames they passed in it; inside a scope that may end them."""

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        """Let the exception go on."""
        forget_frames(exc)


def start_child(tasks: TaskGroup, work: Callable[[Unpack[Args]], Awaitable[None]], *args: *Args) -> None:
    """Start `work(*args)` in `tasks` as `start_soon` does; where it is cancelled, its frames are forgotten."""
    tasks.start_soon(_without_frames, work, args)


async def _without_frames(work: Callable[..., Awaitable[None]], args: tuple[object, ...]) -> None:
    try:
        await work(*args)
    except anyio.get_cancelled_exc_class() as exc:
        del work, args
        forget_frames(exc)
        raise
