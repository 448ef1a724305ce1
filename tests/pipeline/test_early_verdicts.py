"""Verdicts are asked for while their group is still being rolled out, and never one more than without."""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from harness.archive.reader import RunReader
from harness.core.records import Query
from harness.core.settings_sources import load
from harness.pipeline.plan import RescoreOptions, prepare
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import RunResult, rescore_run, run_queries
from harness.rollouts.loading import from_object
from tests.fake_endpoint import Reaction, Refuse, Seen
from tests.pipeline.networks import AGENT, ENVIRON, good, places
from tests.virtual_endpoint import VirtualEndpoint
from tests.virtual_time import run_virtually

pytestmark = pytest.mark.usefixtures("no_thread_syncs")


def drawn(seen: Seen) -> int:
    """Return a number that is the same for the same rollout of the same query."""
    return int(hashlib.sha256(f"{seen.user}/{seen.body['seed']}".encode()).hexdigest(), 16)


async def uneven(seen: Seen) -> Reaction:
    """Take 1 to 40 seconds for a turn, the anchor 1; every seventh rollout or so fails."""
    if seen.is_judge:
        await anyio.sleep(2)
        return good(seen)
    sample = seen.body["temperature"] > 0
    await anyio.sleep(1 + drawn(seen) % 40 if sample else 1)
    return Refuse(400, "no") if sample and drawn(seen) % 7 == 0 else good(seen)


def run_with(folder: Path, **options: Any) -> tuple[RunResult, VirtualEndpoint]:
    """Run a query with eight rollouts, all at a time."""

    async def work() -> tuple[RunResult, VirtualEndpoint]:
        async with VirtualEndpoint(uneven).serving() as endpoint:
            chosen = load(
                {
                    "base_url": endpoint.base_url,
                    "runs_dir": folder,
                    "concurrency": 8,
                    "n": 8,
                    "judge_label": "m",
                    **options,
                }
            )
            asked = [Query(id=f"q{k}", text=f"Why {k}?") for k in range(1)]
            prepared = await prepare(from_object(AGENT), chosen, ENVIRON)
            return await run_queries(prepared, asked, RunEnvironment(ENVIRON)), endpoint

    return run_virtually(work)


def keys(result: RunResult) -> Counter[str]:
    with RunReader(result.path) as reader:
        return Counter(verdict.key for verdict in reader.verdicts())


def early_calls(endpoint: VirtualEndpoint) -> int:
    """Return how many verdicts came before the last reply to the agent."""
    last = max(k for k, seen in enumerate(endpoint.replied) if not seen.is_judge)
    return sum(seen.is_judge for seen in endpoint.replied[:last])


CASES: list[dict[str, Any]] = [
    {"topology": "arena"},
    {"topology": "anchor", "order": "balanced", "exclude": ("2",)},
    {"topology": "round_robin"},
    {"topology": "round_robin", "order": "balanced"},
    {"topology": "cyclic"},
    {"topology": "cyclic", "estimator": "margins", "judge_repeats": 2, "budget": 10},
]


@pytest.mark.few(2)
@pytest.mark.parametrize("options", CASES, ids=lambda o: "-".join(map(str, o.values())))
def test_verdicts_are_asked_for_early_and_are_those_that_are_asked_for_at_the_end(
    tmp_path: Path, options: dict[str, Any]
):
    overlapped, endpoint = run_with(tmp_path / "a", **options)
    unjudged, _ = run_with(tmp_path / "b", topology="none")

    async def rescore() -> RunResult:
        async with VirtualEndpoint(uneven).serving() as judge:
            changes = {"judge_base_url": judge.base_url, **options}
            return await rescore_run(unjudged.path, changes, RunEnvironment(ENVIRON), RescoreOptions())

    at_the_end = run_virtually(rescore)
    assert early_calls(endpoint) > 0
    assert keys(overlapped) == keys(at_the_end)
    assert set(keys(overlapped).values()) == {1}
    assert len(keys(overlapped)) == sum(seen.is_judge for seen in endpoint.requests)
    assert places(overlapped) == places(at_the_end)


def test_the_ranking_counts_the_early_verdicts_as_bought_by_itself(tmp_path: Path):
    result, endpoint = run_with(tmp_path, topology="arena", n=4)
    with RunReader(result.path) as reader:
        groups = list(reader.ranking(result.ranking_id).groups)
    assert sum(group.judged for group in groups) == sum(seen.is_judge for seen in endpoint.requests)
    assert sum(group.reused for group in groups) == 0


def test_under_a_ceiling_nothing_is_asked_for_before_the_group_is_there(tmp_path: Path):
    _, endpoint = run_with(tmp_path, topology="arena", max_cost=1000.0, prices=("m=1/1",), n=4, concurrency=4)
    order = [seen.is_judge for seen in endpoint.requests]
    assert True not in order[: order.index(True)]
