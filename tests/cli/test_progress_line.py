"""How far the work is, in words: of how much, how fast, for how long; where nobody watches, a line now and then."""

import anyio
import pytest
from rich.console import Console

from harness.cli import progress_bars
from harness.cli.progress_bars import ProgressBars
from harness.cli.progress_line import ProgressTally
from harness.core.progress import Stage
from harness.core.records import Usage


def keep(tally: ProgressTally, stage: Stage, count: int) -> None:
    """Tell of pieces that ended well and took nothing."""
    for _ in range(count):
        tally.kept(stage, Usage(), 0.0, failed=False)
        tally.done(stage, 1)


class Clock:
    """Time that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_line_tells_how_far_the_work_is_how_fast_what_failed_what_waits_and_what_was_spent() -> None:
    clock = Clock()
    tally = ProgressTally(clock)
    tally.total("rollouts", 24, 24)
    tally.total("judging", 0, 12)
    assert tally.line() == "progress after 0:00: 0 of 24 rollouts; 0 of at most 12 verdicts; $0.00"
    tally.expect("rollouts", 24)
    clock.now += 100
    keep(tally, "rollouts", 8)
    tally.done("rollouts", 2)
    tally.kept("rollouts", Usage(requests=3, input=1000, output=200), 0.25, failed=True)
    tally.kept("rollouts", Usage(requests=2, input=500, output=100), 0.5, failed=False)
    tally.expect("judging", 6)
    tally.waiting("api.example.com", 5)
    tally.retried()
    clock.now += 25
    keep(tally, "judging", 3)
    assert tally.line() == (
        "progress after 2:05: 10 of 24 rollouts (1 failed), 4.8/min; 3 of at most 12 verdicts, 7.2/min; "
        "about 2:55 left; 5 calls wait for api.example.com; $0.75; 1,800 tokens; 1 retry"
    )
    tally.waiting("api.example.com", 1)
    assert "; 1 call waits for api.example.com;" in tally.line()
    tally.waiting("api.example.com", 0)
    tally.kept("judging", Usage(requests=1), None, failed=False)
    assert "wait" not in tally.line()
    assert "$0.75 and more (a price is unknown)" in tally.line()
    tally.done("judging", 1)
    keep(tally, "judging", 4)
    keep(tally, "rollouts", 14)
    tally.total("judging", 8, 8)
    assert "left" not in tally.line()
    assert tally.summary().startswith("took 2:05: 24 rollouts (1 failed); 8 verdicts; $0.75")


def test_a_price_that_nobody_knows_is_no_zero_and_one_verdict_is_singular() -> None:
    tally = ProgressTally(Clock())
    tally.expect("judging", 1)
    tally.kept("judging", Usage(requests=1), None, failed=False)
    assert tally.summary() == "took 0:00: 1 verdict; cost unknown"


def test_without_a_total_none_is_shown_and_no_time_is_guessed() -> None:
    clock = Clock()
    tally = ProgressTally(clock)
    assert tally.line() == "progress after 0:00: nothing yet; $0.00"
    tally.total("rollouts", 0, None)
    tally.expect("rollouts", 8)
    clock.now += 4000
    keep(tally, "rollouts", 2)
    assert tally.line() == "progress after 1:06:40: 2 rollouts, 0.0/min; $0.00"
    assert tally.share("rollouts") is None
    tally.total("rollouts", 8, 8)
    assert "2 of 8 rollouts" in tally.line()
    assert "about 3:20:00 left" in tally.line()


def test_open_bounds_are_expected_to_come_as_those_that_were_settled() -> None:
    clock = Clock()
    tally = ProgressTally(clock)
    tally.total("judging", 0, 100)
    tally.expect("judging", 5)
    clock.now += 10
    keep(tally, "judging", 5)
    tally.total("judging", 5, 95)  # a query that could have taken 10 took 5
    assert tally.count("judging") == "5 of at most 95"
    assert tally.share("judging") == 5 / 50
    assert tally.left() == "about 1:30 left"


def test_what_is_not_begun_any_more_is_not_waited_for_and_not_counted_as_done() -> None:
    clock = Clock()
    tally = ProgressTally(clock)
    tally.total("rollouts", 10, 10)
    tally.expect("rollouts", 10)
    clock.now += 10
    keep(tally, "rollouts", 2)
    tally.done("rollouts", 8)
    assert tally.count("rollouts") == "2 of 10"
    assert tally.left() == ""
    assert tally.summary() == "took 0:10: 2 of 10 rollouts; $0.00"


@pytest.mark.parametrize("quiet", [False, True])
def test_the_lines_come_while_the_work_goes_on_and_not_with_q(
    quiet: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_bars, "LINE_EVERY_S", 0.02)

    async def work() -> str:
        await anyio.sleep(0.2)
        return "done"

    with ProgressBars(Console(stderr=True, quiet=quiet)) as bars:
        assert anyio.run(bars.around, work) == "done"
    lines = capsys.readouterr().err.splitlines()
    assert bool(lines) is not quiet
    assert all(line.startswith("progress after 0:00: nothing yet") for line in lines)
