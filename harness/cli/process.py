"""What a command does to its process: Ctrl-C becomes an error, stdout stays free for results, logs are silenced."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import partial
from typing import TypeVar

import anyio
from rich.console import Console

from harness.cli.console import stderr
from harness.cli.output import Caller, say
from harness.cli.progress_bars import ProgressBars
from harness.core.errors import Interrupted
from harness.core.progress import NO_DEADLINE, Deadline, StopSign
from harness.pipeline.resolve import RunEnvironment
from harness.pipeline.trust import what_is_kept

_T = TypeVar("_T")
_LOGGERS = ("openai", "openai.agents", "stamina", "httpx", "httpx2")
_OBJECTS_BEFORE_A_LOOK = 10_000
"""So many new objects before the garbage collector looks at them, where rollouts are made."""
_TURNS = 3
"""Turns of the event loop in which a signal is read, handled, and followed."""


def run_interruptible(
    work: Callable[[], Awaitable[_T]], bars: ProgressBars, stop: StopSign | None = None, grace_s: float = 0.0
) -> _T:
    """Run `work`. The first Ctrl-C sets `stop` and lets what is under way end for `grace_s`; a second cancels it.

    Raises Interrupted, saying what is kept.
    """
    stop = stop or StopSign()
    try:
        with stdout_for_results():
            result = anyio.run(_until_stopped, partial(bars.around, work), stop, grace_s)
        if not stop.asked:
            return result
    except (KeyboardInterrupt, asyncio.CancelledError):
        pass
    raise Interrupted(f"interrupted. {what_is_kept(bars.folder)}") from None


def run_under_bars(
    work: Callable[[RunEnvironment], Awaitable[_T]],
    caller: Caller,
    console: Console,
    *,
    grace_s: float = 0.0,
    deadline: Deadline = NO_DEADLINE,
    rolls_out: bool = False,
) -> _T:
    """Run `work` as `run_interruptible` does, with its progress on `console`. Raises Interrupted."""
    with ProgressBars(console, quiet=caller.quiet) as bars, little_garbage() if rolls_out else nullcontext():
        run_env = RunEnvironment(caller.environ, progress=bars, deadline=deadline)
        return run_interruptible(partial(work, run_env), bars, run_env.stop, grace_s)


def run_silently(work: Callable[[RunEnvironment], Awaitable[_T]], caller: Caller) -> _T:
    """Run what is over soon, such as a quote, without progress. Raises Interrupted."""
    with ProgressBars(stderr(quiet=True), quiet=True) as bars:
        return run_interruptible(partial(work, RunEnvironment(caller.environ)), bars)


@contextmanager
def little_garbage() -> Generator[None]:
    """Keep garbage from piling up while rollouts are made: an agent's tools leave classes, which refer to themselves.

    What is there by now stays to the end. Set aside, it costs the garbage collector no time, so that it can look at
    the rest ten times as often as in a short command (`cli/app.py`). A large run takes ten megabytes less by that.
    """
    before = gc.get_threshold()
    sets_aside = not gc.get_freeze_count()  # else it was done, and is not undone here
    if sets_aside:
        gc.freeze()
    gc.set_threshold(_OBJECTS_BEFORE_A_LOOK, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if sets_aside:
            gc.unfreeze()  # the last look of the process is at everything


async def _until_stopped(work: Callable[[], Awaitable[_T]], stop: StopSign, grace_s: float) -> _T:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task, "this runs in a task"  # noqa: S101 - for the type checker

    def on_interrupt() -> None:
        if stop.asked or not grace_s:
            task.cancel()
            return
        stop.asked = True
        say(f"stopping: what is under way may end, for {grace_s:g} s at most (--grace); Ctrl-C again ends it", err=True)
        loop.call_later(grace_s, task.cancel)

    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    try:
        result = await work()
        for _ in range(_TURNS):  # a Ctrl-C may have come while something held the loop up to the end, such as Ray
            await asyncio.sleep(0)
        return result
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        if stop.asked:  # a further Ctrl-C while the loop is closed would be a traceback
            signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def stdout_for_results() -> Generator[None]:
    """Send to stderr what an agent's code prints, writes to file descriptor 1, or lets its child processes write."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # the process was started without a stdout
        kept = None
    try:
        if kept is not None:
            os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)


def silence_logs(*, verbose: bool = False) -> None:
    """Keep the SDK's and the retry library's own log off stderr: what matters of it is in the records."""
    if verbose:
        logging.getLogger("arena-harness").setLevel(logging.INFO)
        if logging.lastResort:
            logging.lastResort.setLevel(logging.INFO)
        return
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
