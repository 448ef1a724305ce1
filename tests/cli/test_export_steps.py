"""`harness export` of steps: what each turn was worth, and pairs of turns after one prompt."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import Outcome, attempt


class Made:
    """A run of two queries, and exports of it."""

    def __init__(self, top: Path) -> None:
        self.room = Room.make(top)
        (self.room.work / "q.txt").write_text("Tell me about Lisp.\nTell me about Fortran.\n")
        argv = ("run", "--queries", "q.txt", "--offline", "-n", "6", "-q", "--topology", "round_robin", "--no-report")
        assert self(*argv).code == 0

    def __call__(self, *argv: str) -> Outcome:
        return attempt(argv, self.room.work, self.room.environ())

    def lines(self, to: str, *argv: str) -> list[Any]:
        outcome = self("export", "--allow-offline", "--force", "-o", to, *argv)
        assert outcome.code == 0, outcome.err_text
        return [json.loads(line) for line in (self.room.work / to / "train.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("steps") / "room")


def test_the_advantages_of_steps_stand_beside_the_mask_and_are_the_credits(made: Made) -> None:
    groups = made.lines("groups", "--format", "groups", "--step-advantages", "--include-anchor")
    credit = {group["query"]: group for group in json.loads(made("credit", "--json").out_text)["groups"]}
    for group in groups:
        credited = credit[group["query_id"]]["rollouts"]
        ratios: list[float] = []
        for rollout, of_rollout in zip(group["rollouts"], credited, strict=True):
            masked = [zip(s["step_advantages"], s["message_mask"], strict=True) for s in rollout["sequences"]]
            worth = [value for of_sequence in masked for value, mask in of_sequence if mask or value]
            assert len(worth) == len(of_rollout["steps"])
            pairs = zip(worth, of_rollout["steps"], strict=True)
            ratios += [value / step["credit"] for value, step in pairs if abs(step["credit"]) > 0.01]
        assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-3)


def test_without_the_option_no_line_has_them(made: Made) -> None:
    groups = made.lines("plain", "--format", "groups")
    assert not any("step_advantages" in s for g in groups for r in g["rollouts"] for s in r["sequences"])


@pytest.mark.parametrize("form", ["dpo", "openai-preference"])
def test_siblings_are_two_turns_after_one_prompt(form: str, made: Made) -> None:
    lines = made.lines(form, "--format", form, "--pairs", "siblings", "--confidence", "0.5")
    assert len(lines) > 2
    for line in lines:
        better, worse = ("chosen", "rejected") if form == "dpo" else ("preferred_output", "non_preferred_output")
        assert line[better] != line[worse]
        assert [message["role"] for message in (*line[better], *line[worse])] == ["assistant"] * 2
    few = made.lines(f"{form}-1", "--format", form, "--pairs", "siblings", "--confidence", "0.5", "--per-query", "1")
    assert len(few) == 2
    card = (made.room.work / form / "README.md").read_text()
    assert "two steps after one prompt: p(better above worse) of at least 0.5" in card


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--format", "dpo", "--step-advantages"), "--step-advantages is for --format"),
        (("--format", "dpo", "--pairs", "siblings", "--final-answer"), "give one of them"),
        (("--format", "groups", "--pairs", "siblings"), "--pairs is for --format"),
    ],
)
def test_options_that_do_not_go_together_are_refused(argv: tuple[str, ...], says: str, made: Made) -> None:
    outcome = made("export", "--allow-offline", "-o", "none", *argv)
    assert outcome.code == 2
    assert says in outcome.err_text


def test_turns_and_steps_of_nested_agents_and_after_handoffs_have_theirs_too(command: Command) -> None:
    command("run Why? --agent agent.py:agent -n 4 --model m --judge-model j --concurrency 1 -q")
    command("export --format groups --step-advantages -o out --json")
    (group,) = [json.loads(line) for line in Path("out/train.jsonl").read_text("utf-8").splitlines()]
    credited = {r["index"]: r for r in json.loads(command("credit --json"))["groups"][0]["rollouts"]}
    for rollout in group["rollouts"]:
        assert [s["agent"] for s in rollout["sequences"]] == ["first", "inner", "other"]
        said = sum(sum(s["message_mask"]) for s in rollout["sequences"])
        steps = credited[rollout["index"]]["steps"]
        assert said == len(steps)
        total = sum(sum(s["step_advantages"]) for s in rollout["sequences"])
        assert total * sum(step["credit"] for step in steps) >= 0
        assert {step["agent"] for step in steps} == {"first", "inner", "other"}
    command("export --format groups --step-advantages --include-anchor -o groups --json")
    command("export --format atif --step-advantages -o atif --json")
    (group,) = [json.loads(line) for line in Path("groups/train.jsonl").read_text("utf-8").splitlines()]
    lines = [json.loads(line) for line in Path("atif/train.jsonl").read_text("utf-8").splitlines()]
    assert len(lines) == len(group["rollouts"]) == 4
    for line, rollout in zip(lines, group["rollouts"], strict=True):
        documents = [line, *line["subagent_trajectories"]]
        own = [step for document in documents for step in document["steps"] if step.get("llm_call_count")]
        worth = [
            value
            for s in rollout["sequences"]
            for value, said in zip(s["step_advantages"], s["message_mask"], strict=True)
            if said
        ]
        assert sorted(step["extra"]["step_advantage"] for step in own) == pytest.approx(sorted(worth))
