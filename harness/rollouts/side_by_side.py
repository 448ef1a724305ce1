"""Runs that are made side by side: they share places and a ceiling, and a free place goes to whoever has begun least.

So all of them meet the same load at the same hour, and what they take can be compared.
"""

from collections import deque
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from harness.endpoints.costs import Ceiling
from harness.rollouts.maker import FirstCall


class SideBySide:
    """What the runs share. No place is given before each of them has asked for one, or left."""

    def __init__(self, runs: int, places: int, ceiling: Ceiling) -> None:
        self.sides = tuple(Alongside(self) for _ in range(runs))
        self.ceiling, self._free = ceiling, places
        for side in self.sides:
            side.first_call.beside = [each.first_call for each in self.sides]

    def give(self, freed: int = 0) -> None:
        """Give places, `freed` more than before, to those that wait."""
        self._free += freed
        while self._free and all(side.is_here for side in self.sides):
            if not (waiting := [side for side in self.sides if side.waiting]):
                return
            side = min(waiting, key=lambda side: side.begun)
            side.waiting.popleft().set()
            side.begun += 1
            self._free -= 1


@dataclass(eq=False)
class Alongside:
    """One of the runs. Each `async with` it takes a place."""

    among: SideBySide = field(repr=False)
    first_call: FirstCall = field(default_factory=FirstCall)
    waiting: deque[anyio.Event] = field(default_factory=deque[anyio.Event])
    begun: int = 0
    is_here: bool = False

    async def __aenter__(self) -> None:
        given = anyio.Event()
        self.waiting.append(given)
        self.is_here = True
        try:
            await anyio.lowlevel.checkpoint()  # those that ask at the same moment have asked before any place is given
            self.among.give()
            await given.wait()
        except BaseException:
            if given.is_set():
                self.among.give(freed=1)
            else:
                self.waiting.remove(given)
            raise

    async def __aexit__(self, *_: object) -> None:
        self.among.give(freed=1)

    def leave(self) -> None:
        """Let the others go on: this run is over."""
        self.is_here = True
        self.first_call.over()
        self.among.give()
