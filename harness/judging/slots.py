"""Slots for calls under way: a free place goes to a prompt whose beginning the provider has just read."""

import heapq
from collections import Counter, deque
from itertools import count

import anyio

from harness.core.errors import PLACE_IN_LINE

Beginning = tuple[str, str]
"""How a prompt begins: the query's id, and the hash of the transcript that is shown first."""
_Queue = dict[Beginning, deque[anyio.Event]]


class Slots:
    """At most `limit` calls under way; calls of one query and one first transcript follow each other.

    Providers sell the beginning of a prompt cheaper when it comes again after a reply: one call leads, and those that
    begin alike follow its reply; meanwhile others lead. Where nobody else waits, calls go beside their leader.
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._under_way: Counter[Beginning] = Counter()
        self._read = set[Beginning]()
        """Beginnings with a reply, while calls that begin so are under way or wait."""
        self._followers, self._leaders, self._beside = _Queue(), _Queue(), _Queue()
        """Who waits: after a reply to their beginning; before any such call; while the first one is under way."""
        self._line: list[tuple[int, int, Beginning]] = []
        """The leaders as a heap, by their groups' places in line; some have gone since."""
        self._numbers = count()

    async def take(self, beginning: Beginning) -> None:
        """Return when a place is the caller's, who gives it back by `leave`."""
        if self._free:
            self._free -= 1
            self._begin(beginning)
            return
        called, unread = anyio.Event(), self._beside if beginning in self._under_way else self._leaders
        queue = self._followers if beginning in self._read else unread
        if queue is self._leaders and beginning not in queue:
            heapq.heappush(self._line, (PLACE_IN_LINE.get(), next(self._numbers), beginning))
        queue.setdefault(beginning, deque()).append(called)
        try:
            await called.wait()
        except BaseException:
            if called.is_set():
                self.leave(beginning)
            else:
                self._forget(beginning, called)
            raise

    def leave(self, beginning: Beginning) -> None:
        """Give a place back, after the reply: to a call that begins alike, where one waits."""
        self._under_way[beginning] -= 1
        self._read.add(beginning)
        for queue in (self._leaders, self._beside):
            if beginning in queue:
                self._followers[beginning] = queue.pop(beginning)
        if not self._under_way[beginning]:
            del self._under_way[beginning]
            if beginning not in self._followers:
                self._read.remove(beginning)
        queue = self._followers or self._leaders or self._beside
        if not queue:
            self._free += 1
            return
        alike = beginning if beginning in queue else next(iter(queue))
        following = alike
        while queue is self._leaders:  # the first in line, less those that have gone since
            *_, following = heapq.heappop(self._line)
            if following in self._leaders:
                break
        called = queue[following][0]
        self._forget(following, called)
        self._begin(following)
        called.set()

    def _begin(self, beginning: Beginning) -> None:
        self._under_way[beginning] += 1
        if beginning in self._leaders:
            self._beside[beginning] = self._leaders.pop(beginning)

    def _forget(self, beginning: Beginning, called: anyio.Event) -> None:
        for queue in (self._followers, self._leaders, self._beside):
            if beginning in queue:
                queue[beginning].remove(called)
                if not queue[beginning]:
                    del queue[beginning]
