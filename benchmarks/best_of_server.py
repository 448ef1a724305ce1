"""`harness.best_of` in a Starlette server: are answers lost, is the deadline kept, for how long is the loop blocked?

    python benchmarks/best_of_server.py [ROUNDS]

A round is 16 requests at the same time, 8 rollouts each, against a judge that works, is dead, hangs or talks nonsense;
once without and once with a deadline of 5 s. The model server is another process. A task in the server's loop ticks
every 5 ms: the loop was blocked for as long as a tick came late. The CPU time that the loop's thread took between two
ticks is printed too: a machine that is busy with something else makes ticks late that were not blocked.
"""

import asyncio
import logging
import multiprocessing
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import httpx2
from looking_agent import AGENT
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import harness

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fake_endpoint import Hang, Reaction, Say, Seen, fair_judge
from tests.virtual_endpoint import VirtualEndpoint

AT_A_TIME = 16
ROLLOUTS = 8
DEADLINE_S = 5.0
TICK_S = 0.005
LIMIT_MS = 50
JUDGES = ("sound", "dead", "hanging", "nonsense")
IMPATIENT: dict[str, Any] = {"retries": 1, "judge_timeout": 5.0, "give_up": 5.0}
"""Without a deadline, how long a judge is waited for is up to these."""


NUMBERS = count()


async def agent_side(seen: Seen) -> Reaction:
    """Call the tool, then answer."""
    await anyio.sleep(0.3)
    if not seen.tool_outputs:
        return Say(calls=(("look_up", {"word": "sky"}),))
    return Say(f"Answer {next(NUMBERS)}. " + "The sky is blue because air scatters blue light. " * 20)


async def sound(seen: Seen) -> Reaction:
    """Judge in half a second."""
    await anyio.sleep(0.5)
    return fair_judge()(seen)


async def hanging(_: Seen) -> Reaction:
    """Never reply."""
    return Hang(3600)


async def nonsense(_: Seen) -> Reaction:
    """Reply with what is no verdict."""
    return Say("The second one, I should think.")


async def serve(pipe: Any) -> None:
    """Serve the agent's models and each judge until the other side hangs up."""
    scripts = {"agent": agent_side, "sound": sound, "hanging": hanging, "nonsense": nonsense}
    servers = {name: VirtualEndpoint(script) for name, script in scripts.items()}
    async with anyio.create_task_group() as tasks:

        async def hold(server: VirtualEndpoint, started: anyio.Event) -> None:
            async with server.serving():
                started.set()
                await anyio.sleep_forever()

        for server in servers.values():
            started = anyio.Event()
            tasks.start_soon(hold, server, started)
            await started.wait()
        pipe.send({name: server.base_url for name, server in servers.items()} | {"dead": "http://127.0.0.1:9/v1"})
        await anyio.to_thread.run_sync(pipe.recv)
        tasks.cancel_scope.cancel()


def serve_in_process(pipe: Any) -> None:
    """Run the model server."""
    asyncio.run(serve(pipe))


def app_at(urls: dict[str, str]) -> Starlette:
    """Return a server that answers with the best of N."""

    async def best(request: Request) -> JSONResponse:
        judge, deadline = request.query_params["judge"], request.query_params.get("deadline")
        best = await harness.best_of(
            AGENT,
            request.query_params["q"],
            ROLLOUTS,
            "j",
            base_url=urls["agent"],
            judge_base_url=urls[judge],
            deadline=float(deadline) if deadline else None,
            **IMPATIENT,
        )
        return JSONResponse({"answer": str(best), "judged": best.judged, "why": best.why})

    return Starlette(routes=[Route("/best", best)])


@dataclass
class Ticks:
    """How late each tick of a task in the loop came, and the CPU time of the loop's thread since the tick before."""

    late_ms: list[float] = field(default_factory=list[float])
    cpu_ms: list[float] = field(default_factory=list[float])

    @asynccontextmanager
    async def ticking(self) -> AsyncGenerator[None]:
        """Tick while the block runs."""
        task = asyncio.create_task(self._tick())
        try:
            yield
        finally:
            task.cancel()

    async def _tick(self) -> None:
        while True:
            began, worked = time.perf_counter(), time.thread_time()
            await asyncio.sleep(TICK_S)
            self.late_ms.append(1000 * (time.perf_counter() - began - TICK_S))
            self.cpu_ms.append(1000 * (time.thread_time() - worked))

    @property
    def figures(self) -> str:
        """The longest block, and how many are above 50 ms: by the clock, and in CPU time of the loop's own."""
        above, of = sum(late > LIMIT_MS for late in self.late_ms), len(self.late_ms)
        busy = sum(cpu > LIMIT_MS for cpu in self.cpu_ms)
        return (
            f"blocked {max(self.late_ms):4.0f} ms, {above:2} of {of} above {LIMIT_MS}; "
            f"CPU {max(self.cpu_ms):4.0f} ms, {busy:2} above"
        )


async def one_round(client: httpx2.AsyncClient, judge: str, deadline: float | None) -> list[tuple[float, Any]]:
    """Send the requests of a round at the same time; return the seconds and the reply of each."""

    async def ask(number: int) -> tuple[float, Any]:
        began = time.perf_counter()
        params = {"q": f"Why is the sky blue, case {number}?", "judge": judge}
        reply = await client.get("/best", params=params | ({"deadline": str(deadline)} if deadline else {}))
        return time.perf_counter() - began, reply.json() if reply.status_code == 200 else None

    return await asyncio.gather(*(ask(number) for number in range(AT_A_TIME)))


async def measure(urls: dict[str, str], rounds: int) -> None:
    """Print the figures for each judge, without and with a deadline."""
    bare = Ticks()
    async with bare.ticking():
        await asyncio.sleep(2)
    print(f"{'an idle loop':34}{bare.figures}")
    transport = httpx2.ASGITransport(app=app_at(urls), raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://server", timeout=120) as client:
        for judge in JUDGES:
            for deadline in (None, DEADLINE_S):
                ticks, replies = Ticks(), list[tuple[float, Any]]()
                for _ in range(rounds):
                    async with ticks.ticking():
                        replies += await one_round(client, judge, deadline)
                answered = [reply for _, reply in replies if reply and reply["answer"]]
                judged = sum(reply["judged"] for reply in answered)
                slowest = max(seconds for seconds, _ in replies)
                name = f"judge {judge}, " + (f"deadline {deadline:g} s" if deadline else "no deadline")
                print(f"{name:34}{ticks.figures}; slowest {slowest:5.2f} s; ", end="")
                print(f"answered {len(answered)} of {len(replies)}, judged {judged}")


def main() -> None:
    """Print the figures."""
    logging.getLogger("arena-harness").setLevel(logging.ERROR)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    began = time.perf_counter()
    harness.preload()
    print(f"harness.preload(): {time.perf_counter() - began:.1f} s")
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve_in_process, args=(theirs,), daemon=True)
    server.start()
    urls = ours.recv()
    asyncio.run(measure(urls, rounds))
    ours.send("done")
    server.join()


if __name__ == "__main__":
    main()
