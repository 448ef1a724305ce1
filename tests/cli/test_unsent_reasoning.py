"""Training data of a tool agent whose server's reasoning is never sent back: the answers are in it, and the pairs."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.cli.app import app
from tests.cli.conftest import judge
from tests.fake_endpoint import FakeEndpoint, Say, Seen

AGENT = """\
from agents import Agent, function_tool

@function_tool
def look_up(word: str) -> str:
    "Look a word up."
    return f"meaning of {word}"

agent = Agent(name="a", instructions="Look it up.", tools=[look_up])
"""
Command = Callable[..., str]
Exported = Callable[..., list[dict[str, Any]]]


def thinking() -> Callable[[Seen], Say]:
    """Think, look a word of one's own up, or the same word as all; think again and answer with a number."""
    numbers = count(1)

    def script(seen: Seen) -> Say:
        number, same = next(numbers), "same" in seen.user
        if not seen.tool_outputs:
            return Say(calls=(("look_up", {"word": "sky" if same else f"sky{number}"}),), reasoning=f"Hm {number}.")
        return Say(f"Number {number}.", reasoning=f"So {number}.")

    return script


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    monkeypatch.chdir(tmp_path)
    Path("agent.py").write_text(AGENT)
    Path("q.txt").write_text("Why?\nWhy the same?\n")
    with FakeEndpoint(thinking(), judge).serving() as endpoint:
        environ = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "sk-test", "COLUMNS": "80"}

        def run(line: str) -> str:
            assert not app.main(line.split(), standalone_mode=False, obj=environ)
            return capsys.readouterr().out

        judged = "--judge-model j --topology round_robin --order both --concurrency 1 -q"
        run(f"run --agent agent.py:agent --queries q.txt -n 4 --model m {judged}")
        yield run


@pytest.fixture
def exported(command: Command) -> Exported:
    def export(options: str, run: str = "last", to: str = "out") -> list[dict[str, Any]]:
        command(f"export {run} {options} -o {to} --force -q")
        return [json.loads(line) for line in Path(to, "train.jsonl").read_text("utf-8").splitlines()]

    return export


def test_supervised_examples_hold_every_turn_of_the_best_rollouts_and_the_answers(exported: Exported):
    lines = exported("--format sft")
    assert [line["completion"][0]["reasoning_content"][:2] for line in lines] == ["Hm", "So"] * 2
    answers = [line["completion"][0]["content"] for line in lines[1::2]]
    assert all(answer.startswith("Number") for answer in answers)
    assert lines == exported("--format sft --style trl-turns")
    lacking = "its answer is in no line"
    assert lacking not in Path("out/README.md").read_text("utf-8")
    exported("--format sft --style trl")
    assert f"| rollout | {lacking}, though other turns of it are | 2 |" in Path("out/README.md").read_text("utf-8")


def test_pairs_are_of_each_turn_at_which_siblings_part_after_the_same_prompt(exported: Exported):
    calls, same_call, after_it = exported("--format dpo")
    assert [m["role"] for m in calls["prompt"]] == [m["role"] for m in same_call["prompt"]] == ["system", "user"]
    words = [calls[side][0]["tool_calls"][0]["function"]["arguments"]["word"] for side in ("chosen", "rejected")]
    assert len(set(words)) == 2
    assert [m["role"] for m in after_it["prompt"]] == ["system", "user", "assistant", "tool"]
    assert all(after_it[side][0]["content"].startswith("Number") for side in ("chosen", "rejected"))
    lines = exported("--format openai-preference")
    assert [len(line["input"]["messages"]) for line in lines] == [2, 4]


def test_pairs_of_turns_are_the_same_after_an_import(command: Command, exported: Exported):
    lines = exported("--format dpo --pairs all", to="first")
    made = json.loads(command("import first --json"))
    assert exported("--format dpo --pairs all", made["path"]) == lines
