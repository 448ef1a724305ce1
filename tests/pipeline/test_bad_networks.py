"""Whole runs on networks that limit, hang and fail, on virtual time: the numbers are those of a good day.

Or else whoever is to blame is named, and `resume` on a sound endpoint reaches the numbers of a good day.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.core.rankings import AnyVerdict
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import RunResult, resume_run
from harness.rollouts.loading import from_object
from tests.fake_endpoint import FakeEndpoint, Hang, Reaction, Refuse, Seen
from tests.pipeline.networks import (
    AGENT,
    ENVIRON,
    Limit,
    endpoint_with,
    kinds,
    nothing,
    one_run,
    places,
    places_on_a_good_day,
    run_at,
    verdicts,
)
from tests.virtual_endpoint import VirtualEndpoint
from tests.virtual_time import run_virtually

pytestmark = pytest.mark.usefixtures("no_thread_syncs")


def bought_twice(endpoint: VirtualEndpoint) -> list[str]:
    """Return the requests that got more than one reply."""
    return [body for body, times in Counter(str(seen.body) for seen in endpoint.replied).items() if times > 1]


@pytest.mark.nightly
@pytest.mark.few(1)
@pytest.mark.parametrize("retry_after", [None, "1"])
def test_under_a_rate_limit_all_end_ok_with_the_same_ranks_in_one_and_a_half_times_its_own_time(
    tmp_path: Path, retry_after: str | None
) -> None:
    result, endpoint, seconds = one_run(Limit(6, 6, retry_after), tmp_path, environ={"OPENAI_API_KEY": "sk-x"})
    assert kinds(result) == {"ok": 24}
    assert places(result) == places_on_a_good_day(8)
    assert seconds <= 1.5 * (len(endpoint.replied) - 6) / 6
    assert not bought_twice(endpoint)


@pytest.mark.nightly
@pytest.mark.parametrize("whose", ["agent", "judge"])
@pytest.mark.parametrize(("first", "hung"), [(0, 1), (0, 2), (0, 14), (7, 1), (7, 14)])
def test_hung_requests_among_instant_ones_change_nothing(tmp_path: Path, whose: str, first: int, hung: int) -> None:
    numbers = Counter[bool]()

    def hanging(seen: Seen) -> Reaction | None:
        numbers[seen.is_judge] += 1
        hangs = seen.is_judge == (whose == "judge") and first < numbers[seen.is_judge] <= first + hung
        return Hang(1000) if hangs else None

    result, endpoint, _ = one_run(hanging, tmp_path, n=4, timeout=60.0, request_timeout=20.0)
    assert kinds(result) == {"ok": 12}
    assert places(result) == places_on_a_good_day(4)
    assert not bought_twice(endpoint)


class Outage:
    """No call of one side, the agent's or the judge's, gets a reply after its first `sound` ones."""

    def __init__(self, whose: str, sound: int, fault: Reaction) -> None:
        self._whose, self._sound, self._fault, self.over = whose, sound, fault, False
        self.refused = 0

    def __call__(self, seen: Seen) -> Reaction | None:
        if self.over or seen.is_judge != (self._whose == "judge"):
            return None
        self._sound -= 1
        if self._sound >= 0:
            return None
        self.refused += 1
        return self._fault


def run_and_resume(outage: Outage, folder: Path, **options: Any) -> tuple[RunResult, RunResult | None, VirtualEndpoint]:
    """Do a run, end the outage, and resume the run."""

    async def work() -> tuple[RunResult, RunResult | None, VirtualEndpoint]:
        async with endpoint_with(outage).serving() as endpoint:
            result = await run_at(endpoint, folder, **options)
            states.append((kinds(result), verdicts(result)))
            outage.over = True
            return result, await resume_run(result.path, from_object(AGENT), RunEnvironment(ENVIRON)), endpoint

    states = list[Any]()
    done = run_virtually(work)
    (BEFORE[folder],) = states
    return done


BEFORE = dict[Path, tuple[Counter[str], list[AnyVerdict]]]()
"""How the rollouts ended before a run was resumed, and the verdicts archived till then, by the folder of the runs."""


@pytest.mark.few(1)
@pytest.mark.parametrize("fault", [Refuse(503, "down"), Hang(1000), Refuse(429, "slow down")], ids=str)
@pytest.mark.parametrize("sound", [5, 0])
def test_a_judge_that_is_down_is_given_up_after_few_calls_and_resume_reaches_the_ranks_of_a_good_day(
    tmp_path: Path, sound: int, fault: Reaction
) -> None:
    outage, at_once = Outage("judge", sound, fault), 4
    sparing: dict[str, Any] = {"judge_concurrency": at_once, "request_timeout": 20.0, "give_up": 60.0}
    result, resumed, endpoint = run_and_resume(outage, tmp_path, n=4, **sparing)
    before, bought = BEFORE[tmp_path]
    assert result.given_up
    assert "60 s (--give-up)" in result.given_up
    assert before == {"ok": 12}  # the agent's side goes on
    assert outage.refused <= 20 + at_once
    assert sum(v.status == "ok" for v in bought) == sound
    assert len(bought) <= sound + at_once + 1  # what was never asked is not there
    assert resumed
    assert places(resumed) == places_on_a_good_day(4)
    assert not bought_twice(endpoint)


@pytest.mark.few(1)
@pytest.mark.parametrize("fault", [Refuse(503, "down"), Hang(1000), Refuse(429, "slow down")], ids=str)
@pytest.mark.parametrize("sound", [9, 0])
def test_rollouts_are_not_begun_at_an_agents_endpoint_that_is_down_and_resume_begins_them(
    tmp_path: Path, sound: int, fault: Reaction
) -> None:
    outage, at_once = Outage("agent", sound, fault), 2
    result, resumed, _ = run_and_resume(
        outage, tmp_path, n=4, concurrency=at_once, request_timeout=20.0, timeout=600.0, give_up=60.0
    )
    before, _ = BEFORE[tmp_path]
    assert result.given_up
    assert outage.refused <= 20 + at_once
    assert set(before) <= {"ok", "network", "api"}
    assert before["network"] + before["api"] <= at_once + outage.refused // 6  # whose six attempts were over early
    assert before.total() < 12
    assert resumed
    assert kinds(resumed) == {"ok": 12}
    assert places(resumed) == places_on_a_good_day(4)


def test_the_other_juror_goes_on_where_one_is_down(tmp_path: Path) -> None:
    def one_down(seen: Seen) -> Reaction | None:
        return Refuse(503, "down") if seen.body["model"] == "down" else None

    async def work() -> tuple[RunResult, int]:
        async with endpoint_with(one_down).serving() as down, endpoint_with(nothing).serving() as sound:
            result = await run_at(
                down,
                tmp_path,
                n=4,
                judge_model=["down", "sound"],
                judge_base_url=[down.base_url, sound.base_url],
                judge_concurrency=4,
                give_up=60.0,
            )
            return result, len(sound.requests)

    result, asked = run_virtually(work)
    assert result.given_up
    assert sum(v.status == "ok" for v in verdicts(result)) == asked
    assert asked >= 18


@pytest.mark.anyio
async def test_the_python_functions_end_with_words_where_an_endpoint_is_down() -> None:
    with (
        FakeEndpoint(agent=lambda _: Refuse(503, "down")).serving() as endpoint,
        pytest.warns(UserWarning, match=r"^\d of 8 rollouts were begun: .* gave no reply for 0.2 s \(give_up=\)"),
    ):
        group = await harness.rollout(AGENT, "Why?", base_url=endpoint.base_url, give_up=0.2, concurrency=2, retries=1)
    assert {r.failure.kind for r in group.rollouts if r.failure} <= {"api", "network"}
    with FakeEndpoint().serving() as sound:
        group = await harness.rollout(AGENT, "Why?", n=3, base_url=sound.base_url)
    with FakeEndpoint(judge=lambda _: Refuse(503, "down")).serving() as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        ranking = await harness.rank(group, "j", give_up=0.2, retries=1)
    assert ranking.status == "incomplete"
    assert len(endpoint.of_judge) <= 20
