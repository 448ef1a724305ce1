"""From a coroutine function to a plain one, which works in scripts and where an event loop is running already."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar

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
        return _in_thread(work) if is_running else asyncio.run(work)

    return to_its_end


def _in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in a thread with a loop of its own, and wait for its end."""
    under_way: list[Callable[[], object]] = []

    async def noted() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task:
            under_way.append(lambda: loop.call_soon_threadsafe(task.cancel))
        return await work

    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(contextvars.copy_context().run, asyncio.run, noted()).result()
        except KeyboardInterrupt:
            for cancel in under_way:
                with suppress(RuntimeError):  # its loop has just ended
                    cancel()
            raise
