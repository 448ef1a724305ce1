"""Runs for the tests of `harness export`: in process, with an endpoint whose answers are numbers."""

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from harness.cli.app import app
from tests.fake_endpoint import FakeEndpoint, Say, Seen, block, verdict

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


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    monkeypatch.chdir(tmp_path)
    Path("agent.py").write_text(AGENT)
    Path("plain.py").write_text(PLAIN)
    Path("q.txt").write_text("Why 1?\nWhy 2?\nWhy 3?\n")
    with FakeEndpoint(agents(), judge).serving() as endpoint:
        environ = dict(os.environ) | {"OPENAI_BASE_URL": endpoint.base_url, "COLUMNS": "80"}

        def run(line: str) -> str:
            asked = len(endpoint.requests)
            assert not app.main(line.split(), standalone_mode=False, obj=environ)
            assert line.startswith(("run", "rescore --judge-model j")) or len(endpoint.requests) == asked
            captured = capsys.readouterr()
            run.err = captured.err  # pyright: ignore[reportFunctionMemberAccess]
            return captured.out

        yield run


@pytest.fixture
def plain(command: Command) -> Command:
    """Three queries with four answers each, one after the other, so that later ones have greater numbers."""
    judged = "--judge-model j --topology round_robin --order both"
    command(f"run --agent plain.py:agent --queries q.txt -n 4 --model m {judged} --concurrency 1 -q")
    return command
