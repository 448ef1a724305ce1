"""Names what blocks the event loop: an async tool that computes or sleeps without awaiting stops every rollout."""

import asyncio
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Self

BLOCKED_S = 1.0
_BEAT_S = 0.25
_NOT_THE_USERS = tuple(
    str(Path(folder).resolve())
    for folder in (
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        Path(__file__).parents[1],
    )
)


class LoopWatch:
    """Watches the running loop from a thread, and notes once a place what held the loop for more than a second."""

    def __init__(self, note: Callable[[str], None]) -> None:
        """Tell `note`, on the loop, once it goes on."""
        self._note = note
        self._noted: set[str] = set()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        """Begin to watch."""
        self._loop, self._thread_id = asyncio.get_running_loop(), threading.get_ident()
        self._beat()
        threading.Thread(target=self._watch, name="harness-loop-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """End watching."""
        self._over.set()
        self._timer.cancel()

    def _beat(self) -> None:
        self._beat_at = time.monotonic()
        self._timer = self._loop.call_later(_BEAT_S, self._beat)

    def _watch(self) -> None:
        while not self._over.wait(_BEAT_S):
            if time.monotonic() - self._beat_at < BLOCKED_S + _BEAT_S:
                continue
            place = users_place(sys._current_frames().get(self._thread_id))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no other way
            if place and place not in self._noted and not self._loop.is_closed():
                self._noted.add(place)
                what = f"the event loop was blocked for more than {BLOCKED_S:g} s by {place}: all rollouts waited"
                advice = "make the tool synchronous, or await what it waits for"
                self._loop.call_soon_threadsafe(self._note, f"{what}; {advice}")


def users_place(frame: FrameType | None) -> str | None:
    """Return the function, file and line of the innermost frame that is the user's own, None without one."""
    for inner in _outwards(frame):
        file = inner.f_code.co_filename
        if not file.startswith(("<", *_NOT_THE_USERS)):
            return f"{inner.f_code.co_name} ({file}, line {inner.f_lineno})"
    return None


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame:
        yield frame
        frame = frame.f_back
