"""The processes of a training, of which the first works for all.

A process group of its own over gloo carries the messages: the trainer's may be of devices, and belongs to one thread.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from itertools import accumulate, chain
from typing import Any, Self, TypeVar

T = TypeVar("T")
_LONGEST_WAIT = timedelta(days=1)
"""How long the others wait for the first process, which judges; a process that ends is noticed at once."""


class Ranks:
    """This process and the others of its training."""

    def __init__(self, distributed: Any) -> None:
        """Make the process group; all processes have to. `distributed` is torch.distributed."""
        self._distributed = distributed
        self._group = distributed.new_group(backend="gloo", timeout=_LONGEST_WAIT)

    @classmethod
    def of_this_process(cls) -> Self | None:
        """Return this process among the others, or None if it is alone."""
        distributed = getattr(sys.modules.get("torch"), "distributed", None)
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return None
        return cls(distributed) if distributed.get_world_size() > 1 else None

    async def once(self, mine: Sequence[T], work: Callable[[list[T]], Awaitable[list[Any]]]) -> list[Any]:
        """Let the first process do `work` on what all have, in the order of their ranks; return the part for `mine`.

        An error of the first process is raised in all.
        """
        rank = self._distributed.get_rank()
        parts: list[Sequence[T]] = [()] * self._distributed.get_world_size()
        await asyncio.to_thread(self._distributed.all_gather_object, parts, list(mine), group=self._group)
        outcome: list[Any] = [None]
        if rank == 0:
            try:
                outcome[0] = await work(list(chain.from_iterable(parts)))
            except Exception as exc:  # noqa: BLE001 - the other processes wait for it
                outcome[0] = exc
        await asyncio.to_thread(self._distributed.broadcast_object_list, outcome, src=0, group=self._group)
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        begin = [0, *accumulate(len(part) for part in parts)][rank]
        return outcome[0][begin : begin + len(mine)]
