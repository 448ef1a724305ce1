"""An endpoint that is down is asked by one call at a time, ever more rarely; and waiting across event loops."""

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import anyio

from harness.core.errors import as_spoken
from harness.core.progress import Clock, now
from harness.core.records import FailureKind


class LoopsEvent:
    """Wakes who waits, in whatever event loop; any thread may set it."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._set = False

    def is_set(self) -> bool:
        """Return whether nobody waits any more."""
        return self._set

    async def wait(self) -> None:
        """Wait until it is set."""
        woken = asyncio.Event()
        self._waiting[woken] = asyncio.get_running_loop()
        try:
            if not self._set:
                await woken.wait()
        finally:
            del self._waiting[woken]

    def set(self) -> None:
        """Wake all who wait, and let nobody wait from now on."""
        self._set = True
        for woken, loop in list(self._waiting.items()):
            with suppress(RuntimeError):  # the loop has ended, and who waited with it
                loop.call_soon_threadsafe(woken.set)


class LoopsQueue:
    """Lets tasks of any event loop through one at a time, in the order in which they came."""

    def __init__(self) -> None:
        self._turns: deque[LoopsEvent] = deque()

    @property
    def empty(self) -> bool:
        """Whether nobody is in the queue."""
        return not self._turns

    async def __aenter__(self) -> None:
        turn = LoopsEvent()
        self._turns.append(turn)
        try:
            while self._turns[0] is not turn:
                await turn.wait()
        except BaseException:
            self._leave(turn)
            raise

    async def __aexit__(self, *_: object) -> None:
        self._leave(self._turns[0])

    def _leave(self, turn: LoopsEvent) -> None:
        self._turns.remove(turn)
        with suppress(IndexError):  # nobody else is there
            self._turns[0].set()


FAILURES = 5
"""Failures in a row, with no reply between, after which the calls wait for one that tries."""
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0


class EndpointDown(Exception):
    """An endpoint without a reply is not asked: it is given up, or the call leaves it for another endpoint."""

    def __init__(self, why: str, kind: FailureKind = "network") -> None:
        """Say why; `kind` is what the calls fail with that are not made any more."""
        super().__init__(why)
        self.kind: FailureKind = kind


def stays() -> bool:
    """Tell that a call waits for an endpoint that is down."""
    return False


class Breaker:
    """Counts failures without a reply between. While it is open, calls wait for one, in any event loop."""

    def __init__(
        self,
        name: str,
        give_up_s: float,
        note: Callable[[str], None],
        on_end: Callable[[str, FailureKind], None],
        clock: Clock = now,
    ) -> None:
        """Begin closed. `name` is the endpoint's, for `note`, which gets what the user should read.

        `on_end` gets why the endpoint is given up, and what the calls fail with from then on.
        """
        self.described, self._clock = name, clock
        self._name, self._give_up_s, self._note, self._on_end = name, give_up_s, note, on_end
        self._failures, self._replied_at = 0, -math.inf
        self._failing_since: float | None = None
        self._try_at, self._trying = 0.0, False
        self._line: list[object] = []
        self._changed = LoopsEvent()
        self._lock = threading.RLock()
        self.kind: FailureKind = "network"
        """What calls fail with that are not made any more."""
        self.given_up: str | None = None
        """Why nothing more is asked of the endpoint."""

    @property
    def closed(self) -> bool:
        """Whether a call may go at once."""
        return self._failures < FAILURES and not self.given_up

    async def wait(self, leaves: Callable[[], bool] = stays) -> bool:
        """Wait until a call may go; return whether it is to try. Raises EndpointDown: given up, or it `leaves`."""
        if self.closed:
            return False
        place = object()
        self._line.append(place)
        try:
            while not self.closed:
                with self._lock:
                    self.raise_if_down()
                    now, changed = anyio.current_time(), self._changed
                    is_next = self._line[0] is place and not self._trying  # of those in line, the first tries
                    if now >= self._try_at and is_next:
                        self._trying = True
                        return True
                    if leaves():
                        raise EndpointDown(f"{self._name} failed {self._failures} times in a row")
                    wait_s = self._try_at - now if is_next else None
                with anyio.move_on_after(wait_s):
                    await changed.wait()
            return False
        finally:
            with self._lock:
                self._line.remove(place)
                self._change()

    def raise_if_down(self) -> None:
        """Raise EndpointDown if the endpoint is given up."""
        if self.given_up:
            raise EndpointDown(self.given_up, self.kind)

    def replied(self) -> None:
        """Note a reply of any kind that shows the endpoint at work."""
        with self._lock:
            self._replied_at = anyio.current_time()
            if self._failures >= FAILURES and not self.given_up:
                self._note(f"{self._name} answers again")
            if self._failures:
                self._failures, self._failing_since = 0, None
                self._change()

    @property
    def left_s(self) -> float:
        """The seconds that an endpoint without a reply is still waited for, from now on."""
        failing_s = 0.0 if self._failing_since is None else anyio.current_time() - self._failing_since
        return max(0.0, self._give_up_s - failing_s)

    def failed(self, why: str, sent_at: float) -> None:
        """Note a call, sent at `sent_at`, that got no reply, or an error of the server's."""
        with self._lock:
            now, since = anyio.current_time(), max(sent_at, self._replied_at)
            self._failing_since = since if self._failing_since is None else min(since, self._failing_since)
            self._failures += 1
            if self._failures >= FAILURES:
                wait_s = min(_FIRST_WAIT_S * 2 ** min(self._failures - FAILURES, 10), _LONGEST_WAIT_S)
                self._try_at = min(now + wait_s, max(now, self._failing_since + self._give_up_s))
            if self._failures == FAILURES:
                row = f"{self._name} failed {FAILURES} times in a row ({why})"
                self._note(f"{row}: calls wait, and one tries now and then")
            if now - self._failing_since >= self._give_up_s:
                limit = f"{self._give_up_s:g} s (--give-up)"
                self._give_up(f"{self.described} gave no reply for {limit}; the last error: {why}", "network")
            self._change()

    def tried(self) -> None:
        """Note that the call that tried has ended, however it ended."""
        with self._lock:
            self._trying = False
            self._change()

    def give_up_refusing(self) -> None:
        """Ask nothing more of the endpoint, which answered with rate limits alone."""
        kept_on = f"for {self._give_up_s:g} s (--give-up)"
        limits = f"{self.described} answered with nothing but rate limits (HTTP 429) {kept_on}"
        self._give_up(f"{limits}; a lower --concurrency or a longer --give-up may help", "api")

    def give_up_refused(self, why: str, kind: FailureKind) -> None:
        """Ask nothing more of the endpoint, which refuses the key or the model, or says that the account is empty."""
        self._failing_since = anyio.current_time()
        self._give_up(why, kind)

    def end(self, given_up: str, kind: FailureKind) -> None:
        """Ask nothing more of the endpoint: another process gave it up, and has said so."""
        with self._lock:
            if not self.given_up:
                self.given_up, self.kind = given_up, kind
            self._change()

    def dated(self, why: str) -> str:
        """Return why the endpoint is asked no more, with the time since when that is so."""
        failing_s = 0.0 if self._failing_since is None else anyio.current_time() - self._failing_since
        return f"{why} (since {self._clock() - timedelta(seconds=failing_s):%H:%M:%S} UTC)"

    def _give_up(self, given_up: str, kind: FailureKind) -> None:
        if not self.given_up:
            given_up = self.dated(given_up)
            if self._replied_at > -math.inf or kind == "network":  # else the first call's error says it
                self._note(as_spoken(f"{given_up}. Nothing more is asked of it"))
            self._on_end(given_up, kind)
        self.end(given_up, kind)

    def _change(self) -> None:
        changed, self._changed = self._changed, LoopsEvent()
        changed.set()
