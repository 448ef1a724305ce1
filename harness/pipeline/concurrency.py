"""Many queries through one function, a bounded number at a time. The function is handed in: this knows no stage."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import anyio

from harness.core.tracebacks import start_child

T = TypeVar("T")


async def for_each(items: Iterable[T], work: Callable[[T], Awaitable[None]], at_once: int) -> None:
    """Await `work(item)` for every item, at most `at_once` at a time; items are drawn as places come free."""
    places = anyio.Semaphore(at_once)

    async def one(item: T) -> None:
        try:
            await work(item)
        finally:
            places.release()

    async with anyio.create_task_group() as tasks:
        for item in items:
            await places.acquire()
            start_child(tasks, one, item)
