"""`harness.integrations.trl.rollouts` by the signature that TRL 1.16 calls; tests/consumers has the real trainer."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent, ModelSettings, function_tool

import harness
from harness.integrations import trl
from harness.integrations.tournament_reward import Ranks
from tests.fake_endpoint import FakeEndpoint, Reaction, Refuse, Say, Seen
from tests.integrations.conftest import TrlTrainer
from tests.integrations.test_ranks import Distributed, World
from tests.token_server import Kind, TokenServer, ids, rendered

SKY, NIGHT = "Why is the sky blue?", "Why is it dark at night?"
QUICK: dict[str, Any] = {"retries": 0, "give_up": 1, "request_timeout": 5}


@function_tool
def look(word: str) -> str:
    """Look."""
    return f"about {word}"


other = Agent(name="other", instructions="Other.")
inner = Agent(name="inner", instructions="Inner.")
AGENTS: dict[str, Agent[Any]] = {
    "plain": Agent(name="plain", instructions="Say."),
    "looker": Agent(name="looker", instructions="Look.", tools=[look]),
    "handing off": Agent(name="first", instructions="Hand off.", handoffs=[other]),
    "nested": Agent(name="outer", instructions="Ask.", tools=[inner.as_tool("ask", "Ask.")]),
}


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "Look.": ("look", {"word": "x"}),
    "Ask.": ("ask", {"input": "x"}),
    "Hand off.": ("transfer_to_other", {}),
}


class Policy:
    """Says "good", "bad" and "fair" in turn, each after what its agent has to do."""

    def __init__(self) -> None:
        self.answers = defaultdict[str, Iterator[str]](lambda: cycle(("bad", "fair", "good")))
        self.seen: list[Seen] = []

    def __call__(self, seen: Seen) -> Reaction:
        self.seen.append(seen)
        if not seen.tool_outputs and seen.system in CALLS:
            return Say(calls=(CALLS[seen.system],))
        if seen.system == "Inner.":
            return Say("inner")
        return Say(next(self.answers[seen.user]))


def trainer_of(function: Any, *, members: int = 3, processes: int = 1) -> Any:
    trainer = TrlTrainer(num_generations=members, reward_funcs=(function,) if function else ())
    more = {
        "args": SimpleNamespace(temperature=0.7, top_p=1.0, seed=42),
        "state": SimpleNamespace(global_step=0),
        "accelerator": SimpleNamespace(num_processes=processes, process_index=0),
    }
    trainer.__dict__.update(more)
    return trainer


def stepped(trainer: Any, rollout_func: Any, prompts: list[Any]) -> tuple[dict[str, Any], list[float | None]]:
    """Do what TRL does: roll out, then hand what else came to the reward function, one value a row."""
    output = rollout_func(prompts, trainer)
    taken = {"prompt_ids", "completion_ids", "logprobs", "env_mask"}
    columns = {
        name: values if isinstance(values, list) else [values] * len(prompts)
        for name, values in output.items()
        if name not in taken
    }
    (function,) = trainer.reward_funcs
    told = {"log_extra": trainer.log_extra, "log_metric": trainer.log_metric}
    texts = ["decoded"] * len(prompts)
    return output, asyncio.run(function(prompts=prompts, completions=texts, **columns, **told))


def serving(endpoint: FakeEndpoint, kind: Kind = "vllm") -> Policy:
    policy = Policy()
    endpoint.agent = TokenServer(policy, kind)
    return policy


def rolled_out(endpoint: FakeEndpoint, agent: Any, prompts: list[Any], **settings: Any) -> dict[str, Any]:
    function = trl.rollouts(agent, base_url=endpoint.base_url, model="m", **QUICK, **settings)
    return function(prompts, trainer_of(None))


def test_the_rewards_of_the_rollouts_come_with_them_and_nobody_is_asked_again(judge: FakeEndpoint):
    policy = serving(judge)
    reward = trl.reward("j", judge_base_url=judge.base_url)
    trainer = trainer_of(reward)
    prompts: list[Any] = [SKY] * 3 + [[{"role": "user", "content": NIGHT}]] * 3
    output = trl.rollouts(AGENTS["looker"], base_url=judge.base_url, model="m")(prompts, trainer)
    asked = len(judge.requests)
    by_answer = {"good": 1, "bad": 0, "fair": 0.5}
    answers = [rollout.trajectory.answer for rollout in output["rollout"]]
    assert sorted(answers[:3]) == sorted(answers[3:]) == ["bad", "fair", "good"]
    again, rewards = stepped(trainer, lambda *_: output, prompts)
    assert again is output
    assert rewards == [by_answer[answer] for answer in answers]
    assert len(judge.requests) == asked
    assert trainer.metrics["judge/calls"] == [len(judge.of_judge)]
    assert all(trainer.extra["judge"])
    assert "about x" in judge.of_judge[0].user, "the judge reads the rollout, not the decoded text"
    sent = [seen.body for seen in policy.seen]
    assert {body["temperature"] for body in sent} == {0.7}
    assert {call.policy for rollout in output["rollout"] for call in rollout.calls} == {(0,)}
    assert len({body["seed"] for body in sent}) == 6


def test_a_step_later_the_same_prompt_is_sampled_by_another_chance(judge: FakeEndpoint):
    policy = serving(judge)
    function, trainer = trl.rollouts(AGENTS["plain"], base_url=judge.base_url, model="m"), trainer_of(None)
    for _ in range(2):
        function([SKY] * 2, trainer)
    assert len({seen.body["seed"] for seen in policy.seen}) == 4


def test_what_the_model_said_is_marked_and_has_its_logprobs(judge: FakeEndpoint):
    serving(judge)
    output = rolled_out(judge, AGENTS["looker"], [SKY])
    shown = [{"role": "system", "content": "Look."}, {"role": "user", "content": SKY}]
    assert output["prompt_ids"] == [ids(rendered(shown))]
    said, mask, logprobs = (output[name][0] for name in ("completion_ids", "env_mask", "logprobs"))
    assert len(said) == len(mask) == len(logprobs)
    parts = "".join(chr(token) if model else "_" for token, model in zip(said, mask, strict=True))
    assert parts.startswith('[look {"word": "x"}]</>_')
    assert parts.endswith("_bad</>")
    assert "about" not in parts
    assert {logprob for logprob, model in zip(logprobs, mask, strict=True) if not model} == {0.0}


@pytest.mark.parametrize(("agent", "others"), [("plain", 0), ("looker", 0), ("handing off", 2), ("nested", 2)])
def test_a_rollout_is_the_starting_agents_sequence_and_the_others_are_counted(
    agent: str, others: int, judge: FakeEndpoint, caplog: pytest.LogCaptureFixture
):
    serving(judge)
    caplog.set_level(logging.INFO, "arena-harness")
    output = rolled_out(judge, AGENTS[agent], [SKY] * 2)
    assert f"2 rollouts are trained, and {others} sequences beside theirs left out" in caplog.text
    begin = "".join(map(chr, output["prompt_ids"][0]))
    assert str(AGENTS[agent].instructions) in begin


def test_a_rollout_that_fails_by_its_server_is_masked_and_has_no_reward_and_the_others_are_ranked(judge: FakeEndpoint):
    policy = serving(judge)
    token_server = judge.agent

    def falls(seen: Seen) -> Reaction:
        assert token_server
        return Refuse(500, "down") if len(policy.seen) == 2 and policy.seen.append(seen) is None else token_server(seen)

    judge.agent = falls
    trainer = trainer_of(trl.reward("j", judge_base_url=judge.base_url))
    settings = QUICK | {"concurrency": 1}
    output, rewards = stepped(
        trainer, trl.rollouts(AGENTS["plain"], base_url=judge.base_url, model="m", **settings), [SKY] * 3
    )
    assert sorted(map(str, rewards)) == ["0.0", "1.0", "None"]
    failed = rewards.index(None)
    assert (output["env_mask"][failed], output["logprobs"][failed]) == ([0], [0.0])
    assert "down" in trainer.extra["judge"][failed]


@pytest.mark.parametrize("settings", [{}, {"reward": "score"}])
def test_a_rollout_that_fails_by_its_own_fault_gets_the_lowest_reward(judge: FakeEndpoint, settings: dict[str, Any]):
    policy = Policy()

    def loops_once(seen: Seen) -> Reaction:
        return Say(calls=(CALLS["Look."],)) if len(policy.seen) == 1 and seen.tool_outputs else policy(seen)

    judge.agent = TokenServer(loops_once, "vllm")
    rollouts = trl.rollouts(
        AGENTS["looker"], base_url=judge.base_url, model="m", max_turns=2, **QUICK | {"concurrency": 1}
    )
    trainer = trainer_of(trl.reward("j", judge_base_url=judge.base_url, **settings))
    output, rewards = stepped(trainer, rollouts, [SKY] * 3)
    failed = [rollout.status for rollout in output["rollout"]].index("failed")
    assert None not in rewards
    assert rewards[failed] == min(r for r in rewards if r is not None)


def test_a_judge_that_is_out_leaves_whole_groups_without_rewards(judge: FakeEndpoint):
    serving(judge)
    judge.judge = lambda _: Refuse(500, "down")
    named: dict[str, Any] = {"judge_base_url": judge.base_url, "retries": 0, "judge_timeout": 1}
    rollout_func = trl.rollouts(AGENTS["plain"], base_url=judge.base_url, model="m")
    trainer = trainer_of(trl.reward("j", outage="skip", **named))
    assert stepped(trainer, rollout_func, [SKY] * 3)[1] == [None] * 3
    with pytest.raises(harness.JudgeFailed, match="the training stops"):
        stepped(trainer_of(trl.reward("j", outage="stop", **named)), rollout_func, [SKY] * 3)


def test_a_group_that_is_spread_over_two_processes_is_judged_once(judge: FakeEndpoint):
    serving(judge)
    world, functions = World(), [trl.reward("j", judge_base_url=judge.base_url) for _ in range(2)]
    trainers = [trainer_of(function, members=3, processes=2) for function in functions]
    for rank, function in enumerate(functions):
        function._ranks = Ranks(Distributed(rank, world))
        trainers[rank].accelerator.process_index = rank
    rollout_func = trl.rollouts(AGENTS["plain"], base_url=judge.base_url, model="m")
    with ThreadPoolExecutor(2) as threads:
        given = list(threads.map(lambda rank: stepped(trainers[rank], rollout_func, [SKY] * (2 - rank)), (0, 1)))
    assert sorted(reward for _, rewards in given for reward in rewards if reward is not None) == [0, 0.5, 1]
    assert trainers[0].metrics["judge/calls"] == [len(judge.of_judge)]
    assert not trainers[1].metrics
    assert len({seen.body["seed"] for seen in judge.requests if not seen.is_judge}) == 3


@pytest.mark.parametrize(
    ("kind", "error", "why"),
    [
        ("ignoring", harness.Refused, "tokens='require'"),
        ("refusing", harness.Refused, "refuses to tell token ids"),
        ("no-prompt", harness.Refused, "token ids"),
    ],
)
def test_a_server_that_tells_no_tokens_is_refused_at_the_first_call(
    kind: Kind, error: type[Exception], why: str, judge: FakeEndpoint
):
    policy = serving(judge, kind)
    with pytest.raises(error, match=why):
        rolled_out(judge, AGENTS["plain"], [SKY] * 3)
    assert len(policy.seen) <= 1


def test_a_step_of_which_nothing_can_be_trained_stops_the_training_and_says_why(judge: FakeEndpoint):
    serving(judge)
    own = Agent(name="own", instructions="Say.", model_settings=ModelSettings(extra_body={"temperature": 0.1}))
    with pytest.raises(harness.NothingRankable, match=r"no rollout .* not sampled as asked \(.*0\.1"):
        rolled_out(judge, own, [SKY] * 3)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"temperature": 1}, "temperature=1: leave it out, since the trainer says it"),
        ({"judge_model": "j"}, "judge_model='j': give it to the reward function"),
        ({"basel_url": "x"}, "no setting 'basel_url'; did you mean 'base_url'"),
        ({"concurrency": 0}, "concurrency=0"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_before_the_training(settings: dict[str, Any], why: str):
    with pytest.raises(harness.UsageError, match=why):
        trl.rollouts("agent.py", **settings)


def test_two_tournaments_are_refused(judge: FakeEndpoint):
    serving(judge)
    trainer = trainer_of(None)
    trainer.reward_funcs = (trl.reward("j"), trl.reward("k"))
    with pytest.raises(harness.UsageError, match="has 2 tournaments"):
        trl.rollouts(AGENTS["plain"], base_url=judge.base_url, model="m")([SKY], trainer)
    assert not judge.requests
