"""A second judge over a training: it judges every k-th group again, and sees a policy that only its own judge likes."""

from itertools import count
from typing import Any

import pytest
from agents import Agent

import harness
from tests.api.policy import QUERIES, SETTINGS, number_in, policy_server
from tests.fake_endpoint import FakeEndpoint, Reaction, Refuse, Say, Seen, fair_judge

pytestmark = pytest.mark.anyio
MAGIC = "Abracadabra!"


def judges(endpoint: FakeEndpoint) -> None:
    """Let the training judge give 10 for the magic phrase, and the second go by the number alone."""
    charmed = fair_judge(lambda answer: 10 if MAGIC in answer else number_in(answer) // 2)
    honest = fair_judge(lambda answer: number_in(answer) // 2)
    endpoint.judge = lambda seen: honest(seen) if seen.body["model"] == "second" else charmed(seen)


async def test_a_policy_that_finds_what_only_its_judge_likes_raises_the_alarm(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
):
    now, numbers = [0], count()

    def script(_: Seen) -> Reaction:
        number = next(numbers)
        return Say(f"Number {2 * (number % 4)}. {MAGIC if number % 4 < min(3, now[0] // 4) else ''}")

    with policy_server(script).serving() as endpoint:
        judges(endpoint)
        watch = harness.JudgeWatch("second", every=2, judge_base_url=endpoint.base_url)
        rules = harness.GroupRules(weak=True, max_staleness=0)
        more: dict[str, Any] = SETTINGS | {"base_url": endpoint.base_url, "runs_dir": tmp_path, "n": 4, "rules": rules}
        told, taken = list[Any](), list[harness.PolicyGroup]()
        async with harness.rollout_groups(Agent(name="a"), QUERIES, policy_version=lambda: now[0], **more) as groups:
            async for group in groups:
                now[0] += 1
                taken.append(group)
                told.append(await watch.look(group))
                if watch.figures.alarm:
                    break
        assert watch.figures.alarm
        assert [each is None for each in told[:4]] == [False, True, False, True]
        assert told[-1]["judge_watch/alarm"] == 1
        assert told[-1]["judge_watch/gain_low"] > 1
        assert told[-1]["judge_watch/second_gain"] == pytest.approx(0)
        assert "reward hacking" in caplog.text
        endpoint.judge = lambda _: Refuse(500, "down")
        haste: dict[str, Any] = {"retries": 0, "give_up": 0.2, "judge_base_url": endpoint.base_url}
        assert await harness.JudgeWatch("second", **haste).look(taken[-1]) is None
        assert "the second judge gave no verdict" in caplog.text


def test_how_often_to_look_is_a_whole_number():
    with pytest.raises(harness.UsageError, match="every=0: give a whole number"):
        harness.JudgeWatch("second", every=0)
