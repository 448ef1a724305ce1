"""Tools that hang keep no other rollout's tool waiting, and do not keep the process from ending."""

import asyncio
import threading
import time
from collections.abc import Callable

import anyio
import pytest
from agents import Agent, function_tool

from harness.rollouts.tool_threads import LoopWatch, ToolThreads, noting_no_thread, tools_in_threads
from tests.fake_endpoint import Reaction, Say, Seen
from tests.rollouts.test_capture import roll_out

pytestmark = pytest.mark.anyio


async def in_threads(threads: ToolThreads, function: Callable[[], object]) -> object:
    return await asyncio.get_running_loop().run_in_executor(threads, function)


async def test_a_thread_that_is_lost_is_made_up_for_and_said() -> None:
    notes, release = list[str](), threading.Event()
    threads = ToolThreads(1, notes.append)
    for _ in range(3):
        with anyio.move_on_after(0.05):
            await in_threads(threads, release.wait)
    with anyio.fail_after(5):
        assert await in_threads(threads, lambda: "runs") == "runs"
    assert [note[:27] for note in notes] == ["1 tool thread is lost: a sy", "2 tool threads are lost: a "]
    release.set()
    threads.shutdown()


async def test_what_a_thread_raises_reaches_the_caller_and_the_thread_goes_on() -> None:
    threads = ToolThreads(1, pytest.fail)

    def fails() -> None:
        raise KeyError("no")

    for _ in range(3):
        with pytest.raises(KeyError):
            await in_threads(threads, fails)
    assert await in_threads(threads, threading.active_count)
    threads.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        threads.submit(print)


async def test_no_more_run_at_a_time_than_asked_for() -> None:
    threads, running, most, lock = ToolThreads(3, pytest.fail), 0, 0, threading.Lock()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(in_threads, threads, work)
    assert most == 3
    threads.shutdown()


async def test_a_tool_that_never_got_a_thread_says_so_to_its_rollout() -> None:
    threads, release, told = ToolThreads(1, lambda _: None), threading.Event(), list[str]()
    first = threads.submit(release.wait)
    noting = noting_no_thread(lambda: told.append("no thread"))
    noting.__enter__()
    with anyio.move_on_after(0.05):
        await in_threads(threads, print)
    noting.__exit__(None, None, None)
    assert told == ["no thread"]
    release.set()
    assert first.result(5)
    threads.shutdown()


async def test_six_hung_tools_among_twenty_four_rollouts_fail_exactly_six() -> None:
    release = threading.Event()

    @function_tool
    def look(word: str) -> str:
        """Look something up."""
        if word == "hang":
            release.wait(30)
        return "found"

    lock, numbers = threading.Lock(), iter(range(1000))

    def script(seen: Seen) -> Reaction:
        if seen.tool_outputs:
            return Say("Done.")
        with lock:
            hangs = next(numbers) < 6
        return Say(calls=(("look", {"word": "hang" if hangs else "fine"}),))

    rollouts, _ = await roll_out(Agent(name="a", tools=[look]), script, n=24, concurrency=8, timeout=3.0)
    release.set()
    assert [r.status for r in rollouts].count("failed") == 6
    assert {r.failure.kind for r in rollouts if r.failure} == {"timeout"}


@pytest.mark.nightly
async def test_what_blocks_the_loop_is_named() -> None:
    notes: list[str] = []

    def computes() -> None:
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            pass

    with LoopWatch(notes.append):
        computes()
        await anyio.sleep(0.01)
        computes()
        await anyio.sleep(0.01)
    assert len(notes) == 1
    assert "blocked for more than 1 s by computes (" in notes[0]
    assert "test_tool_threads.py, line" in notes[0]


async def test_what_overlaps_on_a_loop_shares_the_threads_and_the_last_gives_the_executor_back() -> None:
    loop, release = asyncio.get_running_loop(), threading.Event()
    first, second = tools_in_threads(1, pytest.fail), tools_in_threads(1, pytest.fail)
    first.__enter__()
    with anyio.fail_after(5):
        waits = loop.run_in_executor(None, release.wait)
        second.__enter__()
        assert await loop.run_in_executor(None, threading.current_thread) is not threading.current_thread()
        first.__exit__(None, None, None)
        release.set()
        assert await waits
        assert (await loop.run_in_executor(None, threading.current_thread)).name == "harness-tool"
        second.__exit__(None, None, None)
        assert (await loop.run_in_executor(None, threading.current_thread)).name != "harness-tool"
