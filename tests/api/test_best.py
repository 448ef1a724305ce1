"""`harness.best_of`: the best answer whatever becomes of the judge, and by a deadline. On virtual time."""

import asyncio
import gc
import json
import math
import re
import threading
import warnings
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import anyio
import pytest
from agents import Agent, function_tool
from pydantic import BaseModel

import harness
from harness.api.best_answer import best_from
from harness.judging import rubric as rubric_module
from harness.judging.rubric import rubric_source
from tests.builders import a_group
from tests.fake_endpoint import Cut, Hang, Reaction, Refuse, Say, Seen, fair_judge
from tests.virtual_endpoint import VirtualEndpoint, VirtualScript
from tests.virtual_time import run_virtually

AGENT = Agent(name="plain", model="gpt-5.2")
NEVER = 1e6
IMPATIENT: dict[str, Any] = {"retries": 0, "judge_timeout": 5.0, "give_up": 5.0}
Judging = Callable[[Seen], Awaitable[Reaction]]


class City(BaseModel):
    """An answer of several parts."""

    name: str
    people: int


def longest(text: str) -> int:
    return 10 if "best" in text else 5 if "good" in text else 1


def answering(*seconds: float, judge: Judging | None = None, **answers: str) -> VirtualScript:
    """Return a script whose nth rollout takes the nth of `seconds`; a judge's reply takes one."""
    numbers = count()

    async def script(seen: Seen) -> Reaction:
        if seen.is_judge:
            return await judge(seen) if judge else await fair(seen)
        number = next(numbers)
        await anyio.sleep(seconds[number % len(seconds)])
        return Say(answers.get(f"answer_{number}", f"poor answer {number}"))

    return script


async def fair(seen: Seen) -> Reaction:
    await anyio.sleep(1)
    return fair_judge(longest)(seen)


async def dead(_: Seen) -> Reaction:
    return Cut()


async def hanging(_: Seen) -> Reaction:
    return Hang(NEVER)


async def nonsense(_: Seen) -> Reaction:
    return Say("The second one, I should think.")


async def wrong_key(_: Seen) -> Reaction:
    return Refuse(401, "bad key")


def best_of(script: VirtualScript, agent: Any = AGENT, **options: Any) -> tuple[harness.Best, float, VirtualEndpoint]:
    """Return the best answer, how long it took, and the endpoint."""

    async def work() -> tuple[harness.Best, float, VirtualEndpoint]:
        async with VirtualEndpoint(script).serving() as endpoint:
            began = anyio.current_time()
            best = await harness.best_of(agent, "Which?", judge="j", base_url=endpoint.base_url, **options)
            return best, anyio.current_time() - began, endpoint

    return run_virtually(work)


def test_the_best_answer_comes_with_its_probability_the_runner_up_the_rollouts_and_a_reason():
    best, _, endpoint = best_of(answering(1, answer_3="the best", answer_5="good"), n=6)
    assert (best.answer, best.runner_up, best.judged, str(best)) == ("the best", "good", True, "the best")
    assert best.p_best is not None
    assert best.p_best > 0.9
    assert [r.index for r in best.rollouts] == list(range(6))
    assert best.rollouts[best.index].trajectory.answer == "the best"
    assert repr(best).startswith(f"<Best 'the best': rollout {best.index} of 6, judged=True, p_best=0.9")
    assert len(repr(best)) < 400
    assert f"rollout {best.index} is the best of 6 with probability" in best.why
    assert f"{sum(r.is_judge for r in endpoint.requests)} judge calls" in best.why
    assert best.tokens is not None
    assert best.tokens > sum(r.usage.tokens or 0 for r in best.rollouts) == 720
    assert best.cost is None  # the price of a model at an address of no listed provider


def test_a_structured_answer_is_a_value_and_text_on_demand():
    cities = (json.dumps({"name": name, "people": 7}) for name in ("Oslo", "Rom", "Bern"))

    async def script(seen: Seen) -> Reaction:
        return await fair(seen) if seen.is_judge else Say(next(cities))

    best, _, _ = best_of(script, Agent(name="plain", model="m", output_type=City), n=3)
    assert best.answer["people"] == 7
    assert json.loads(str(best)) == best.answer
    assert best.judged


@pytest.mark.parametrize(
    ("judge", "reason"),
    [(dead, "cannot reach"), (hanging, "no verdict within 5 s"), (nonsense, "JSON"), (wrong_key, "bad key")],
)
def test_whatever_becomes_of_the_judge_there_is_the_anchors_answer_or_an_error_that_carries_the_group(
    judge: Judging, reason: str
):
    script = answering(1, judge=judge)
    best, seconds, _ = best_of(script, n=4, **IMPATIENT)
    assert seconds < 60
    assert (best.answer, best.judged, best.p_best, best.runner_up) == ("poor answer 0", False, None, None)
    assert best.why.startswith("not judged: ")
    assert reason in best.why
    assert best.why.endswith("the answer of rollout 0 is the anchor's")
    with pytest.raises(harness.JudgeFailed, match=reason) as raised:
        best_of(answering(1, judge=judge), n=4, on_judge_failure="raise", **IMPATIENT)
    assert raised.value.group
    assert len(raised.value.group.rollouts) == 4


def test_a_judge_of_the_callers_own_may_raise_anything():
    class Broken:
        identity, rubric_label = "mine", "mine"

        def key(self, *_: Any) -> str:
            return "k"

        async def __call__(self, *_: Any) -> Any:
            raise LookupError("no such judge")

    async def work(endpoint: VirtualEndpoint) -> harness.Best:
        judge: Any = Broken()
        return await harness.best_of(AGENT, "Which?", 3, judge, base_url=endpoint.base_url)

    best = served(answering(1), work)
    assert "the judge raised LookupError: no such judge" in best.why
    assert not best.judged


def served(script: VirtualScript, work: Callable[[VirtualEndpoint], Awaitable[Any]]) -> Any:
    async def serving() -> Any:
        async with VirtualEndpoint(script).serving() as endpoint:
            return await work(endpoint)

    return run_virtually(serving)


def test_without_any_answer_the_error_carries_the_failed_rollouts():
    async def script(_: Seen) -> Reaction:
        return Say("cut", finish="length")

    with pytest.raises(harness.HarnessError, match="no rollout of 3 ended well") as raised:
        best_of(script, n=3)
    assert raised.value.group
    assert [r.status for r in raised.value.group.rollouts] == ["failed"] * 3


def test_a_single_answer_needs_no_judge_and_is_no_failure_of_the_judge():
    best, _, endpoint = best_of(answering(1, judge=dead), n=1, on_judge_failure="raise")
    assert (best.answer, best.judged) == ("poor answer 0", False)
    assert "the only one that ended well" in best.why
    assert len(endpoint.requests) == 1


def test_where_the_anchor_failed_too_the_first_that_ended_well_answers():
    numbers = count()

    async def script(seen: Seen) -> Reaction:
        if seen.is_judge:
            return Cut()
        number = next(numbers)
        return Say("cut", finish="length") if number == 0 else Say(f"answer {number}")

    best, _, _ = best_of(script, n=3, **IMPATIENT)
    assert best.answer == "answer 1"
    assert "the first that ended well, for the anchor failed" in best.why


@pytest.mark.parametrize("judge_timeout", [1.0, 2.0])
def test_a_judge_that_hangs_is_waited_for_by_the_first_call_and_then_by_all_others_together(judge_timeout: float):
    best, seconds, endpoint = best_of(
        answering(1, judge=hanging), n=8, judge_timeout=judge_timeout, judge_concurrency=32
    )
    assert not best.judged
    assert f"no verdict within {judge_timeout:g} s" in best.why
    assert 1.9 + 2 * judge_timeout < seconds < 2 + 3 * judge_timeout  # on a busy machine replies arrive late
    assert sum(r.is_judge for r in endpoint.requests) > 1


def test_a_leader_that_hangs_holds_the_other_rollouts_up_for_five_seconds_altogether():
    asked_at = list[float]()

    async def script(_: Seen) -> Reaction:
        asked_at.append(anyio.current_time())
        return Hang(NEVER) if len(asked_at) == 1 else Refuse(500)

    with pytest.raises(harness.NothingRankable):
        best_of(script, n=4, concurrency=2, timeout=60.0, retries=0)
    waited_s = [at - asked_at[0] for at in asked_at[1:]]
    assert len(waited_s) == 3
    assert all(4 < waited < 6 for waited in waited_s)  # on a busy machine the first request arrives late


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_wherever_a_cancellation_strikes_no_coroutine_is_left_unawaited():
    async def cancelled_after(endpoint: VirtualEndpoint, turns: int) -> None:
        group = asyncio.ensure_future(harness.rollout(AGENT, "Which?", n=3, base_url=endpoint.base_url))
        for _ in range(turns):
            await asyncio.sleep(0)
        group.cancel()
        await asyncio.wait([group])
        assert group.cancelled()

    async def strike(endpoint: VirtualEndpoint) -> None:
        for turns in range(1, 60, 3):
            await cancelled_after(endpoint, turns)
        gc.collect()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        served(answering(NEVER), strike)
    assert [str(w.message) for w in caught if "never awaited" in str(w.message)] == []


def test_before_a_deadline_all_pairs_are_judged_at_once():
    best, seconds, endpoint = best_of(answering(1, answer_3="the best"), n=8, deadline=10)
    assert (best.answer, best.judged) == ("the best", True)
    assert seconds < 5
    assert sum(r.is_judge for r in endpoint.requests) == 28


def test_rollouts_that_are_late_are_left_and_the_others_judged():
    best, seconds, _ = best_of(answering(1, 1, 1, 1, NEVER, answer_3="the best"), n=5, deadline=9)
    assert (best.answer, best.judged) == ("the best", True)
    assert 6 < seconds < 9
    (late,) = (r for r in best.rollouts if r.status == "failed")
    assert late.failure
    assert late.failure.message == "left: it had not ended by the deadline"


def test_the_first_call_does_not_keep_the_others_waiting_until_the_deadline():
    best, seconds, _ = best_of(answering(NEVER, 1, 1, 1, answer_3="the best"), n=4, deadline=9)
    assert best.answer == "the best"
    assert seconds < 9


def test_two_answers_are_waited_for_until_the_deadline():
    best, seconds, _ = best_of(answering(1, 14, NEVER, answer_1="the best"), n=3, deadline=20)
    assert (best.answer, best.judged) == ("the best", True)
    assert 15 < seconds < 19


@pytest.mark.parametrize("on_judge_failure", ["anchor", "raise"])
def test_where_the_deadline_strikes_during_the_rollouts_the_first_answer_is_given_unjudged(on_judge_failure: str):
    best, seconds, endpoint = best_of(
        answering(1, NEVER, NEVER, NEVER), n=4, deadline=5, on_judge_failure=on_judge_failure, concurrency=2
    )
    assert seconds == pytest.approx(5, abs=0.5)
    assert (best.answer, best.judged) == ("poor answer 0", False)
    assert not any(r.is_judge for r in endpoint.requests)


def test_matches_that_the_judge_does_not_finish_by_the_deadline_stay_open():
    calls = count()

    async def slow_in_the_end(seen: Seen) -> Reaction:
        await anyio.sleep(1 if next(calls) < 12 else NEVER)
        return fair_judge(longest)(seen)

    best, seconds, _ = best_of(answering(1, judge=slow_in_the_end, answer_3="the best"), n=6, deadline=10)
    assert seconds == pytest.approx(10, abs=0.5)
    assert (best.answer, best.judged) == ("the best", True)
    assert "3 verdicts are missing: the deadline of 10 s was over" in best.why


@pytest.mark.few(3)
@pytest.mark.parametrize("n", [4, 20])
@pytest.mark.parametrize("judge", [dead, hanging, nonsense])
def test_a_judge_that_gives_nothing_costs_no_answer_and_no_time_beyond_the_deadline(judge: Judging, n: int):
    best, seconds, _ = best_of(answering(1, judge=judge), n=n, deadline=5)
    assert seconds <= 5.5
    assert (best.answer, best.judged) == ("poor answer 0", False)
    with pytest.raises(harness.JudgeFailed):
        best_of(answering(1, judge=judge), n=n, deadline=5, on_judge_failure="raise")


async def broken(_: Seen) -> Reaction:
    return Refuse(500)


def test_where_the_deadline_ends_the_judging_the_reason_says_so():
    best, _, _ = best_of(answering(1, judge=hanging), n=4, deadline=6.0, retries=50)
    assert "not judged: the deadline of 6 s was over" in best.why
    with pytest.raises(harness.JudgeFailed, match="the deadline of 6 s was over"):
        best_of(answering(1, judge=hanging), n=4, deadline=6.0, retries=50, on_judge_failure="raise")


def test_where_the_deadline_ends_all_rollouts_the_endpoints_last_error_is_named():
    with pytest.raises(harness.NothingRankable, match=r"by the deadline; the last error: .* answered HTTP 500"):
        best_of(broken, n=4, deadline=6.0, retries=50)


def test_a_tool_that_hangs_is_left_at_the_deadline():
    @function_tool
    async def wait() -> str:
        """Wait."""
        await anyio.sleep(NEVER)
        return "done"

    async def script(seen: Seen) -> Reaction:
        return Say(calls=(("wait", {}),))

    with pytest.raises(harness.HarnessError, match="no rollout of 2 ended well: left") as raised:
        best_of(script, Agent(name="plain", model="m", tools=[wait]), n=2, deadline=3)
    assert raised.value.group


def test_a_reward_that_takes_long_is_given_up_at_the_deadline():
    module: Any = ModuleType("rewarding")
    module.agent = AGENT

    async def reward(*_: Any) -> float:
        await anyio.sleep(NEVER)
        return 1.0

    module.reward = reward
    best, seconds, _ = best_of(answering(1), module, n=2, deadline=6)
    assert seconds <= 6.5
    assert (best.answer, best.judged) == ("poor answer 0", False)
    assert re.fullmatch(r"reward was not done after [\d.]+ s", best.rollouts[0].verify_error or "")


def test_where_no_rollout_was_begun_the_error_says_why():
    with pytest.raises(harness.NothingRankable, match="no rollout was begun: the deadline was over"):
        best_from(a_group([]), None, "the deadline was over")


@pytest.mark.process
def test_a_rubric_of_ones_own_is_read_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own = tmp_path / "mine.md"
    own.write_text(rubric_source("task").replace("name: task", f"name: {uuid4().hex}"), "utf-8")
    threads, in_child = list[threading.Thread](), rubric_module.in_child

    def watched() -> Any:
        threads.append(threading.current_thread())
        return in_child()

    monkeypatch.setattr(rubric_module, "in_child", watched)
    best = asyncio.run(harness.best_of(AGENT, "Which?", 2, "offline-features", offline=True, rubric=str(own)))
    assert best.rollouts
    assert [thread is threading.main_thread() for thread in threads] == [False]


def test_the_ceiling_is_one_for_agent_and_judge():
    prices = {
        "gpt-5.2": [100.0, 0.0],
        "j": [5.0, 0.0],
    }  # a cent for each of their replies here
    best, _, endpoint = best_of(answering(1, answer_2="the best"), n=4, max_cost=0.065, prices=prices)
    assert sum(r.is_judge for r in endpoint.requests) < 6
    assert best.cost is not None
    assert 0.04 < best.cost <= 0.065


@pytest.mark.parametrize("options", [{"deadline": 0}, {"deadline": math.nan}, {"on_judge_failure": "shrug"}, {"n": 0}])
def test_an_option_that_cannot_be_used_is_refused_before_anything_is_asked(options: dict[str, Any]):
    async def script(_: Seen) -> Reaction:
        raise AssertionError("nothing is asked")

    with pytest.raises(harness.UsageError):
        best_of(script, **options)
