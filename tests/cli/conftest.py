"""Runs for tests of commands: in process, made once and copied, with an endpoint that lives as long as they do."""

import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from harness.cli.app import app
from tests.cli.desk import Desk
from tests.fake_endpoint import FakeEndpoint, Say, Seen, block, verdict
from tests.nursery import OURS

AGENT = """\
from agents import Agent, function_tool

@function_tool
def look_up(word: str) -> str:
    "Look a word up."
    return f"meaning of {word}"

inner = Agent(name="inner", instructions="Inner.")
other = Agent(name="other", instructions="Other.")
agent = Agent(name="first", instructions="First.", tools=[look_up, inner.as_tool("ask", "Ask.")], handoffs=[other])
"""
PLAIN = "from agents import Agent\nagent = Agent(name='plain', instructions='Answer.')\n"
Command = Callable[..., str]


def number(text: str) -> int:
    return int("".join(c for c in text if c.isdigit()) or 0)


def judge(seen: Seen) -> Say:
    """The greater number is better."""
    return Say(verdict(*(number(block(seen.user, f"ANSWER_{side}")) % 10 for side in "AB")))


def agents() -> Callable[[Seen], Say]:
    """Two calls at once and a nested agent, then a handoff; `plain` answers at once. Answers are numbers."""
    numbers = count(1)

    def script(seen: Seen) -> Say:
        if seen.system in {"Answer.", "Inner."}:
            return Say(f"Number {next(numbers)}.")
        if seen.system == "Other.":
            return Say(f"Number {next(numbers)}.")
        calls = (("look_up", {"word": "a"}), ("look_up", {"word": "b"}), ("ask", {"input": "x"}))
        return Say(calls=calls) if not seen.tool_outputs else Say(calls=(("transfer_to_other", {}),))

    return script


@pytest.fixture(scope="session")
def served() -> Iterator[FakeEndpoint]:
    with FakeEndpoint().serving() as endpoint:
        yield endpoint


def set_out(folder: Path, endpoint: FakeEndpoint) -> dict[str, str]:
    """Lay the agents and queries out, begin the answers' numbers anew, and return the environment of commands."""
    (folder / "agent.py").write_text(AGENT)
    (folder / "plain.py").write_text(PLAIN)
    (folder / "q.txt").write_text("Why 1?\nWhy 2?\nWhy 3?\n")
    endpoint.agent, endpoint.judge = agents(), judge
    return dict(os.environ) | {"OPENAI_BASE_URL": endpoint.base_url, "COLUMNS": "80"}


@contextmanager
def outside_of_tests(folder: Path, user_folder: Path) -> Generator[None]:
    """Be in a folder, and in nobody's environment, for what is made once for many tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [n for n in os.environ if n.startswith(OURS)]:
            patch.delenv(name)
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["harness"])
        patch.setenv("XDG_STATE_HOME", str(user_folder / "state"))
        patch.setenv("XDG_CACHE_HOME", str(user_folder / "cache"))
        yield


@pytest.fixture
def command(
    served: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.chdir(tmp_path)
    environ = set_out(tmp_path, served)

    def run(line: str) -> str:
        asked = len(served.requests)
        assert not app.main(line.split(), standalone_mode=False, obj=environ)
        assert line.startswith(("run", "rescore --judge-model j")) or len(served.requests) == asked
        captured = capsys.readouterr()
        run.err = captured.err  # pyright: ignore[reportFunctionMemberAccess]
        return captured.out

    return run


@pytest.fixture(scope="session")
def folder_of_plain(served: FakeEndpoint, user_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three queries with four answers each, one after the other, so that later ones have greater numbers."""
    folder = tmp_path_factory.mktemp("plain")
    judged = "--judge-model j --topology round_robin --order both"
    line = f"run --agent plain.py:agent --queries q.txt -n 4 --model m {judged} --concurrency 1 -q"
    with outside_of_tests(folder, user_folder):
        assert not app.main(line.split(), standalone_mode=False, obj=set_out(folder, served))
    return folder


@pytest.fixture
def plain(folder_of_plain: Path, command: Command) -> Command:
    """The run of `folder_of_plain`, in a copy of the test's own."""
    shutil.copytree(folder_of_plain / "runs", "runs")
    return command


@pytest.fixture
def desk(served: FakeEndpoint, tmp_path: Path) -> Desk:
    served.requests = []
    return Desk(tmp_path / "room", served)


@pytest.fixture(scope="session")
def desk_of_two_runs(served: FakeEndpoint, tmp_path_factory: pytest.TempPathFactory) -> tuple[Desk, str, str]:
    desk = Desk(tmp_path_factory.mktemp("two-runs") / "room", served)
    return desk, desk.run("weak"), desk.run("strong")


@pytest.fixture
def runs(desk_of_two_runs: tuple[Desk, str, str], desk: Desk) -> tuple[str, str]:
    """Two runs of the same queries, whose models the judge tells apart: copies of the test's own."""
    made, *names = desk_of_two_runs
    desk.copy(made)
    desk.endpoint.requests = []
    return names[0], names[1]
