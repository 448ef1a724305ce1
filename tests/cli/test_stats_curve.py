"""`harness stats --curve`, through the command in process: a judge that errs, and every truth that there may be."""

import csv
import json
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.cli.app import app
from harness.core.errors import HarnessError, NothingRankable, UsageError
from tests.fake_endpoint import FakeEndpoint, Say, Seen, block, verdict

AGENT = """\
from agents import Agent
agent = Agent(name="numbers", instructions="Answer.")
def reward(rollout, query):
    return float("".join(c for c in rollout.trajectory.answer if c.isdigit()))
"""
ROUND_ROBIN = "run --queries q.txt -n 4 --model m --judge-model sharp --topology round_robin --agent numbers -q"
Command = Callable[..., str]


def number(text: str) -> int:
    return int("".join(c for c in text if c.isdigit()))


def sharp(seen: Seen) -> Say:
    """Of two answers the one of the greater number is better; `failing` judges no answer of the numbers 1 to 3."""
    a, b = (number(block(seen.user, f"ANSWER_{side}")) for side in "AB")
    if seen.body["model"] == "failing" and min(a, b) < 4:
        return Say("No idea.")
    return Say(verdict(a % 11, b % 11))


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    numbers = count(1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents_config").mkdir()
    (tmp_path / "agents_config/numbers.py").write_text(AGENT)
    (tmp_path / "q.txt").write_text("Why 1?\nWhy 2?\n")
    with FakeEndpoint(lambda _: Say(f"Number {next(numbers)}."), sharp).serving() as endpoint:
        environ = dict(os.environ) | {"OPENAI_BASE_URL": endpoint.base_url, "COLUMNS": "80"}

        def run(line: str) -> str:
            app.main(line.split(), standalone_mode=False, obj=environ)
            return capsys.readouterr().out

        yield run


def curve_of(command: Command, options: str = "") -> dict[str, Any]:
    return json.loads(command(f"stats --curve --json {options}"))


@pytest.mark.nightly
def test_the_curve_is_measured_by_rewards_by_verdicts_held_out_and_by_another_ranking(command: Command, tmp_path: Path):
    command(ROUND_ROBIN)
    by_reward = curve_of(command)
    assert (by_reward["truth"], by_reward["queries"], by_reward["reference"]["calls"]) == ("reward", 2, 12)
    assert by_reward["reference"]["tau"]["value"] == 1
    assert by_reward["chosen"]["calls"] < 12
    assert f"{by_reward['chosen']['calls']:g} calls keep" in by_reward["sentence"]
    in_python = harness.open("last").curve()
    assert in_python == {name: value for name, value in by_reward.items() if name not in {"run", "path"}}
    held_out = curve_of(command, "--truth order")
    assert held_out["reference"]["calls"] == 6
    itself = curve_of(command, "--truth itself --seed 3")
    assert itself["truth_words"].startswith("SELF-AGREEMENT")
    command("rescore last --judge-model other --topology arena -q")
    other, judged = (r["ranking"] for r in reversed(json.loads(command("show --rankings --json"))))
    assert curve_of(command, f"--against {other}")["truth"] == "ranking"
    command("rescore last --judge-model sharp --topology arena --free -q")
    same = json.loads(command("show --rankings --json"))[-1]["ranking"]
    assert "part of this is self-agreement" in str(curve_of(command, f"--against {same}")["notes"])
    assert curve_of(command, f"--ranking {judged} --truth reward") == by_reward
    (run,) = (tmp_path / "runs").iterdir()
    answers = [r["answer"] for r in json.loads(command("show --json"))["groups"][0]["rollouts"]]
    label = {"query": "Why 1?", "a": answers[0], "b": answers[1], "label": "a" if answers[0] > answers[1] else "b"}
    (run / "labels.jsonl").write_text(json.dumps(label))
    by_labels = curve_of(command)
    assert (by_labels["truth"], by_labels["queries"], by_labels["without_truth"]) == ("labels", 1, 1)


@pytest.mark.nightly
def test_the_table_fits_80_columns_and_the_files_hold_every_point_and_no_script(command: Command, tmp_path: Path):
    command(ROUND_ROBIN)
    printed = command("stats --curve --csv c.csv --svg c.svg")
    assert max(map(len, printed.splitlines())) <= 80
    assert any(line.endswith("keeps") for line in printed.splitlines())
    points = curve_of(command)["points"]
    rows = list(csv.DictReader((tmp_path / "c.csv").read_text().splitlines()))
    assert [(row["topology"], row["estimator"], float(row["calls"])) for row in rows] == [
        (point["topology"], point["estimator"], point["calls"]) for point in points
    ]
    drawing = (tmp_path / "c.svg").read_text()
    shapes = [element for element in ET.fromstring(drawing).iter() if element.tag.endswith("title")]
    assert len(shapes) > len(points)
    assert "script" not in drawing
    assert "http" not in drawing.replace("http://www.w3.org/2000/svg", "").replace("http://127", "")
    with pytest.raises(UsageError, match=r"c\.svg is there already; --force"):
        command("stats --curve --svg c.svg")
    command("stats --curve --svg c.svg --force")


def test_one_call_is_in_the_singular(command: Command, tmp_path: Path):
    command(ROUND_ROBIN.replace("-n 4", "-n 2"))
    said = command("stats --curve --truth reward --svg c.svg") + (tmp_path / "c.svg").read_text()
    assert re.findall(r"\b1 call,", said)
    assert not re.findall(r"\b1 calls.*", said)
    assert "1 call keeps" in said


def test_without_a_round_robin_the_command_that_makes_one_is_named(command: Command, tmp_path: Path):
    command("run Why? -n 3 --model m -q")
    (run,) = (tmp_path / "runs").iterdir()
    with pytest.raises(UsageError, match=rf"rescore {run.name} --topology round_robin`"):
        command("stats --curve")
    command(f"rescore {run.name} --topology round_robin --order single -q")
    with pytest.raises(UsageError, match="no verdict of the other order"):
        command("stats --curve --truth order")
    curve = curve_of(command)
    assert (curve["truth"], curve["reference"]["calls"]) == ("itself", 3)
    assert "each pair was judged in one order" in str(curve["notes"])


def test_options_that_do_not_fit_are_refused(command: Command):
    command("run Why? -n 2 --model m --topology round_robin -q")
    for options, message in (
        ("--csv c.csv", "--csv needs --curve"),
        ("--curve --truth ranking", "needs --against"),
        ("--curve --against nope", "no ranking 'nope'"),
        ("--curve --truth labels", "no label"),
        ("--curve --truth reward", r"no reward\(\)"),
    ):
        with pytest.raises(HarnessError, match=message):
            command(f"stats {options}")


def test_a_query_of_which_a_verdict_is_missing_is_left_out_and_where_all_are_nothing_can_be_ranked(command: Command):
    failing = "--judge-model failing --repairs 0 --topology round_robin -q"
    command(f"run Why? -n 2 --model m {failing}")
    with pytest.raises(NothingRankable, match="no query of the round robin"):
        command("stats --curve")
    command(f"{ROUND_ROBIN} --concurrency 1")  # whose first answer is number 3
    command(f"rescore last {failing}")
    curve = curve_of(command)
    assert (curve["left_out"], curve["queries"]) == (1, 1)
