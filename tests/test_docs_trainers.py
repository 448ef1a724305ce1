"""docs/trainers.md: every block runs as far as it can without its trainer, and every figure in the log is explained."""

import ast
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

import harness
from tests.builders import a_group, a_rollout
from tests.conftest import ROOT
from tests.fake_endpoint import FakeEndpoint
from tests.integrations.conftest import TrlTrainer
from tests.integrations.test_art import Group, Trajectory, said, trajectory
from tests.integrations.test_slime import group
from tests.integrations.test_tinker import problem
from tests.integrations.test_tinker import trajectory as spoken

PAGE = (ROOT / "docs" / "trainers.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PRICED = "max_cost=50, prices={'your-judge': '1/2'}"
"""At the test's address the model has no list price."""

pytestmark = pytest.mark.anyio


class Trainer:
    """Takes what TRL's trainer takes, and keeps it."""

    made: ClassVar["list[Trainer]"] = []

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.made.append(self)

    def train(self) -> None:
        """Do nothing: the test calls the reward function."""


async def executed(block: str, names: dict[str, Any]) -> None:
    """Run a block, which may await at its top level."""
    result = eval(compile(block, "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.isawaitable(result):
        await result


async def test_the_block_for_trl_gives_the_trainer_rewards_and_the_page_explains_what_is_logged(
    endpoint: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (block,) = [block for block in BLOCKS if "import GRPOConfig, GRPOTrainer" in block]
    stub = ModuleType("trl")
    stub.__dict__.update(GRPOTrainer=Trainer, GRPOConfig=dict)
    monkeypatch.setitem(sys.modules, "trl", stub)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    await executed(
        block.replace("max_cost=50", 'max_cost=50, prices={"your-judge": "1/2"}, order="both"'), {"dataset": []}
    )
    function = Trainer.made.pop().arguments["reward_funcs"]
    trainer = TrlTrainer(num_generations=2)
    assert sorted(await trainer.rewards(function, {"Why?": ["one", "another"]})) == [0, 1]
    assert (tmp_path / "verdicts" / "verdicts").is_dir()
    assert [name for name in trainer.metrics if f"`{name}`" not in PAGE] == []


def art_group(trajectories: Iterable[Trajectory]) -> Group:
    return Group(trajectories=list(trajectories))


async def test_the_block_for_art_scores_each_group_as_it_is_gathered(
    endpoint: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (block,) = [block for block in BLOCKS if "after_each" in block]

    async def gather_trajectory_groups(groups: Any, after_each: Any, max_exceptions: int) -> list[Any]:
        return [await after_each(group) for group in groups]

    def rollout(model: str, scenario: str) -> Trajectory:
        return trajectory(said(f"{model} {scenario} {next(numbers)}"))

    numbers, stub = count(), ModuleType("art")
    stub.__dict__.update(TrajectoryGroup=art_group, gather_trajectory_groups=gather_trajectory_groups)
    monkeypatch.setitem(sys.modules, "art", stub)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    names: dict[str, Any] = {"rollout": rollout, "model": "m", "scenarios": ["s"]}
    await executed(block.replace("max_cost=50", PRICED), names)
    (scored,) = names["groups"]
    assert sum(t.reward for t in scored.trajectories) == pytest.approx(4)
    assert "costs/judge/tournament" in scored.metrics


async def test_the_module_for_slime_holds_the_function_that_the_options_name(
    endpoint: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (block,) = [block for block in BLOCKS if "group_rm" in block]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    names: dict[str, Any] = {}
    await executed(block.replace("max_cost=50", PRICED), names)
    path, log = re.findall(r"--custom-(?:rm|rollout-log-function)-path (\S+)", PAGE)
    assert path == "my_rewards.rm"
    samples = group(0, "Why?", "one", "another")
    assert sum(await names["rm"](object(), samples)) == 1
    logged: dict[str, Any] = {}
    assert pkgutil.resolve_name(log)(0, object(), samples, logged, 1.5) is False
    assert [name for name in logged if f"`{name}`" not in PAGE] == []


async def test_the_block_for_tinker_makes_a_builder_that_compares_its_group(
    endpoint: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (block,) = [block for block in BLOCKS if "compute_group_rewards" in block]
    stub = ModuleType("tinker_cookbook.rl.problem_env")
    stub.__dict__.update(ProblemGroupBuilder=object)
    monkeypatch.setitem(sys.modules, "tinker_cookbook", ModuleType("tinker_cookbook"))
    monkeypatch.setitem(sys.modules, "tinker_cookbook.rl", ModuleType("tinker_cookbook.rl"))
    monkeypatch.setitem(sys.modules, "tinker_cookbook.rl.problem_env", stub)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    names: dict[str, Any] = {}
    await executed(block.replace("max_cost=50", PRICED), names)
    judged = await names["Builder"]().compute_group_rewards([spoken("one"), spoken("another")], [problem()] * 2)
    assert sum(reward for reward, _ in judged) == 1


async def test_the_block_for_gepa_gives_it_an_adapter_that_scores_candidates(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
):
    (block,) = [block for block in BLOCKS if "import gepa" in block]
    stub = ModuleType("gepa")
    stub.__dict__["optimize"] = dict
    monkeypatch.setitem(sys.modules, "gepa", stub)
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    names: dict[str, Any] = {"reflection_lm": print}
    await executed(block, names)
    found = names["found"]
    assert found["adapter"].evaluate(found["trainset"], found["seed_candidate"]).scores == [0.5, 0.5]


async def test_the_block_of_the_watch_logs_what_the_page_explains(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
):
    (block,) = [block for block in BLOCKS if "JudgeWatch" in block]
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    rollouts = tuple(a_rollout(index, f"Number {index}.") for index in range(2))
    ranking = await harness.rank(a_group(rollouts), "your-judge", order="both", topology="cyclic")
    group = harness.PolicyGroup(
        query=a_group(rollouts).query, rollouts=(), version=3, ranking=ranking, recorded=a_group(rollouts)
    )
    logged: dict[str, float] = {}

    async def groups() -> Any:
        yield group

    wandb = SimpleNamespace(log=lambda figures, step: logged.update(figures, step=step))
    await executed(block, {"harness": harness, "groups": groups(), "wandb": wandb})
    assert logged.pop("step") == 3
    told = {name.removesuffix("_low").removesuffix("_high").rpartition("/")[2] for name in logged}
    assert {"agreement", "flips", "alarm"} <= told
    assert [name for name in told - {"groups"} if name not in PAGE] == []
