"""The bars on a real terminal: totals that stand, the first line at once, and nothing of agent code between them."""

import os
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyte
import pytest

from tests.cli.test_screens import on_a_terminal, written_on_a_terminal
from tests.fake_endpoint import FakeEndpoint, Reaction, Seen, fair_judge, searching_agent
from tests.fuzz.attacks import Room
from tests.nursery import ROOT, Nursery, clean_environment

pytestmark = pytest.mark.process

AGENT = """
import logging, os, subprocess, sys, warnings
from agents import Agent, function_tool
log = logging.getLogger("mine")
log.addHandler(logging.StreamHandler())

@function_tool
def search(query: str) -> str:
    print("NOISE print")
    print("NOISE stderr", file=sys.stderr)
    os.write(1, b"NOISE fd 1\\n")
    os.write(2, b"NOISE fd 2\\n")
    log.warning("NOISE log")
    warnings.warn_explicit("NOISE warning", UserWarning, "f.py", 1)
    subprocess.run(["sh", "-c", "echo NOISE child; echo NOISE child err >&2"])
    print("\\x1b[31mNOISE red\\x1b[0m")
    sys.stderr.write("NOISE over\\rNOISE written\\n")
    return "x"

agent = Agent(name="noisy", instructions="Search.", tools=[search], model="m")
"""
NOISES = {"print", "stderr", "fd 1", "fd 2", "log", "child", "child err", "red", "written"}
NOISE = re.compile(rf"NOISE ({'|'.join(NOISES)})|f.py:1: UserWarning: NOISE warning")
BAR = re.compile(r"( rollouts|  judging) [━╸╺ ]*(\d+) of (at most )?(\d+)(  [\d.]+/(s|min))?")


def slow(script: Callable[[Seen], Reaction]) -> Callable[[Seen], Reaction]:
    def reply(seen: Seen) -> Reaction:
        time.sleep(0.15)  # the bars are drawn four times a second
        return script(seen)

    return reply


def states(written: str, width: int) -> list[list[str]]:
    """Return what the terminal shows after each line that was written, the cursor's own line aside."""
    screen = pyte.Screen(width, 50)
    stream, shown = pyte.Stream(screen), list[list[str]]()
    for part in written.splitlines(keepends=True):
        stream.feed(part.replace("\n", "\r\n"))
        shown.append([line.rstrip() for row, line in enumerate(screen.display) if row != screen.cursor.y])
    return shown


def environ(folder: Path, **more: str) -> dict[str, str]:
    state = {name: str(folder / name) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME")}
    return clean_environment() | state | {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT)} | more


@pytest.mark.parametrize("width", [60, pytest.param(80, marks=pytest.mark.nightly)])
def test_what_agent_code_prints_stands_above_the_bars_and_totals_stand_still(
    width: int, nursery: Nursery, tmp_path: Path
):
    (tmp_path / "noisy.py").write_text(AGENT, "utf-8")
    (tmp_path / "queries.txt").write_text("One?\nTwo?\nThree?\n", "utf-8")
    argv = ("run", "--agent", "noisy.py", "--queries", "queries.txt", "-n", "4", "--model", "m", "--price", "m=1/2")
    with FakeEndpoint(agent=slow(searching_agent()), judge=slow(fair_judge())).serving() as endpoint:
        keys = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "sk-x"}

        def start(child: int) -> Callable[[], object]:
            words, around = (*argv, "--concurrency", "3"), environ(tmp_path, **keys)
            return partial(nursery.wait, nursery.start(words, tmp_path, around, terminal=os.ttyname(child)))

        written = written_on_a_terminal(width, start)
    shown = states(written, width)
    lines = [line for state in shown for line in state]
    assert [line for line in lines if "NOISE" in line and not NOISE.fullmatch(line)] == []
    noises = {match[1] for line in lines if (match := NOISE.fullmatch(line))}
    assert noises == {None, *NOISES}
    drawn = [line for line in lines if re.search("━.*[0-9]", line)]
    bars = [match for line in drawn if (match := BAR.fullmatch(line))]
    assert {line for line in drawn if not BAR.fullmatch(line)} == set()
    assert {(match[3], match[4]) for match in bars if match[1] == " rollouts"} == {(None, "12")}
    assert len({match[2] for match in bars}) > 2
    calls = [int(match[4]) for match in bars if match[1] == "  judging"]
    assert calls == sorted(calls, reverse=True)
    for state in shown:
        assert sum(line.startswith(" rollouts ") for line in state) <= 1  # no bar of before is left over
    took = next(line for line in lines if line.startswith("took "))
    assert re.match(r"took \d+:\d\d: 12 rollouts; \d+ verdicts; \$\d\.\d{4};", took)
    assert not any("━" in line for line in shown[-1])


@pytest.mark.few(2)
@pytest.mark.parametrize("command", ["run", "best", "resume", "rescore"])
def test_the_first_line_is_there_before_the_sdk_is_loaded(command: str, tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(STOP_AT_SDK, "utf-8")
    room = Room.make(tmp_path / "room")
    room.add_run("offline-interrupted")
    path = f"{tmp_path}:{ROOT}"
    written = on_a_terminal((command,), room.work, environ(tmp_path, PYTHONPATH=path), 80)
    first, *rest = written.splitlines()
    assert first.startswith("loading ")
    assert rest == ["the SDK is loaded"]


STOP_AT_SDK = """
import os, sys

class Stop:
    def find_spec(self, name, path=None, target=None):
        if name in {"agents", "openai"}:
            os.write(2, b"the SDK is loaded\\n")
            os._exit(0)

sys.meta_path.insert(0, Stop())
"""
