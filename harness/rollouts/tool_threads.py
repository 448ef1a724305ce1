"""The threads in which synchronous tools run: as many as rollouts in flight, and one more for each that is lost.

asyncio's own pool has a fixed number of places, and a tool that hangs after its rollout's time is up keeps its place:
a few hung tools then stop every other rollout. Here a lost place is made up for.
"""

import asyncio
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Self

from harness.rollouts.agent_code import users_place
from harness.rollouts.lifecycle import set_within

BLOCKED_S = 1.0
_BEAT_S = 0.25


class LoopWatch:
    """Watches the running loop from a thread, and notes once a place what held the loop for more than a second."""

    def __init__(self, note: Callable[[str], None]) -> None:
        """Call `note` on the loop, once the loop goes on."""
        self._note = note
        self._noted: set[str] = set()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self._loop, self._thread_id = asyncio.get_running_loop(), threading.get_ident()
        self._beat()
        threading.Thread(target=self._watch, name="harness-loop-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
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


MOST_LOST = 256
"""Lost threads that are made up for. Beyond that, tools wait for a place."""

_on_no_thread: ContextVar[Callable[[], None] | None] = ContextVar("harness_on_no_thread", default=None)
"""Called in a rollout whose tool was given up before any thread was free for it."""


def noting_no_thread(note: Callable[[], None]) -> AbstractContextManager[None]:
    """In this task and those that it starts, call `note` where a tool is given up before a thread was free for it."""
    return set_within(_on_no_thread, note)


class ToolThreads(ThreadPoolExecutor):
    """An executor of daemon threads: none of them keeps the process from ending."""

    def __init__(self, width: int, note: Callable[[str], None]) -> None:
        """Run `width` functions at a time; `note` is called with a message about lost threads."""
        super().__init__(max_workers=1)  # asyncio takes no other kind of executor; its own threads are never started
        self.width, self._note = width, note
        self._changed = threading.Condition()
        self._waiting: deque[_Work] = deque()
        self._alive = self._idle = self._lost = 0
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function in a thread, once there is a place. Raises RuntimeError after `shutdown`."""
        work = _Work(self, partial(fn, *args, **kwargs))
        with self._changed:
            if self._closed:
                raise RuntimeError("cannot run a tool: the threads are shut down")
            self._waiting.append(work)
            self._make_room()
            self._changed.notify()
        return work

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take nothing more. A function that hangs is not waited for."""
        del wait, cancel_futures
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def widen(self, more: int) -> None:
        """Run so many more functions at a time, or fewer."""
        with self._changed:
            self.width += more
            self._make_room()
            self._changed.notify_all()

    def lose(self) -> None:
        """Make up for a thread whose function goes on though nobody waits for it any more."""
        with self._changed:
            self._lost += 1
            self._make_room()
            lost = self._lost
        if lost & (lost - 1) == 0:  # 1, 2, 4, 8, ...
            why = "a synchronous tool goes on though its rollout has ended; another thread takes the place"
            self._note(f"{lost} tool thread{'s are' if lost > 1 else ' is'} lost: {why}")

    def regain(self) -> None:
        """A function that nobody waited for has ended after all."""
        with self._changed:
            self._lost -= 1

    def _make_room(self) -> None:
        room = self.width + min(self._lost, MOST_LOST)
        if len(self._waiting) > self._idle and self._alive < room:
            self._alive += 1
            threading.Thread(target=self._serve, name="harness-tool", daemon=True).start()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._waiting and not self._closed and self._alive <= self.width + self._lost:
                    self._changed.wait()
                self._idle -= 1
                if not self._waiting:
                    self._alive -= 1
                    return
                work = self._waiting.popleft()
            work.run()
            del work  # else its result lives until the next one comes


@contextmanager
def tools_in_threads(width: int, note: Callable[[str], None]) -> Generator[None]:
    """Run the loop's synchronous tools in threads of ours, `width` at a time, until the last that shares them ends."""
    loop: Any = asyncio.get_running_loop()
    shared = _SHARED[loop] = _SHARED.get(loop) or _SharedThreads(loop)
    shared.threads.widen(width if shared.notes else width - shared.threads.width)
    shared.notes.append(note)
    try:
        yield
    finally:
        shared.notes.remove(note)
        if shared.notes:
            shared.threads.widen(-width)
        elif hasattr(loop, "_default_executor"):  # asyncio has no way to ask for it: another loop keeps our threads
            if loop._default_executor is shared.threads:  # noqa: SLF001 - as above
                loop._default_executor = shared.before  # noqa: SLF001
            shared.threads.shutdown()
            del _SHARED[loop]


class _SharedThreads:
    """The threads of one loop, and those who use them."""

    def __init__(self, loop: Any) -> None:
        self.before = getattr(loop, "_default_executor", None)
        self.notes: list[Callable[[str], None]] = []
        self.threads = ToolThreads(0, self._note)
        loop.set_default_executor(self.threads)

    def _note(self, text: str) -> None:
        for note in self.notes[:1]:
            note(text)


_SHARED: weakref.WeakKeyDictionary[Any, _SharedThreads] = weakref.WeakKeyDictionary()


class _Work(Future[Any]):
    """One function to run, and its future."""

    def __init__(self, threads: ToolThreads, function: Callable[[], Any]) -> None:
        super().__init__()
        self._pool, self._function = threads, function
        self._note_no_thread = _on_no_thread.get()
        self._lost = False

    def cancel(self) -> bool:
        """Give the function up: asyncio calls this where nobody waits for the result any more."""
        was_done = self.done()
        if super().cancel():
            if self._note_no_thread and not was_done:
                self._note_no_thread()
            return True
        if not self._lost and not self.done():
            self._lost = True
            self._pool.lose()
        return False

    def run(self) -> None:
        if not self.set_running_or_notify_cancel():
            return
        try:
            result = self._function()
        except StopIteration as exc:  # which asyncio hands to nobody: whoever waits would wait for ever
            self.set_exception(RuntimeError(f"raised StopIteration: {exc}"))
        except BaseException as exc:  # noqa: BLE001 - whatever a tool raises is for the one who waits
            self.set_exception(exc)
        else:
            self.set_result(result)
        if self._lost:
            self._pool.regain()
