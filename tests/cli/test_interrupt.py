"""Ctrl-C once lets what is under way end, twice ends it; a tool that hangs does not keep the command alive."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.cli.console import stderr
from harness.cli.progress_bars import ProgressBars, run_interruptible
from harness.core.errors import Interrupted
from harness.core.progress import StopSign
from tests.fake_endpoint import FakeEndpoint, Reaction, Say, Seen, verdict
from tests.nursery import Nursery

HANGING = """
import time
from agents import Agent, function_tool

@function_tool
def look(word: str) -> str:
    "Look something up."
    open("began", "a").close()
    time.sleep(600)
    return "found"

agent = Agent(name="a", tools=[look])
"""


def test_rollouts_under_way_end_after_one_interrupt_and_none_is_begun(nursery: Nursery, tmp_path: Path) -> None:
    def slow(seen: Seen) -> Reaction:
        time.sleep(1.0)
        return Say("Done.")

    with FakeEndpoint(agent=slow, judge=lambda _: Say(verdict(7, 5))).serving() as endpoint:
        args = ["run", "Why?", "--model", "m", "-n", "6", "--concurrency", "2", "--grace", "20"]
        born = nursery.start(args, tmp_path, {"OPENAI_BASE_URL": endpoint.base_url})
        while len(endpoint.requests) < 2:
            time.sleep(0.02)
        signal_to(born.pid)
        done = nursery.wait(born)
    assert done.code == 130, done.err
    assert "what is under way may end, for 20 s at most" in done.err
    assert "Traceback" not in done.err
    ended = int(done.err.split("interrupted. ")[1].split(" of ")[0])
    assert 1 <= ended <= 3  # those of the two places; a second one may have begun just before
    assert "harness resume" in done.err


def test_two_interrupts_at_once_end_a_run_whose_tool_hangs_without_a_traceback(
    nursery: Nursery, tmp_path: Path
) -> None:
    (tmp_path / "hang.py").write_text(HANGING)

    def script(seen: Seen) -> Reaction:
        return Say("Done.") if seen.tool_outputs else Say(calls=(("look", {"word": "x"}),))

    with FakeEndpoint(agent=script).serving() as endpoint:
        args = ["run", "Why?", "--agent", "hang.py", "--model", "m", "-n", "2", "--grace", "60"]
        born = nursery.start(args, tmp_path, {"OPENAI_BASE_URL": endpoint.base_url})
        while not (tmp_path / "began").exists():
            time.sleep(0.02)
        signal_to(born.pid)
        signal_to(born.pid)
        # The system makes one signal of two that come before a busy machine gives the process its turn.
        third = threading.Timer(10.0, signal_to, [born.pid])
        third.start()
        done = nursery.wait(born, timeout_s=30)
        third.cancel()
    assert done.code == 130, done.err
    assert "Traceback" not in done.err
    assert "harness resume" in done.err


def test_an_interrupt_while_the_agent_is_loaded_says_that_nothing_was_begun(nursery: Nursery, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\nopen('began', 'a').close()\ntime.sleep(600)\n")
    born = nursery.start(["run", "Why?", "--agent", "slow.py", "--offline"], tmp_path, {})
    while not (tmp_path / "began").exists():
        time.sleep(0.02)
    signal_to(born.pid)
    done = nursery.wait(born, timeout_s=30)
    assert (done.code, done.err.splitlines()[-1]) == (130, "error: interrupted: nothing was begun")
    assert not (tmp_path / "runs").exists()


ENDED_EARLY = """
import signal
from importlib import import_module
app = import_module("harness.cli.app")
app.app.invoke = lambda _: signal.raise_signal(signal.{})
app.main()
"""


@pytest.mark.process
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_command_that_is_ended_before_its_work_begins_says_by_which_signal(name: str, code: int) -> None:
    command = [sys.executable, "-c", ENDED_EARLY.format(name), "ls"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (code, "", "")


@pytest.mark.parametrize("grace_s", [0.0, 5.0])
def test_an_interrupt_while_the_end_of_the_work_holds_the_loop_up_is_heard(
    grace_s: float, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work() -> None:
        signal.raise_signal(signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(Interrupted, match="interrupted"):
            run_interruptible(work, ProgressBars(stderr(quiet=True)), StopSign(), grace_s)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert ("stopping: " in capsys.readouterr().err) == (grace_s > 0)


def signal_to(pid: int) -> None:
    os.kill(pid, signal.SIGINT)
    time.sleep(0.005)
