"""Durations are what passed, also where somebody sets the system's clock meanwhile."""

from datetime import UTC, datetime, timedelta
from time import time
from typing import Any

import pytest
from agents import Agent, function_tool

from tests.fake_endpoint import Say, Seen
from tests.judging.replies import text_of
from tests.judging.scripted import ScriptedAsk, judge
from tests.rollouts.test_capture import roll_out

DAY_S = 86_400.0


class WallClock:
    """The system's clock, which can be set."""

    offset = timedelta()

    def now(self, tz: Any = UTC) -> datetime:
        return datetime.fromtimestamp(time(), tz) + self.offset

    def __getattr__(self, name: str) -> Any:
        return getattr(datetime, name)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    clock = WallClock()
    for where in ("agents.tracing.provider.datetime", "harness.core.progress.datetime"):
        monkeypatch.setattr(where, clock)
    return clock


@pytest.mark.anyio
@pytest.mark.parametrize("days", [2, -2])
async def test_a_clock_that_is_set_in_the_midst_changes_no_duration_and_no_order(wall: WallClock, days: int):
    @function_tool
    def set_clock() -> str:
        """Set the clock."""
        wall.offset += timedelta(days=days)
        return "set"

    def script(seen: Seen) -> Say:
        return Say("Done.") if seen.tool_outputs else Say(calls=(("set_clock", {}),), reasoning="Late already?")

    (rollout,), _ = await roll_out(Agent(name="a", tools=[set_clock]), script, "responses")
    assert wall.offset
    durations = [rollout.duration_s, *(t.duration_s for t in (*rollout.trajectory.path, *rollout.calls))]
    assert all(duration is not None and 0 < duration < DAY_S for duration in durations), durations
    times = [at for call in rollout.calls if (at := call.started_at)]
    assert len(times) == 2
    assert times == sorted(times)


def test_a_verdict_takes_the_time_that_passed_whatever_its_clock_says():
    verdict, _ = judge(ScriptedAsk(text_of(7, 5)))  # the clock there goes on by a second whenever it is read
    assert 0 <= verdict.duration_s < 1
