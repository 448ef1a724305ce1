"""As many rollouts in flight as were asked for, whoever is being judged; and no more in memory than was allowed."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from harness.core.records import Query
from harness.core.settings_sources import load
from harness.pipeline.open_groups import OpenGroup, OpenGroups, rollout_bytes
from harness.pipeline.plan import RescoreOptions, prepare
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import RunResult, rescore_run, run_queries
from harness.rollouts.loading import from_object
from tests.builders import a_group, a_rollout
from tests.fake_endpoint import Reaction, Seen
from tests.pipeline.networks import AGENT, ENVIRON, good, kinds
from tests.virtual_endpoint import VirtualEndpoint
from tests.virtual_time import run_virtually

pytestmark = pytest.mark.usefixtures("no_thread_syncs")


@dataclass
class Meter:
    """How many requests of a kind are in flight, at every change."""

    at: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])

    def add(self, more: int) -> None:
        self.at.append((anyio.current_time(), self.at[-1][1] + more))

    @property
    def most(self) -> int:
        return max(number for _, number in self.at)

    def mean(self, begin: float, end: float) -> float:
        """Return the mean over a part of the time."""
        ends = [*(at for at, _ in self.at[1:]), end]
        parts = [(min(b, end) - max(a, begin), number) for (a, number), b in zip(self.at, ends, strict=True)]
        return sum(max(0.0, part) * number for part, number in parts) / (end - begin)


def metered(agent_s: float, judge_s: float) -> tuple[VirtualEndpoint, dict[bool, Meter]]:
    """Return a server whose replies take so long, and the meters of its agent's and its judge's requests."""
    meters = {False: Meter(), True: Meter()}

    async def script(seen: Seen) -> Reaction:
        meters[seen.is_judge].add(1)
        await anyio.sleep(judge_s if seen.is_judge else agent_s)
        meters[seen.is_judge].add(-1)
        return good(seen)

    return VirtualEndpoint(script), meters


def run_of(folder: Path, endpoint: VirtualEndpoint, queries: int, **options: Any) -> RunResult:
    """Run so many queries at the endpoint, on virtual time."""

    async def work() -> RunResult:
        async with endpoint.serving():
            chosen = load({"base_url": endpoint.base_url, "runs_dir": folder, **options})
            asked = [Query(id=f"q{k}", text=f"Why {k}?") for k in range(queries)]
            return await run_queries(await prepare(from_object(AGENT), chosen, ENVIRON), asked, RunEnvironment(ENVIRON))

    return run_virtually(work)


def test_a_group_that_waits_for_its_judge_holds_no_place_for_rollouts(tmp_path: Path):
    endpoint, meters = metered(agent_s=4, judge_s=100)
    result = run_of(tmp_path, endpoint, 36, n=2, concurrency=20, topology="anchor", order="single")
    agent = meters[False]
    last = agent.at[-1][0]
    assert kinds(result) == {"ok": 72}
    assert agent.most == 20
    assert agent.mean(last / 4, last * 3 / 4) >= 0.9 * 20
    assert meters[True].most == 32, "the judge was asked about many more groups than have places at a time"


def test_queries_are_begun_in_their_order_and_only_two_wait_for_places(tmp_path: Path):
    endpoint, _ = metered(agent_s=1, judge_s=1)
    run_of(tmp_path, endpoint, 6, n=2, concurrency=2, topology="none")
    first_turns = [seen.user for seen in endpoint.requests if not seen.tool_outputs]
    assert list(dict.fromkeys(first_turns)) == [f"Why {k}?" for k in range(6)]


def test_unjudged_transcripts_beyond_the_bound_keep_further_queries_waiting(tmp_path: Path):
    endpoint, meters = metered(agent_s=1, judge_s=100)
    result = run_of(tmp_path, endpoint, 8, n=2, concurrency=4, topology="anchor", order="single", max_unjudged=0.000001)
    assert kinds(result) == {"ok": 16}
    assert meters[False].most == 4, "the places are full before anything is there to be judged"
    assert meters[True].most <= 4, "only what began before that is judged together"


def test_rescoring_asks_the_judge_about_many_groups_at_a_time(tmp_path: Path):
    endpoint, _ = metered(agent_s=1, judge_s=1)
    rolled_out = run_of(tmp_path, endpoint, 33, n=2, topology="none")
    judged_at, meters = metered(agent_s=1, judge_s=10)

    async def rescore() -> RunResult:
        async with judged_at.serving():
            changes = {"topology": "anchor", "order": "single", "judge_base_url": judged_at.base_url}
            return await rescore_run(
                rolled_out.path, changes | {"judge_model": "j"}, RunEnvironment(ENVIRON), RescoreOptions()
            )

    run_virtually(rescore)
    assert meters[True].most == 32
    assert meters[True].at[-1][0] < 4 * 10, "the first call alone, and then two rounds of calls"


GROUP = a_group([a_rollout(0), a_rollout(1)])


@pytest.mark.anyio
async def test_groups_are_open_up_to_the_bytes_that_wait_for_judging_and_one_alone_always_is():
    among, begun = OpenGroups(most_bytes=1), list[int]()
    judged = {k: anyio.Event() for k in range(4)}

    async def work(place: OpenGroup, number: int) -> None:
        begun.append(number)
        place.placed()
        place.holds(GROUP)
        await judged[number].wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(among.each, range(4), work)
        for number in range(4):
            await anyio.wait_all_tasks_blocked()
            assert begun == list(range(number + 1))
            judged[number].set()


@pytest.mark.anyio
async def test_no_more_than_two_groups_wait_for_places():
    among, begun = OpenGroups(most_bytes=1e9), list[int]()
    placed = anyio.Event()

    async def work(place: OpenGroup, number: int) -> None:
        begun.append(number)
        await placed.wait()
        place.placed()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(among.each, range(5), work)
        await anyio.wait_all_tasks_blocked()
        assert begun == [0, 1]
        placed.set()
    assert begun == [0, 1, 2, 3, 4]


def test_the_size_of_a_rollout_is_that_of_the_texts_of_its_path_and_answer():
    assert rollout_bytes(a_rollout(0, "x" * 10_000)) - rollout_bytes(a_rollout(0, "")) == 10_000
