"""Work across loops and tasks: a door for code without a loop, and children without frames."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, TypeVarTuple, Unpack, cast

import anyio
from anyio.abc import TaskGroup

P = ParamSpec("P")
T = TypeVar("T")


def in_step(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return a function that runs `function` to its end, and returns or raises what it does.

    Where this thread runs an event loop already, `function` gets a thread with a loop of its own, and the running loop
    stands still meanwhile. Ctrl-C cancels `function`.
    """

    @wraps(function)
    def to_its_end(*args: P.args, **kwargs: P.kwargs) -> T:
        work = function(*args, **kwargs)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            is_running = False
        else:
            is_running = True
        return _in_thread(work) if is_running else asyncio.run(alone(work))

    return to_its_end


def _in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in a thread with a loop of its own, and wait for its end."""
    under_way: list[Callable[[], object]] = []

    async def noted() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task:
            under_way.append(lambda: loop.call_soon_threadsafe(task.cancel))
        return await alone(work)

    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(contextvars.copy_context().run, asyncio.run, noted()).result()
        except KeyboardInterrupt:
            for cancel in under_way:
                with suppress(RuntimeError):  # its loop has just ended
                    cancel()
            raise


_LAST_WORDS_S = 5.0


async def alone(work: Awaitable[T]) -> T:
    """Return what `work` gives to a loop that then ends, with all other tasks cancelled.

    A task that goes on after five seconds is left behind: `asyncio.run` would wait for it for ever.
    """
    try:
        return await work
    finally:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        try:
            if others:
                await asyncio.wait(others, timeout=_LAST_WORDS_S)
        finally:
            for task in cast("list[Any]", [task for task in others if not task.done()]):
                asyncio.tasks._unregister_task(task)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
                task._log_destroy_pending = False  # noqa: SLF001


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
