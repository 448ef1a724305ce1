"""A judge that cannot be had: every fault ends alike, at every door, and no reward is made up."""

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest

import harness
from harness.api.outage import OutageRule
from harness.integrations import art, slime, tinker, trl
from harness.integrations.group_judge import GroupJudge
from tests.fake_endpoint import Cut, FakeEndpoint, Hang, Page, Reaction, Refuse, Say, Seen, block
from tests.integrations.conftest import TrlTrainer, by_words
from tests.integrations.test_art import Group, said
from tests.integrations.test_art import trajectory as art_trajectory
from tests.integrations.test_slime import group as slime_group
from tests.integrations.test_tinker import problem, trajectory

pytestmark = pytest.mark.anyio
SKY = "Why is the sky blue?"
HASTE: dict[str, Any] = {"retries": 0, "request_timeout": 0.4, "judge_timeout": 0.5}
FAULTS: dict[str, Reaction] = {
    "hang": Hang(1),
    "429": Refuse(429, "slower"),
    "500": Refuse(500, "down"),
    "401": Refuse(401, "bad key"),
    "404": Refuse(404, "no such model"),
    "cut": Cut(),
    "page": Page(),
}
NOBODY = {"closed port": "", "no such host": "http://judge.invalid/v1"}
"""Addresses at which there is no judge."""


def closed_port() -> str:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}/v1"


async def at_every_door(base_url: str, outage: str) -> dict[str, Any]:
    """Return what each door gives for a better and a worse answer; what raised an error, gives the error."""
    named: dict[str, Any] = {"judge_base_url": base_url, "outage": outage, **HASTE}
    trainer = TrlTrainer(num_generations=2)
    rm, samples = slime.group_rm("j", **named), slime_group(0, SKY, "good", "bad")
    scored = art.score_group("j", **named)
    group = Group(trajectories=[art_trajectory(said(text)) for text in ("good", "bad")])
    grouped = tinker.group_rewards("j", **named)
    given: Any = await asyncio.gather(
        trainer.rewards(trl.reward("j", **named), {SKY: ["good", "bad"]}),
        scored(group),
        rm(SimpleNamespace(), samples),
        grouped([trajectory("good"), trajectory("bad")], [problem()] * 2),
        return_exceptions=True,
    )
    trl_rewards, art_group, slime_rewards, tinker_rewards = given
    if isinstance(trl_rewards, BaseException):
        return dict(zip(("trl", "art", "slime", "tinker"), given, strict=True))
    assert trainer.metrics["judge/calls"] == [0 if trl_rewards[0] is None else 1]
    return {
        "trl": trl_rewards,
        "art": art_group and [each.reward for each in art_group.trajectories],
        "slime": [
            None if sample.remove_sample else reward for sample, reward in zip(samples, slime_rewards, strict=True)
        ],
        "tinker": [reward for reward, _ in tinker_rewards],
    }


@pytest.mark.parametrize("fault", [*FAULTS, *NOBODY])
async def test_every_fault_leaves_the_whole_group_without_rewards_at_every_door(fault: str, judge: FakeEndpoint):
    judge.judge = lambda _: FAULTS[fault]
    address = judge.base_url if fault in FAULTS else NOBODY[fault] or closed_port()
    given = await at_every_door(address, outage="wait 10ms, then skip")
    assert given == {"trl": [None, None], "art": None, "slime": [None, None], "tinker": [0.5, 0.5]}


@pytest.mark.parametrize("fault", ["500", "401"])
async def test_every_fault_stops_the_training_where_the_rule_says_so(fault: str, judge: FakeEndpoint):
    judge.judge = lambda _: FAULTS[fault]
    given = await at_every_door(judge.base_url, outage="stop")
    assert {type(each) for each in given.values()} == {harness.JudgeFailed}
    assert all("this group and 0 before it have no rewards" in str(each) for each in given.values())


@pytest.mark.few(3)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_judge_that_comes_back_while_it_is_waited_for_gives_all_rewards(fault: str, judge: FakeEndpoint):
    left = [FAULTS[fault]] * 2

    def mends(seen: Seen) -> Reaction:
        return left.pop() if left else by_words(seen)

    judge.judge = mends
    group = GroupJudge("j", judge_base_url=judge.base_url, outage="wait 1m, then stop", **HASTE)
    (judged,) = await group.judge([asked("good", "bad")])
    assert judged.rewards == (1, 0)
    assert judged.purchases.calls == 1


def asked(*answers: str) -> list[Any]:
    return [[{"role": "user", "content": SKY}, {"role": "assistant", "content": text}] for text in answers]


async def test_verdicts_that_were_given_before_an_outage_are_not_bought_again(judge: FakeEndpoint):
    given: list[str] = []

    def half(seen: Seen) -> Reaction:
        if len(judge.of_judge) in {2, 3, 4}:
            return Refuse(500, "down")
        given.append(seen.user)
        return by_words(seen)

    judge.judge = half
    group = GroupJudge("j", judge_base_url=judge.base_url, order="both", outage="wait 1m", judge_concurrency=1, **HASTE)
    (judged,) = await group.judge([asked("good", "bad", "fair")])
    assert judged.rewards == (1, 0, 0.5)
    assert len(given) == len(set(given)) == 6


async def test_an_outage_skips_groups_until_it_stops_the_training_with_what_is_missing(judge: FakeEndpoint):
    now = [0.0]
    judge.judge = lambda _: Refuse(500, "down")
    rule = "skip, then stop after 30m"
    group = GroupJudge("j", judge_base_url=judge.base_url, outage=rule, clock=lambda: now[0], **HASTE)
    for _ in range(2):
        (judged,) = await group.judge([asked("good", "bad")])
        assert judged.rewards is None
        now[0] += 900
    with pytest.raises(harness.JudgeFailed, match=r"out for 1800 s.*down.*this group and 2 before it"):
        await group.judge([asked("good", "bad")])
    judge.judge = by_words
    assert (await group.judge([asked("good", "bad")]))[0].rewards == (1, 0)
    now[0] += 3600
    judge.judge = lambda _: Refuse(500, "down")
    assert (await group.judge([asked("good", "worse")]))[0].rewards is None, "another outage began"


async def test_an_outage_begins_with_the_last_verdict_and_not_with_a_group_that_took_long(judge: FakeEndpoint):
    now = [0.0]

    def slow(seen: Seen) -> Reaction:
        now[0] += 600
        return by_words(seen) if now[0] < 1000 or now[0] > 1500 else Refuse(500, "down")

    judge.judge = slow
    rule: dict[str, Any] = {"outage": "wait 15m, then skip", "clock": lambda: now[0], "judge_concurrency": 1, **HASTE}
    (judged,) = await GroupJudge("j", judge_base_url=judge.base_url, order="both", **rule).judge([asked("good", "bad")])
    assert judged.rewards == (1, 0), "the outage took ten minutes, the group thirty"


async def test_a_group_of_which_some_verdicts_could_not_be_had_goes_without_as_a_whole(judge: FakeEndpoint):
    def some(seen: Seen) -> Reaction:
        return (
            Refuse(500, "down")
            if {"bad", "fair"} <= {block(seen.user, f"ANSWER_{s}") for s in "AB"}
            else by_words(seen)
        )

    judge.judge = some
    group = GroupJudge("j", judge_base_url=judge.base_url, order="both", outage="skip", **HASTE)
    (judged,) = await group.judge([asked("good", "bad", "fair")])
    assert judged.rewards is None
    assert "down" in judged.explanations[0]


async def test_a_server_that_names_a_time_to_come_back_is_waited_for_and_out_of_no_order(judge: FakeEndpoint):
    busy = [Refuse(429, "slower", headers={"retry-after-ms": "20"})] * 2
    judge.judge = lambda seen: busy.pop() if busy else by_words(seen)
    (judged,) = await GroupJudge("j", judge_base_url=judge.base_url, outage="stop").judge([asked("good", "bad")])
    assert judged.rewards == (1, 0)


@pytest.mark.parametrize("how", ["pairwise", "ruler"])
async def test_a_judge_that_answers_without_a_verdict_is_not_out(how: str, judge: FakeEndpoint):
    judge.judge = lambda _: Say("The second one, I should think.")
    group = GroupJudge("j", judge=how, judge_base_url=judge.base_url, outage="wait 1h, then stop")
    (judged,) = await group.judge([asked("a", "b")])
    assert judged.rewards is None
    assert judged.purchases.calls == 0


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("wait 5m, then skip, then stop after 30m", (300, True, 1800)),
        ("wait 5m, then stop", (300, False, 300)),
        ("wait 1h", (3600, True, float("inf"))),
        ("skip, then stop after 1.5h", (0, True, 5400)),
        ("skip", (0, True, float("inf"))),
        ("stop", (0, False, 0)),
        ("stop after 10s", (0, False, 10)),
    ],
)
def test_a_rule_says_how_long_to_wait_whether_to_skip_and_when_to_stop(text: str, rule: tuple[float, bool, float]):
    read = OutageRule.read(text)
    assert (read.wait_s, read.skips, read.stop_s) == rule


@pytest.mark.parametrize("text", ["", "wait", "wait 5", "then skip", "skip, wait 5m", "wait 5m then skip", 3, None])
def test_what_is_no_rule_is_refused_with_an_example(text: Any):
    with pytest.raises(harness.UsageError, match=r"outage=.*give a rule such as 'wait 5m, then skip"):
        trl.reward("j", outage=text)
