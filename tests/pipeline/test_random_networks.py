"""Any schedule of faults, on the agent's side and the judge's: the numbers of a good day, and nothing bought twice.

HARNESS_TEST_SCHEDULES=500 python -m pytest tests/pipeline/test_random_networks.py -m "not process"
"""

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from harness.archive.reader import RunReader
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import RunResult, resume_run
from harness.rollouts.loading import from_object
from tests.fake_endpoint import Cut, Hang, Reaction, Refuse, Seen
from tests.pipeline.networks import (
    AGENT,
    ENVIRON,
    Limit,
    endpoint_with,
    good,
    kinds,
    places,
    places_on_a_good_day,
    run_at,
    verdicts,
)
from tests.virtual_time import run_virtually

pytestmark = pytest.mark.usefixtures("no_thread_syncs")
N = 3
GIVE_UP_S = 120.0
SLOW_DOWN = tuple(
    Refuse(429, "slow down", headers=headers)
    for headers in ({}, {"retry-after": "1"}, {"retry-after-ms": "300"}, {"retry-after": "0"})
)
FAULTS = (
    *SLOW_DOWN,
    Refuse(429, "come back much later", headers={"retry-after": "90"}),
    Refuse(500, "oops"),
    Refuse(503, "down", headers={"retry-after": "2"}),
    Cut(),
    Hang(1000),
)


@dataclass(frozen=True)
class Schedule:
    """What one side of the server, the agent's or the judge's, does to its calls after the first."""

    seed: int
    rate: float
    """The part of the calls that `faults` befall."""
    faults: Sequence[Reaction]
    outage: tuple[float, float] | None
    """From when on, and for how many seconds, every call gets the first of `faults`."""
    limit: tuple[float, str | None] | None
    """Requests a second that are let through, and the Retry-After of the others."""

    @property
    def only_slows(self) -> bool:
        """Whether all that happens is a wait that is shorter than the patience."""
        return all(fault in SLOW_DOWN for fault in self.faults) and (not self.outage or self.outage[1] < GIVE_UP_S / 4)


def schedules() -> st.SearchStrategy[Schedule]:
    return st.builds(
        Schedule,
        seed=st.integers(0, 2**32),
        rate=st.floats(0, 0.4),
        faults=st.sampled_from([SLOW_DOWN, FAULTS]).flatmap(lambda kinds: st.lists(st.sampled_from(kinds), min_size=1)),
        outage=st.none() | st.tuples(st.floats(0, 10), st.floats(0.1, 2 * GIVE_UP_S)),
        limit=st.none() | st.tuples(st.floats(1, 30), st.sampled_from([None, "1"])),
    )


class Side:
    """One side of the server under its schedule, until that is over."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule, self._rng, self._calls = schedule, random.Random(schedule.seed), 0
        self._limit = Limit(schedule.limit[0], 3, schedule.limit[1]) if schedule.limit else None

    def __call__(self, seen: Seen) -> Reaction | None:
        self._calls += 1
        if self._calls == 1:  # the first call decides whether key, model and address are right
            return None
        begins, seconds = self._schedule.outage or (0.0, 0.0)
        if begins <= anyio.current_time() < begins + seconds:
            return self._schedule.faults[0]
        if self._rng.random() < self._schedule.rate:
            return self._rng.choice(self._schedule.faults)
        return self._limit(seen) if self._limit else None


@dataclass(frozen=True)
class Story:
    """A run under faults, and what `resume` made of it when they were over."""

    result: RunResult
    ended: Counter[str]
    """How the rollouts of the run had ended before it was resumed."""
    kept: set[str]
    """The answers of those that had ended well."""
    used: int
    """The replies that the archive counted till then, of agent and judge."""
    resumed: RunResult | None
    replied: Sequence[Seen]
    replied_later: Sequence[Seen]
    """The requests that got a reply: of the run, and of `resume`."""


def story_of(agent: Schedule, judge: Schedule) -> Story:
    sides, over = {False: Side(agent), True: Side(judge)}, [False]
    endpoint = endpoint_with(lambda seen: None if over[0] else sides[seen.is_judge](seen))

    async def work(folder: Path) -> Story:
        async with endpoint.serving():
            result = await run_at(endpoint, folder, N, request_timeout=20.0, retries=3, give_up=GIVE_UP_S)
            with RunReader(result.path) as reader:
                rollouts = [r for query in reader.queries() for r in reader.group(query).rollouts]
                used = sum(r.usage.requests for r in rollouts) + sum(v.usage.requests for v in reader.verdicts())
            kept = {r.trajectory.answer for r in rollouts if r.status == "ok"}
            ended, replied, over[0] = kinds(result), len(endpoint.replied), True
            resumed = await resume_run(result.path, from_object(AGENT), RunEnvironment(ENVIRON))
            return Story(result, ended, kept, used, resumed, endpoint.replied[:replied], endpoint.replied[replied:])

    with TemporaryDirectory() as folder:
        story = run_virtually(work, Path(folder))
        assert places(story.resumed or story.result) == places_on_a_good_day(N)
        bought = [v.key for v in verdicts(story.result) if v.status == "ok"]
        assert len(bought) == len(set(bought))
        return story


@pytest.mark.nightly
@settings(
    max_examples=int(os.environ.get("HARNESS_TEST_SCHEDULES", "25")),
    phases=(Phase.explicit, Phase.generate),  # to shrink a schedule takes minutes
)
@given(agent=schedules(), judge=schedules())
def test_random_faults_change_no_rank_or_are_named_as_the_networks_and_resume_mends_them(
    agent: Schedule, judge: Schedule
) -> None:
    story = story_of(agent, judge)
    assert set(story.ended) <= {"ok", "api", "network"}
    if agent.only_slows:
        assert story.ended == {"ok": 3 * N}
        if judge.only_slows:
            assert (story.result.given_up, story.resumed) == (None, None)
    assert story.used == len(story.replied), "a reply came in, and the archive does not know it"
    for command in (story.replied, story.replied_later):
        assert twice(command) == []
    assert twice([seen for seen in (*story.replied, *story.replied_later) if seen.is_judge]) == []
    again = {(seen.user, seen.body["seed"]): seen for seen in story.replied_later if not seen.is_judge}
    assert not {good(seen).text for seen in again.values()} & story.kept, "a rollout that is kept was run again"


def twice(replied: Sequence[Seen]) -> list[str]:
    """Return the requests that got more than one reply."""
    return [body for body, times in Counter(str(seen.body) for seen in replied).items() if times > 1]
