"""How fast calls may be sent to an endpoint, learnt from what the endpoint refuses.

There is no pace until a clear share of the calls is refused; of a 429 here and there, that call alone waits. Then
additive increase, multiplicative decrease (Chiu and Jain, 1989): a 429 lowers the rate by a fifth, each call raises
it a little. Callers who wait are let in one after another, so that they do not come back at one instant. After a while
the old rate is tried again: 429s that come at any pace must not slow the calls for ever.
"""

import math
import random
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

import anyio

from harness.endpoints.breaker import LoopsEvent, LoopsQueue
from harness.endpoints.retries import LONGEST_WAIT_S, read_number

_CALLS = 50
"""The latest calls, which count. Those without a reply yet count as let in: a refusal comes at once."""
_AT_LEAST = 4.0
_PART = 0.18
"""The pace is too fast where `_AT_LEAST` and this part of the latest calls are refused: 5 of 5, 9 of 24, 13 of 50.
Where 6 % are refused at random, 13 of 50 are hardly ever."""


class _RefusedShare:
    """What became of the latest calls."""

    def __init__(self) -> None:
        self.sent = 0
        self._refused: deque[int] = deque(maxlen=_CALLS)
        """How many calls had been sent at each of the latest refusals."""

    def refused(self) -> bool:
        """Note that a call was refused; return whether the calls come too fast."""
        self._refused.append(self.sent)
        lately = sum(sent > self.sent - _CALLS for sent in self._refused)
        return lately >= _AT_LEAST + _PART * min(self.sent, _CALLS)


_FIRST_PAUSE_S = 0.5
_FIRST_REST_S = 0.1
"""For so long a refused call rests, unless the server wishes otherwise; twice as long after each further 429."""
_DECREASE = 0.8
_DOUBLING = 0.7
"""By so much each call raises the rate until the next 429: the rate doubles in a second."""
_INCREASE = 0.05
"""The part of the rate at the last 429 by which the rate grows in a second from then on."""
_PROBE_AFTER_S = 15.0
_PROBE_BELOW = 3.0
"""The old rate is tried again after so long, or when the rate has fallen by so much: 429s as before mean that it helps
nothing. Each trial that fails makes both larger."""
_PROVEN = 100
"""Replies after which a trial has not failed."""
_WINDOW_S = 1.0
"""The first rate is that of so many seconds."""
_FASTEST = 1000.0
"""Calls a second from which on the pace is no limit any more."""


class Pace:
    """The pace of all calls to one endpoint, of all event loops. Without a 429 a call waits for nothing."""

    def __init__(self, rng: random.Random, on_pause: Callable[[float], None]) -> None:
        """Begin without a limit; `rng` spreads the pauses. `on_pause` gets the seconds for which all calls pause."""
        self._rng, self._on_pause = rng, on_pause
        self._ended = LoopsEvent()
        self.end = self._ended.set  # then nobody is held back any more: nothing more is sent
        self._rate: float | None = None
        self._gain: float | None = None
        """Calls a second by which the rate grows in a second; None while it doubles."""
        self._share: _RefusedShare | None = _RefusedShare()
        """Finds out when the calls become too fast; None while every 429 says that they are."""
        self._before = 0.0
        """The calls a second that were let in when they became too fast."""
        self._probe_at, self._next_at = 0.0, 0.0
        self._probes = 0
        """How often in a row the old rate was tried in vain."""
        self._replies = 0
        """Since the last trial."""
        self._old_until = 0.0
        """What was sent before was sent at a rate that has been lowered since."""
        self._lowered = 0
        """How often the rate was lowered with no reply between."""
        self._let_in: deque[float] = deque(maxlen=1024)
        """When the latest calls were sent that were not refused."""
        self._queue, self._lock = LoopsQueue(), threading.Lock()

    @property
    def free(self) -> bool:
        """Whether a call may go at once."""
        return self._rate is None and self._queue.empty and anyio.current_time() >= self._next_at

    async def wait(self) -> None:
        """Wait for this call's turn. Callers come through in the order in which they came."""
        async with self._queue:
            while (now := anyio.current_time()) < self._next_at and not self._ended.is_set():
                await self.rest(self._next_at - now)  # meanwhile the next call may be put off again
            with self._lock:
                fallen = self._rate is not None and self._rate * _PROBE_BELOW ** (self._probes + 1) < self._before
                if self._share is None and (now >= self._probe_at or fallen):  # the rate of before is tried again
                    self._share, self._gain, self._rate = _RefusedShare(), None, self._before
                    self._replies, self._old_until = 0, now
                if self._rate is not None:
                    self._next_at = now + 1 / self._rate
                    raised = self._rate + (_DOUBLING if self._gain is None else self._gain / self._rate)
                    self._rate = raised if raised < _FASTEST else None

    async def rest(self, seconds: float) -> None:
        """Sleep, but not beyond the end."""
        with anyio.move_on_after(seconds):
            await self._ended.wait()

    def sent(self) -> float:
        """Note a call that is sent now; return the time, for `refused`."""
        now = anyio.current_time()
        with self._lock:
            self._let_in.append(now)
            if self._share:
                self._share.sent += 1
        return now

    def replied(self) -> None:
        """Note a reply."""
        with self._lock:
            self._lowered = 0
            self._replies += 1

    def refused(self, sent_at: float, wished_s: float | None, before: int = 0, most_s: float = LONGEST_WAIT_S) -> float:
        """Note a 429 to a call that was sent at `sent_at`; return for how many seconds that call rests.

        `wished_s` is the pause that the server wishes, if it says so, `before` how often it has refused this call.
        Nobody pauses for more than `most_s`. The 429s to calls that were under way together lower the rate once, and
        then all calls pause.
        """
        now, most_s = anyio.current_time(), min(most_s, LONGEST_WAIT_S)
        with self._lock:
            with suppress(ValueError):  # so long ago that it is no longer counted
                self._let_in.remove(sent_at)
            if sent_at < self._old_until:
                if wished_s:
                    self._put_off(now, min(wished_s, most_s))
                if self._share is None and self._gain is None:  # it turns out only now how many were let in together
                    self._rate = _DECREASE * self._let_in_a_second(now)
                return 0.0
            if self._share and not self._share.refused():
                return self._rng.uniform(1.0, 1.5) * min(wished_s or _FIRST_REST_S * 2 ** min(before, 10), most_s)
            self._slow_down(now, wished_s, most_s)
            return 0.0

    def _slow_down(self, now: float, wished_s: float | None, most_s: float) -> None:
        self._lowered += 1
        pause_s = min(wished_s or _FIRST_PAUSE_S * 2 ** min(self._lowered - 1, 10), most_s)
        self._put_off(now, pause_s)
        self._old_until = now + pause_s
        if self._share or self._rate is None:
            self._share, self._before = None, self._let_in_a_second(now)
            self._gain, self._rate = None, _DECREASE * self._before
            self._probes = 0 if self._replies >= _PROVEN else self._probes + 1
            self._probe_at = self._old_until + _PROBE_AFTER_S * 2 ** min(self._probes, 20)
        else:
            self._gain, self._rate = _INCREASE * self._rate, _DECREASE * self._rate

    def _let_in_a_second(self, now: float) -> float:
        return max(1, sum(at > now - _WINDOW_S for at in self._let_in)) / _WINDOW_S

    def note_headers(self, headers: Mapping[str, str]) -> None:
        """Note what a reply's headers say: with no request left, the next call waits for the next place."""
        room = room_left(headers)
        if room is not None and room > 0:
            with self._lock:
                self._put_off(anyio.current_time(), min(room, LONGEST_WAIT_S))

    def pause(self, pause_s: float) -> None:
        """Let no call go for so long: a server asked another process to wait."""
        with self._lock:
            self._put_off(anyio.current_time(), pause_s, told=False)

    def _put_off(self, now: float, pause_s: float, *, told: bool = True) -> None:
        self._next_at = max(self._next_at, now + pause_s * self._rng.uniform(1.0, 1.1))
        if told:
            self._on_pause(pause_s)


def room_left(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until an endpoint takes the next call, as `x-ratelimit-*` say; 0 with room, None unsaid.

    OpenAI's `reset` is the time until all `limit` places are free again, so the first is free after that part of it.
    """
    waits_s: list[float] = []
    for kind in ("requests", "tokens"):
        remaining = read_number(headers.get(f"x-ratelimit-remaining-{kind}"))
        if remaining is not None and remaining > 0:
            waits_s.append(0.0)
        elif remaining is not None and (reset := duration_s(headers.get(f"x-ratelimit-reset-{kind}", ""))) is not None:
            limit = read_number(headers.get(f"x-ratelimit-limit-{kind}")) if kind == "requests" else None
            waits_s.append(reset / max(1.0, limit or 1.0))
    return max(waits_s, default=None)


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART_OF_DURATION = re.compile(r"([\d.]+)(ms|[smhd])")


def duration_s(text: str) -> float | None:
    """Return a duration such as `1s`, `20ms`, `6m0s` or `1.5` in seconds; None for anything else."""
    if (plain := _number(text)) is not None:
        return plain
    total, at = 0.0, 0
    while part := _PART_OF_DURATION.match(text, at):
        if (value := _number(part[1])) is None:
            return None
        total, at = total + value * _UNITS[part[2]], part.end()
    return total if text and at == len(text) else None


def _number(text: str | None) -> float | None:
    number = read_number(text)
    return None if number is None or math.isinf(number) else number
