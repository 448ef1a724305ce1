"""`harness.integrations.openenv` as TRL's async worker calls it; tests/consumers has the real OpenEnv and TRL."""

import asyncio
import pickle  # noqa: TID251 - the worker sends the factory to another process so
import sys
import threading
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import harness
from harness.integrations import openenv, trl
from tests.fake_endpoint import FakeEndpoint, Hang, Refuse
from tests.integrations.test_trl_rollouts import AGENTS, QUICK, SKY, serving
from tests.token_server import Kind, ids, rendered, reply_text

PROMPT = [{"role": "user", "content": SKY}]
SAMPLING = {"temperature": 0.7, "top_p": 1.0, "top_k": -1}


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for OpenEnv that takes whatever it is given, but for a trace of three calls."""

    def from_entries(entries: list[dict[str, Any]]) -> Any:
        if len(entries) == 3:
            raise ValueError("no such trace")
        return SimpleNamespace(entries=entries)

    package = ModuleType("openenv.core.harness")
    package.__dict__.update(TrainingTrace=SimpleNamespace(from_entries=from_entries), VerifyResult=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "openenv.core.harness", package)


def session(endpoint: FakeEndpoint, agent: Any, seed: int = 1, **settings: Any) -> openenv.AgentSession:
    named: dict[str, Any] = {"base_url": endpoint.base_url, "model": "m", **QUICK, **settings}
    return openenv.AgentSessions(agent, sampling=SAMPLING, **named).create(PROMPT, seed=seed, episode_id="e")


@pytest.mark.parametrize(
    ("agent", "order"),
    [("plain", [0]), ("looker", [0, 1]), ("handing off", [0, 1])],
)
def test_the_trace_has_each_call_in_its_tokens_and_the_answer_last(agent: str, order: list[int], judge: FakeEndpoint):
    policy = serving(judge)
    one = session(judge, AGENTS[agent])
    assert one.wait_for_completion() == 0
    entries = one.fetch_training_trace().entries
    assert [entry["metadata"]["node_id"] for entry in entries] == list(map(str, order))
    for entry, seen in zip(entries, policy.seen, strict=True):
        message = entry["response"]["choices"][0]["message"]
        assert entry["prompt_token_ids"] == ids(rendered(seen.body["messages"]))
        assert entry["completion_token_ids"] == ids(reply_text(message))
        assert entry["loss_mask"] == [0] * len(entry["prompt_token_ids"]) + [1] * len(entry["completion_token_ids"])
        assert len(entry["per_token_logps"]) == len(entry["completion_token_ids"])
        assert entry["request"]["messages"] == seen.body["messages"]
    assert entries[-1]["response"]["choices"][0]["message"]["content"] == "bad"
    assert {seen.body["temperature"] for seen in policy.seen} == {0.7}
    assert one.verify([]).env_reward is None
    one.close()


def test_a_nested_agents_calls_stand_before_the_row_that_answers(judge: FakeEndpoint):
    serving(judge)
    one = session(judge, AGENTS["nested"])
    one.wait_for_completion()
    with pytest.raises(RuntimeError, match="OpenEnv takes no such trace: no such trace"):
        one.fetch_training_trace()
    sampled = one.sampled
    assert sampled
    assert [entry["metadata"]["agent"] for entry in openenv.trace_entries(sampled)] == ["inner", "outer", "outer"]


def test_sessions_of_a_group_are_sampled_apart(judge: FakeEndpoint):
    policy = serving(judge)
    factory = openenv.AgentSessions(AGENTS["plain"], sampling=SAMPLING, base_url=judge.base_url, model="m")
    for episode in ("a", "b"):
        factory.create(SKY, seed=7, episode_id=episode).wait_for_completion()
    assert len({seen.body["seed"] for seen in policy.seen}) == 2


@pytest.mark.parametrize("kind", ["ignoring", "refusing"])
def test_a_rollout_without_tokens_is_left_out_and_stops_no_worker(kind: Kind, judge: FakeEndpoint):
    serving(judge, kind)
    one = session(judge, AGENTS["plain"])
    with pytest.raises(harness.Refused, match="token ids"):
        one.wait_for_completion()
    with pytest.raises(RuntimeError, match="nothing of the rollout can be trained"):
        one.fetch_training_trace()


def test_a_rollout_that_fails_by_its_server_is_left_out(judge: FakeEndpoint):
    judge.agent = lambda _: Refuse(500, "down")
    one = session(judge, AGENTS["plain"])
    assert one.wait_for_completion() == 1
    with pytest.raises(RuntimeError, match="down"):
        one.fetch_training_trace()


def test_a_rollout_whose_time_is_over_says_so(judge: FakeEndpoint):
    judge.agent = lambda _: Hang(5)
    with pytest.raises(TimeoutError):
        session(judge, AGENTS["plain"]).wait_for_completion(timeout_s=0.3)


def test_closing_a_session_ends_its_rollout(judge: FakeEndpoint):
    asked = threading.Event()

    def hangs(_: Any) -> Hang:
        asked.set()
        return Hang(30)

    judge.agent = hangs
    one = session(judge, AGENTS["plain"], request_timeout=60)
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            one.wait_for_completion()
        except RuntimeError as exc:
            errors.append(exc)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert asked.wait(20)
    one.close()
    waiting.join(20)
    assert [str(error) for error in errors] == ["the session was closed before its rollout ended"]
    with pytest.raises(RuntimeError, match="closed"):
        one.wait_for_completion()


def test_a_factory_of_an_agents_file_can_be_pickled():
    factory = pickle.loads(pickle.dumps(partial(openenv.AgentSessions, "agent.py", base_url="http://x")))
    assert factory(sampling=SAMPLING).create(SKY, seed=1, episode_id="a")


def test_the_reward_takes_prompts_that_a_completion_begins_with_once_and_gives_failed_ones_none(judge: FakeEndpoint):
    function = trl.reward("j", judge_base_url=judge.base_url, alone=True)
    shown = [{"role": "system", "content": "Be kind."}, *PROMPT]
    good, bad = ([*shown, {"role": "assistant", "content": word}] for word in ("good", "bad"))
    completions: list[Any] = [good, [], bad]
    assert asyncio.run(function(prompts=[PROMPT] * 3, completions=completions)) == [1, None, 0]
    assert judge.of_judge[0].user.count(SKY) == 1
    assert asyncio.run(function(prompts=[PROMPT] * 2, completions=[[], []])) == [None, None]
