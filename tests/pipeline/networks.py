"""Whole runs at a scripted server, on virtual time: an agent that searches once, a fair judge, what came of it."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from agents import Agent, function_tool

from harness.archive.reader import RunReader
from harness.core.rankings import AnyVerdict
from harness.core.records import Query
from harness.core.settings_sources import load
from harness.pipeline.plan import prepare
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import RunResult, run_queries
from harness.rollouts.loading import from_object
from tests.fake_endpoint import Reaction, Refuse, Say, Seen, fair_judge
from tests.virtual_endpoint import VirtualEndpoint
from tests.virtual_time import run_virtually

QUERIES = [Query(id=name, text=f"Why {name}?") for name in ("one", "two", "three")]
Slots = dict[tuple[str, int], float | None]
Fault = Callable[[Seen], Reaction | None]


@function_tool
async def search(query: str) -> str:
    """Look it up."""
    return f"what is known of {query}"


AGENT = Agent(name="a", tools=[search], model="m")


def good(seen: Seen) -> Say:
    """What the server replies on a good day: the same to the same request."""
    if seen.is_judge:
        return fair_judge()(seen)  # pyright: ignore[reportReturnType] - it always says something
    if not seen.tool_outputs:
        return Say(calls=(("search", {"query": "it"}),))
    drawn = f"{seen.user}/{seen.body['seed']}"
    return Say(f"Answer {hashlib.sha256(drawn.encode()).hexdigest()}.")


def endpoint_with(fault: Fault, latency_s: float = 0.2) -> VirtualEndpoint:
    async def script(seen: Seen) -> Reaction:
        reaction = fault(seen)
        await anyio.sleep(0.005 if isinstance(reaction, Refuse) else latency_s)
        return reaction or good(seen)

    return VirtualEndpoint(script)


class Limit:
    """A token bucket: so many requests a second, `burst` at once."""

    def __init__(self, rate: float, burst: float, retry_after: str | None) -> None:
        self._rate, self._burst, self._tokens, self._at = rate, burst, burst, 0.0
        self._headers = {"retry-after": retry_after} if retry_after else {}

    def __call__(self, seen: Seen) -> Reaction | None:
        now = anyio.current_time()
        self._tokens, self._at = min(self._burst, self._tokens + (now - self._at) * self._rate), now
        if self._tokens < 1:
            return Refuse(429, "slow down", headers=self._headers)
        self._tokens -= 1
        return None


ENVIRON = {"OPENAI_API_KEY": "sk-x", "HARNESS_JUDGE_API_KEY": "sk-y"}
"""Agent and judge have keys of their own, and so gates of their own, unless a test says otherwise."""


async def run_at(
    endpoint: VirtualEndpoint, folder: Path, n: int = 8, environ: Mapping[str, str] = ENVIRON, **options: Any
) -> RunResult:
    """Do a whole run at an endpoint."""
    chosen = load({"n": n, "base_url": endpoint.base_url, "runs_dir": folder, **options})
    return await run_queries(await prepare(from_object(AGENT), chosen, environ), QUERIES, RunEnvironment(environ))


def places(result: RunResult) -> Slots:
    """Return the place of each rollout in the newest ranking."""
    with RunReader(result.path) as reader:
        ranking = reader.ranking(result.ranking_id)
        return {(group.query, r.index): r.rank for group in ranking.groups for r in group.rollouts}


def kinds(result: RunResult) -> Counter[str]:
    """Count the rollouts by how they ended."""
    with RunReader(result.path) as reader:
        rollouts = [r for query in reader.queries() for r in reader.group(query).rollouts]
    return Counter(r.failure.kind if r.failure else "ok" for r in rollouts)


def nothing(seen: Seen) -> None:
    """No fault."""


def one_run(fault: Fault, folder: Path, **options: Any) -> tuple[RunResult, VirtualEndpoint, float]:
    """Do a whole run at a new endpoint, and return how long it took."""

    async def work() -> tuple[RunResult, VirtualEndpoint, float]:
        async with endpoint_with(fault).serving() as endpoint:
            began = anyio.current_time()
            result = await run_at(endpoint, folder, **options)
            return result, endpoint, anyio.current_time() - began

    return run_virtually(work)


@cache
def places_on_a_good_day(n: int) -> Slots:
    with TemporaryDirectory() as folder:
        return places(one_run(nothing, Path(folder), n=n)[0])


def verdicts(result: RunResult) -> list[AnyVerdict]:
    with RunReader(result.path) as reader:
        return [*reader.verdicts()]
