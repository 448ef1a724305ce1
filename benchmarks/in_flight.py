"""How many rollouts are in flight, and how long a run takes beside its critical path, judging included.

    python benchmarks/in_flight.py [RUNS] [--busy]

First, RUNS times (10), 500 queries, `-n 2`, `--concurrency 256`, at a server that takes 4 s for each reply: the agent's
requests that are at the server at a time, as the mean between the arrival of the first and of the last quarter of them.
Then, RUNS times, 16 queries, `-n 8`, 64 rollouts and 64 judge calls at a time, at 500 ms a reply: the time from begin
to end beside the critical path, which is the slowest chain of replies (two turns of the agent, then seeding and three
rounds of `arena`) plus all calls, divided by the limit, times the latency.

The server is another process, and the time that of the clock. On a machine that is busy with other work, `--busy`
measures on a loop whose clock counts the CPU time of this thread and the waits of its work, as if nothing else ran
there; the server is then in the same loop, and its CPU time is not counted.
"""

import asyncio
import gc
import math
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from agents import Agent, function_tool

from harness.archive import folder_store
from harness.cli.app import OBJECTS_BEFORE_A_LOOK
from harness.core.records import Query
from harness.core.settings_sources import load
from harness.pipeline.plan import prepare
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import run_queries
from harness.rollouts.loading import from_object

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fake_endpoint import Reaction, Say, Seen, fair_judge
from tests.virtual_endpoint import VirtualEndpoint
from tests.virtual_time import VirtualTimeLoop

ENVIRON = {"OPENAI_API_KEY": "sk-x"}
MANY = {"n": 2, "concurrency": 256, "judge_concurrency": 256, "queries": 500, "latency_s": 4.0, "turns": 1}
CHAIN = {"n": 8, "concurrency": 64, "judge_concurrency": 64, "queries": 16, "latency_s": 0.5, "turns": 2}
ROUNDS = 4
"""Of `arena` with eight rollouts, one after another: the seeding and three rounds of the bracket."""


@function_tool
async def search(query: str) -> str:
    """Look it up."""
    return f"what is known of {query}"


@dataclass
class Log:
    """When each request came and when its reply left, in seconds, by kind: the agent's (False), the judge's (True)."""

    times: dict[bool, list[tuple[float, float]]] = field(default_factory=lambda: {False: [], True: []})

    @property
    def calls(self) -> int:
        """How many requests there were."""
        return sum(map(len, self.times.values()))

    def mean_in_flight(self) -> float:
        """Return the mean number of the agent's requests at the server, in the middle half of them."""
        spans = sorted(self.times[False])
        begin, end = spans[len(spans) // 4][0], spans[3 * len(spans) // 4][0]
        return sum(max(0.0, min(b, end) - max(a, begin)) for a, b in spans) / (end - begin)


def endpoint_for(log: Log, latency_s: float, turns: int) -> "FreeEndpoint":
    """Return a server that notes what comes; the time is that of its loop."""
    judge, numbers = fair_judge(), iter(range(1_000_000))

    async def script(seen: Seen) -> Reaction:
        came = anyio.current_time()
        await anyio.sleep(latency_s)
        log.times[seen.is_judge].append((came, anyio.current_time()))
        if seen.is_judge:
            return judge(seen)
        if len(seen.tool_outputs) < turns - 1:
            return Say(calls=(("search", {"query": "it"}),))
        return Say(f"The answer, number {next(numbers)}. " * 40)

    return FreeEndpoint(script)


def serve(pipe: Any, latency_s: float, turns: int) -> None:
    """Run the server until the other side hangs up; then give the log."""
    log = Log()

    async def until_told() -> None:
        async with endpoint_for(log, latency_s, turns).serving() as endpoint:
            pipe.send(endpoint.base_url)
            await anyio.to_thread.run_sync(pipe.recv)
        pipe.send(log)

    anyio.run(until_told)


async def run(base_url: str, folder: str, turns: int, queries: int, options: dict[str, Any]) -> float:
    """Do a whole run; return how long it took."""
    agent = Agent(name="a", tools=[search] if turns > 1 else [], model="m")
    asked = [Query(id=f"q{k}", text=f"Why {k}?") for k in range(queries)]
    settings = load({"base_url": base_url, "runs_dir": Path(folder), **options})
    prepared = await prepare(from_object(agent), settings, ENVIRON)
    began = anyio.current_time()
    await run_queries(prepared, asked, RunEnvironment(ENVIRON))
    return anyio.current_time() - began


def at_a_process(folder: str, latency_s: float, turns: int, queries: int, options: dict[str, Any]) -> tuple[float, Log]:
    """Run at a server in another process."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, latency_s, turns), daemon=True)
    server.start()
    took_s = anyio.run(run, ours.recv(), folder, turns, queries, options)
    ours.send("done")
    log = ours.recv()
    server.join()
    return took_s, log


class Uncounted:
    """Work of a loop whose CPU time its clock does not count."""

    seconds = 0.0

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        """Take the work; it is done when this is awaited."""
        self._work = work

    def __await__(self) -> Generator[Any, Any, None]:
        step: Callable[[], Any] = partial(self._work.send, None)
        while True:
            began = time.thread_time()
            try:
                waits_for = step()
            except StopIteration:
                return
            finally:
                Uncounted.seconds += time.thread_time() - began
            try:
                yield waits_for
                step = partial(self._work.send, None)
            except BaseException as exc:  # noqa: BLE001 - whatever it is, the work is told
                step = partial(self._work.throw, exc)


class CpuTimeLoop(VirtualTimeLoop):
    """A loop whose clock counts the CPU time of its thread, less that of the server, and jumps over the waits."""

    def time(self) -> float:
        return self.now + time.thread_time() - Uncounted.seconds


class FreeEndpoint(VirtualEndpoint):
    """A server in the loop of its callers that takes none of their time."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Uncounted(super()._serve(reader, writer))


def in_one_loop(folder: str, latency_s: float, turns: int, queries: int, options: dict[str, Any]) -> tuple[float, Log]:
    """Run at a server in the same loop, on a clock that other work on the machine does not turn."""
    log = Log()

    async def work() -> float:
        async with endpoint_for(log, latency_s, turns).serving() as endpoint:
            return await run(endpoint.base_url, folder, turns, queries, options)

    folder_store.SLOW_S = math.inf  # nobody can wait for a thread: its time does not count
    return anyio.run(work, backend_options={"loop_factory": CpuTimeLoop}), log


def measured(options: dict[str, Any], *, busy: bool) -> tuple[float, float, Log]:
    """Return the seconds that a run took, its CPU seconds, and the server's log."""
    chosen = dict(options)
    queries, latency_s, turns = (chosen.pop(name) for name in ("queries", "latency_s", "turns"))
    with tempfile.TemporaryDirectory() as folder:
        cpu_s = time.process_time()
        took_s, log = (in_one_loop if busy else at_a_process)(folder, latency_s, turns, queries, chosen)
        return took_s, time.process_time() - cpu_s, log


def main() -> None:
    """Print both figures."""
    words = [word for word in sys.argv[1:] if word != "--busy"]
    runs, busy = int(words[0]) if words else 10, "--busy" in sys.argv
    gc.set_threshold(OBJECTS_BEFORE_A_LOOK, *gc.get_threshold()[1:])  # as in the command
    print_in_flight(runs, busy=busy)
    print_beside_path(runs, busy=busy)


def print_in_flight(runs: int, *, busy: bool) -> None:
    """Print how many requests are at the server at a time."""
    most, shares = MANY["concurrency"], list[float]()
    print(f"{MANY['queries']} queries x {MANY['n']}, {MANY['latency_s']:g} s a reply, --concurrency {most}:")
    for _ in range(runs):
        took_s, cpu_s, log = measured(MANY, busy=busy)
        shares.append(log.mean_in_flight() / most)
        print(f"  {shares[-1] * most:.1f} in flight in the middle half; {took_s:.1f} s, CPU {cpu_s:.1f} s", flush=True)
    median = statistics.median(shares)
    print(f"  of {most}: median {median:.3f}, from {min(shares):.3f} to {max(shares):.3f} in {runs} runs")


def print_beside_path(runs: int, *, busy: bool) -> None:
    """Print how long a run takes beside its critical path."""
    limit, ratios = CHAIN["concurrency"], list[float]()
    print(f"{CHAIN['queries']} queries x {CHAIN['n']}, {CHAIN['latency_s']:g} s a reply, {limit} at a time:")
    for _ in range(runs):
        took_s, cpu_s, log = measured(CHAIN, busy=busy)
        path_s = (CHAIN["turns"] + ROUNDS + log.calls / limit) * CHAIN["latency_s"]
        ratios.append(took_s / path_s)
        print(f"  {took_s:.2f} s, critical path {path_s:.2f} s ({log.calls} calls), CPU {cpu_s:.2f} s")
    median = statistics.median(ratios)
    print(f"  time / critical path: median {median:.3f}, from {min(ratios):.3f} to {max(ratios):.3f} in {runs} runs")


if __name__ == "__main__":
    main()
