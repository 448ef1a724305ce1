"""What capture and archiving cost in CPU, against a bare `Runner.run` loop with tracing off, over HTTP.

    python benchmarks/overhead.py [PAIRS]

Both sides run the same agent (three tool turns, then an answer) against the same server in another process, with the
same concurrency, and neither reads the certificates anew. They take turns (bare, captured, captured, bare), and the
ratio is taken pair by pair. CPU is this process's own, user and system.

After a warm-up pair the garbage collector passes over all that was imported (`gc.freeze`). A walk over it takes a tenth
of a side's time and is due about once a side, so that it would fall on one side by chance.
"""

import gc
import multiprocessing
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import openai
from agents import ModelSettings, OpenAIProvider, RunConfig, Runner
from looking_agent import AGENT

from harness.api.one_group import rollout
from harness.archive.run_info import RunInfo
from harness.archive.store import RunStore
from harness.core.progress import now

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fake_endpoint import FakeEndpoint, Say, Seen

ROLLOUTS = 128
CONCURRENCY = 16
TURNS = 3


def script(seen: Seen) -> Say:
    """Call the tool three times, then answer."""
    done = len(seen.tool_outputs)
    return Say("The answer. " * 50) if done == TURNS else Say(calls=(("look_up", {"word": f"word {done}"}),))


def serve(pipe: Any) -> None:
    """Run the server until the other side hangs up."""
    with FakeEndpoint(agent=script).serving() as endpoint:
        pipe.send(endpoint.base_url)
        pipe.recv()


def bare_client(base_url: str) -> openai.AsyncOpenAI:
    """Return openai's own client; the certificates are read once a process."""
    http_client = openai.DefaultAsyncHttpxClient(verify=_certificates())
    return openai.AsyncOpenAI(base_url=base_url, api_key="none", http_client=http_client)


@cache
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()


async def bare(base_url: str, asked: Sequence[str]) -> None:
    """Run the agent once on each text, with nothing around it."""
    limiter = anyio.CapacityLimiter(CONCURRENCY)
    async with bare_client(base_url) as client:
        provider = OpenAIProvider(openai_client=client, use_responses=False)
        config = RunConfig(
            model_provider=provider, tracing_disabled=True, model_settings=ModelSettings(temperature=0.8)
        )

        async def one(text: str) -> None:
            async with limiter:
                await Runner.run(AGENT, text, run_config=config)

        async with anyio.create_task_group() as tasks:
            for text in asked:
                tasks.start_soon(one, text)


def new_run() -> RunInfo:
    """Return the information of a run that is made now."""
    return RunInfo(
        schema_version=1,
        id=f"bench-{time.monotonic_ns()}",
        created_at=datetime.now(UTC),  # noqa: TID251
        agent="bench",
        settings={},
        judge={},
        offline=False,
        versions={},
    )


async def captured(base_url: str, folder: Path) -> None:
    """Roll out into a run on disk."""
    with RunStore.create(folder, new_run()) as store:
        await rollout(AGENT, "Go.", n=ROLLOUTS, store=store, base_url=base_url, concurrency=CONCURRENCY)


def cpu(work: Any, *args: Any) -> float:
    """Return the CPU seconds that `work` takes in this process."""
    before = time.process_time()
    anyio.run(work, *args)
    return time.process_time() - before


def pair(base_url: str, folder: Path) -> tuple[float, float]:
    """Return the CPU seconds of both sides, captured and bare, each run twice, A B B A: the pace drifts."""
    asked = ["Go."] * ROLLOUTS
    theirs = cpu(bare, base_url, asked)
    ours = cpu(captured, base_url, folder) + cpu(captured, base_url, folder)
    return ours, theirs + cpu(bare, base_url, asked)


def interleaved(
    serve: Callable[..., None], options: tuple[Any, ...], pair: Callable[[str, Path], tuple[float, float]], pairs: int
) -> list[tuple[float, float]]:
    """Return what `pair` gives, `pairs` times after a warm-up. `serve(pipe, *options)` is the server, a process."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, *options), daemon=True)
    server.start()
    base_url = ours.recv()
    with tempfile.TemporaryDirectory() as folder:
        pair(base_url, Path(folder))  # warm-up
        gc.collect()
        gc.freeze()
        sides = [pair(base_url, Path(folder)) for _ in range(pairs)]
    ours.send("done")
    server.join()
    return sides


def print_ratio(sides: Sequence[tuple[float, float]], indent: str = "") -> None:
    """Print what the first side of each pair costs beside the second."""
    ratios = sorted(ours / theirs for ours, theirs in sides)
    print(f"{indent}ratio: median {statistics.median(ratios):.3f}, from {ratios[0]:.3f} to {ratios[-1]:.3f}")


def main() -> None:
    """Print the ratio."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    sides = interleaved(serve, (), pair, pairs)
    each = [1000 * statistics.median(side) / (2 * ROLLOUTS) for side in zip(*sides, strict=True)]
    print(f"{pairs} interleaved pairs of twice {ROLLOUTS} rollouts, {TURNS} tool turns each, started {now():%Y-%m-%d}")
    print(f"CPU a rollout: captured and archived {each[0]:.1f} ms, bare {each[1]:.1f} ms")
    print_ratio(sides)


if __name__ == "__main__":
    main()
