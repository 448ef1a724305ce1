"""Where nobody watches a terminal, a line every half minute tells how far the work is."""

import anyio
import pytest
from rich.console import Console

from harness.cli import progress_bars
from harness.cli.progress_bars import ProgressBars
from harness.cli.progress_line import ProgressTally
from harness.core.records import Usage


def test_a_line_tells_how_far_the_work_is_what_failed_what_waits_and_what_was_spent() -> None:
    tally = ProgressTally()
    tally.expect("rollouts", 24)
    tally.done("rollouts", 10)
    tally.kept("rollouts", Usage(requests=3, input=1000, output=200), 0.25, failed=True)
    tally.kept("rollouts", Usage(requests=2, input=500, output=100), 0.5, failed=False)
    tally.expect("judging", 6)
    tally.waiting("api.example.com", 5)
    assert tally.line() == (
        "progress after 2:31: 10 of 24 rollouts (1 failed); 0 of 6 verdicts; 5 calls wait for api.example.com; "
        "$0.7500; 1,800 tokens"
    )
    tally.waiting("api.example.com", 0)
    tally.kept("judging", Usage(requests=1), None, failed=False)
    assert "wait" not in tally.line(1)
    assert "$0.7500 and more (a price is unknown)" in tally.line(1)


@pytest.mark.parametrize("quiet", [False, True])
def test_the_lines_come_while_the_work_goes_on_and_not_with_q(
    quiet: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_bars, "LINE_EVERY_S", 0.02)

    async def work() -> str:
        await anyio.sleep(0.2)
        return "done"

    with ProgressBars(Console(stderr=True, quiet=quiet), quiet=quiet) as bars:
        assert anyio.run(bars.around, work) == "done"
    lines = capsys.readouterr().err.splitlines()
    assert bool(lines) is not quiet
    assert all(line.startswith("progress after 0:00: nothing yet") for line in lines)
