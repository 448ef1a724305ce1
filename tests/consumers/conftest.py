"""Runs that the consumers' tests export: a plain agent, and one with parallel calls, a nested agent and a handoff."""

import os
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.cli.app import app
from tests.fake_endpoint import FakeEndpoint, Say, Seen, block, verdict

AGENT = """\
from agents import Agent, function_tool

@function_tool
def look_up(word: str, times: int = 1) -> str:
    "Look a word up."
    return f"meaning of {word}"

inner = Agent(name="inner", instructions="Inner.")
other = Agent(name="other", instructions="Other.")
tools = Agent(name="first", instructions="First.", tools=[look_up, inner.as_tool("ask", "Ask.")], handoffs=[other])
looker = Agent(name="looker", instructions="Look.", tools=[look_up])
plain = Agent(name="plain", instructions="Answer.")
"""
Exported = Callable[..., Path]


@pytest.fixture(autouse=True)
def transformers_as_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what the import of ART does to transformers: with it no other test of the process can run a model."""
    if patches := sys.modules.get("art.transformers.patches"):
        original = patches.__dict__["_preprocess_mask_arguments"]
        monkeypatch.setattr("transformers.masking_utils._preprocess_mask_arguments", original)


def _number(text: str) -> int:
    return int("".join(c for c in text if c.isdigit()) or 0)


def _judge(seen: Seen) -> Say:
    """The greater number is better."""
    return Say(verdict(*(_number(block(seen.user, f"ANSWER_{side}")) % 10 for side in "AB")))


def _agents() -> Callable[[Seen], Say]:
    """Answers are numbers. `first` calls two tools and a nested agent at once, then hands off; `looker` looks once."""
    numbers = count(1)

    def script(seen: Seen) -> Say:
        if seen.system in {"Answer.", "Inner.", "Other."} or (seen.system == "Look." and seen.tool_outputs):
            return Say(f"Number {next(numbers)}.")
        if seen.system == "Look.":
            return Say(calls=(("look_up", {"word": "a", "times": 2}),))
        calls = (("look_up", {"word": "a"}), ("look_up", {"word": "b", "times": 3}), ("ask", {"input": "x"}))
        return Say(calls=calls) if not seen.tool_outputs else Say(calls=(("transfer_to_other", {}),))

    return script


@pytest.fixture(autouse=True, scope="session")
def transformers_as_it_is() -> None:
    """Undo what importing ART does to transformers, which calls what ART puts there with other arguments."""
    masks: Any = sys.modules.get("transformers.masking_utils")
    patch: Any = sys.modules.get("art.transformers.patches")
    if masks and patch:
        masks._preprocess_mask_arguments = patch._preprocess_mask_arguments


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of each agent: four queries, four rollouts each, judged in both orders."""
    folder = tmp_path_factory.mktemp("consumers")
    (folder / "agent.py").write_text(AGENT)
    (folder / "q.txt").write_text("Why 1?\nWhy 2?\nWhy 3?\nWhy 4?\n")
    with FakeEndpoint(_agents(), _judge).serving() as endpoint:
        environ = dict(os.environ) | {"OPENAI_BASE_URL": endpoint.base_url, "COLUMNS": "80"}
        for agent in ("plain", "looker", "tools"):
            shared = f"--queries {folder}/q.txt -n 4 --model m --judge-model j --topology round_robin --order both -q"
            line = f"run --agent {folder}/agent.py:{agent} {shared} --concurrency 1 --runs-dir {folder}/{agent}"
            assert not app.main(line.split(), standalone_mode=False, obj=environ)
    return folder


@pytest.fixture
def exported(runs: Path, tmp_path: Path) -> Exported:
    """Export the run of an agent in a format, and return the folder."""

    def export(form: str, agent: str = "plain", *options: str) -> Path:
        to = tmp_path / f"{form}-{agent}"
        line = ["export", "--format", form, "-o", str(to), "--runs-dir", str(runs / agent), "-q", *options]
        assert not app.main(line, standalone_mode=False, obj=dict(os.environ))
        return to

    return export
