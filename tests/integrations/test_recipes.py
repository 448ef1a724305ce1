"""The recipes of examples/trainers, against what the trainers' sources declare; tests/consumers has real packages."""

import asyncio
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent

import harness
from harness.integrations.group_judge import GroupJudge
from harness.integrations.policy import Siblings
from tests.fake_endpoint import FakeEndpoint, Refuse
from tests.integrations.recipes import RECIPES, RunRequest, Sample, install, recipe
from tests.integrations.test_trl_rollouts import NIGHT, SKY, serving
from tests.token_server import ids, rendered

pytestmark = pytest.mark.anyio
PROMPT = [{"role": "user", "content": SKY}]
SHOWN = ids(rendered([{"role": "system", "content": "Look."}, *PROMPT]))


@pytest.fixture
def policy(judge: FakeEndpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeEndpoint:
    """A server of the policy and of the judge, which the environment names, and stand-ins for the trainers."""
    monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
    monkeypatch.chdir(tmp_path)
    install(monkeypatch)
    serving(judge)
    return judge


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_has_fewer_than_60_lines(name: str):
    assert len(RECIPES[name].splitlines()) < 60


async def test_verl_gets_a_response_and_a_reward_a_run(policy: FakeEndpoint, tmp_path: Path):
    made = recipe("my_loop.py", tmp_path)
    released: list[str] = []

    async def acquire(request: str) -> tuple[str, object]:
        return policy.base_url.removeprefix("http://").removesuffix("/v1"), None

    loop = SimpleNamespace(
        server_manager=SimpleNamespace(
            _acquire_server=acquire, _release_server=lambda address, request: released.append(request)
        ),
        config=SimpleNamespace(actor_rollout_ref=SimpleNamespace(model=SimpleNamespace(path="m"))),
        rollout_config=SimpleNamespace(response_length=4096),
    )
    runs = [made["HarnessLoop"].run(loop, {"temperature": 1.0}, uid="u", raw_prompt=PROMPT) for _ in range(3)]
    outputs = await asyncio.gather(*runs)
    assert sorted(output.reward_score for output in outputs) == [0, 0.5, 1]
    assert all(output.prompt_ids == SHOWN for output in outputs)
    assert all(len(o.response_ids) == len(o.response_mask) == len(o.response_logprobs) for o in outputs)
    assert len(set(released)) == 3
    assert not made["groups"]


def test_slime_gets_its_samples_filled(policy: FakeEndpoint, tmp_path: Path):
    made = recipe("my_rollout.py", tmp_path)
    host, _, port = policy.base_url.removeprefix("http://").removesuffix("/v1").partition(":")
    args = SimpleNamespace(
        rollout_batch_size=2,
        n_samples_per_prompt=3,
        seed=1,
        rollout_temperature=1.0,
        sglang_router_ip=host,
        sglang_router_port=port,
        hf_checkpoint="m",
    )
    groups = [[Sample(group_index=at, prompt=prompt) for _ in range(3)] for at, prompt in enumerate((SKY, NIGHT))]
    source = SimpleNamespace(get_samples=lambda size: groups[:size])
    assert made["generate_rollout"](args, 3, source).samples == groups
    for group in groups:
        assert sorted(sample.reward for sample in group) == [0, 0.5, 1]
        for sample in group:
            shown = [{"role": "system", "content": "Look."}, {"role": "user", "content": sample.prompt}]
            assert sample.tokens[: -sample.response_length] == ids(rendered(shown))
            assert len(sample.loss_mask or ()) == len(sample.rollout_log_probs or ()) == sample.response_length
            assert (sample.status, sample.remove_sample) == (Sample.Status.COMPLETED, False)
    assert made["generate_rollout"](args, 3, source, evaluation=True).data == {}


@pytest.mark.parametrize("asked", [SKY, [{"type": "message", "role": "user", "content": SKY, "phase": None}]])
async def test_nemo_gym_gets_an_item_with_tokens_a_model_call(policy: FakeEndpoint, tmp_path: Path, asked: Any):
    made = recipe("app.py", tmp_path)
    at = {"agent": f"{tmp_path}/agent.py", "policy_url": policy.base_url, "policy_model": "m"}
    agent = made["HarnessAgent"](config=made["HarnessAgentConfig"](**at, judge_model="j", group_size=3))
    body = {"responses_create_params": {"input": asked}, "_ng_task_index": 4}
    requests: list[RunRequest] = [made["RunRequest"](**body, _ng_rollout_index=number) for number in range(3)]
    given = await asyncio.gather(*(agent.run(request) for request in requests))
    assert sorted(each.reward for each in given) == [0, 0.5, 1]
    for each in given:
        first, last = each.response.output
        assert first.prompt_token_ids == SHOWN
        assert last.prompt_token_ids[: len(SHOWN)] == SHOWN
        assert last.prompt_token_ids[len(SHOWN) :][: len(first.generation_token_ids)] == first.generation_token_ids
        assert [len(item.generation_token_ids) == len(item.generation_log_probs) for item in (first, last)] == [
            True
        ] * 2
        assert last.content[0]["text"] in {"good", "fair", "bad"}


async def test_rllms_flow_gives_its_trajectory_the_tournaments_reward(policy: FakeEndpoint, tmp_path: Path):
    made = recipe("my_flow.py", tmp_path)
    task = SimpleNamespace(id="t", instruction=SKY)

    def config(number: int, *, is_validation: bool = False) -> Any:
        uid = f"t:{number}"
        more = {"sampling_params": {}, "is_validation": is_validation}
        return SimpleNamespace(base_url=policy.base_url, model="m", session_uid=uid, **more)

    given = await asyncio.gather(*(made["search"](task, config(number)) for number in range(3)))
    assert sorted(trajectory.reward for trajectory in given) == [0, 0.5, 1]
    assert await made["search"](task, config(9, is_validation=True)) is None
    sent = [seen.body for seen in policy.requests if not seen.is_judge]
    assert {body["temperature"] for body in sent} == {1.0}
    assert len({body["seed"] for body in sent}) == 4
    assert zlib.crc32(b"t:1") != zlib.crc32(b"t:2")


async def group_of_one(policy: FakeEndpoint) -> harness.Group:
    """Return a rollout as a group of its own."""
    return await harness.rollout(Agent(name="a", instructions="Say."), SKY, 1, base_url=policy.base_url, model="m")


async def test_siblings_wait_for_each_other_and_a_failed_one_has_no_reward(policy: FakeEndpoint):
    group, other = await group_of_one(policy), await group_of_one(policy)
    siblings = Siblings(GroupJudge("j", judge_base_url=policy.base_url), 3)
    given = await asyncio.gather(
        siblings.reward("a", group), siblings.reward("a", "it failed"), siblings.reward("a", other)
    )
    assert given[1] is None
    assert sorted([given[0], given[2]]) == [0, 1]  # pyright: ignore[reportArgumentType]
    assert await asyncio.gather(*(siblings.reward("b", "it failed") for _ in range(3))) == [None] * 3


async def test_a_group_that_does_not_come_together_goes_without_as_a_whole(policy: FakeEndpoint):
    siblings = Siblings(GroupJudge("j", judge_base_url=policy.base_url), 3, wait_s=0.05)
    assert await asyncio.gather(*(siblings.reward("a", "it failed") for _ in range(2))) == [None, None]


async def test_a_judge_that_stops_the_training_stops_all_siblings(policy: FakeEndpoint):
    members = [await group_of_one(policy) for _ in range(2)]
    policy.judge = lambda _: Refuse(401, "bad key")
    siblings = Siblings(GroupJudge("j", judge_base_url=policy.base_url, outage="stop"), 2)
    given = await asyncio.gather(*(siblings.reward("a", one) for one in members), return_exceptions=True)
    assert {type(error) for error in given} == {harness.JudgeFailed}
