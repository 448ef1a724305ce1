"""The processes of a training judge once what is spread over them; tests/consumers does so over gloo."""

import asyncio
import sys
import threading
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest

import harness
from harness.integrations import trl
from tests.fake_endpoint import FakeEndpoint, Refuse
from tests.integrations.conftest import TrlTrainer

pytestmark = pytest.mark.anyio


@dataclass
class World:
    """What two processes share."""

    barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(2, timeout=20))
    gathered: list[Any] = field(default_factory=lambda: [None, None])
    sent: list[Any] = field(default_factory=lambda: [None])


@dataclass
class Distributed:
    """torch.distributed as one process sees it."""

    rank: int
    world: World

    def is_available(self) -> bool:
        return True

    is_initialized = is_available

    def get_world_size(self) -> int:
        return 2

    def get_rank(self) -> int:
        return self.rank

    def new_group(self, backend: str, timeout: Any) -> str:
        return backend

    def all_gather_object(self, parts: list[Any], mine: Any, group: str) -> None:
        self.world.gathered[self.rank] = mine
        self.world.barrier.wait()
        parts[:] = self.world.gathered
        self.world.barrier.wait()

    def broadcast_object_list(self, outcome: list[Any], src: int, group: str) -> None:
        if self.rank == src:
            self.world.sent[:] = outcome
        self.world.barrier.wait()
        outcome[:] = self.world.sent
        self.world.barrier.wait()


async def rewards_of_both(
    functions: Any, trainers: list[TrlTrainer], parts: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> list[Any]:
    """Let each process call its function with its part of the completions."""
    world = World()

    async def called(rank: int) -> Any:
        torch = ModuleType("torch")
        torch.distributed = Distributed(rank, world)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
        monkeypatch.setitem(sys.modules, "torch", torch)  # each looks before it first waits
        return await trainers[rank].rewards(functions[rank], {"Why is the sky blue?": parts[rank]})

    return list(await asyncio.gather(called(0), called(1), return_exceptions=True))


async def test_a_group_that_is_spread_over_two_processes_is_judged_once(
    judge: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
):
    functions = [trl.reward("j", judge_base_url=judge.base_url, outage="stop") for _ in range(2)]
    trainers = [TrlTrainer(num_generations=4), TrlTrainer(num_generations=4)]
    parts = [["good", "bad", "fair"], ["middling"]]
    rewards = [[1, 0, pytest.approx(2 / 3)], [pytest.approx(1 / 3)]]
    assert await rewards_of_both(functions, trainers, parts, monkeypatch) == rewards
    assert len(judge.requests) == trainers[0].metrics["judge/calls"][0]
    assert not trainers[1].metrics
    assert [len(trainer.extra["judge"]) for trainer in trainers] == [3, 1]
    judge.judge = lambda _: Refuse(401, "bad key")
    errors = await rewards_of_both(functions, trainers, [["good", "bad"], ["new", "newer"]], monkeypatch)
    assert all(isinstance(error, harness.JudgeFailed) and "bad key" in str(error) for error in errors)
