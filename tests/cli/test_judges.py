"""`harness judges`: judges of known merit on one run, through the commands in process."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

import harness
from harness.cli.app import app
from harness.core.errors import HarnessError, UsageError
from tests.cli.conftest import outside_of_tests
from tests.fake_endpoint import FakeEndpoint, Say, Seen, block, verdict

AGENT = """\
from agents import Agent
agent = Agent(name="numbers", instructions="Answer.")
def reward(rollout, query):
    return float("".join(c for c in rollout.trajectory.answer if c.isdigit()))
"""
Command = Callable[..., str]


def number(text: str) -> int:
    return int("".join(c for c in text if c.isdigit()))


def merit(seen: Seen) -> Say:
    """`sharp` and `small` judge by an answer's number; `poor` the other way round, and the first side gains."""
    a, b = (number(block(seen.user, f"ANSWER_{side}")) % 10 for side in "AB")
    return Say(verdict(a, b) if seen.body["model"] != "poor" else verdict(min(10, 12 - a), 9 - b))


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    numbers = count(1)
    monkeypatch.chdir(tmp_path)
    with FakeEndpoint(lambda _: Say(f"Number {next(numbers)}."), merit).serving() as endpoint:
        environ = dict(os.environ) | {"OPENAI_BASE_URL": endpoint.base_url, "COLUMNS": "80"}

        def run(line: str) -> str:
            assert not app.main(line.split(), standalone_mode=False, obj=environ)
            return capsys.readouterr().out

        yield run


def three_judges(command: Command, folder: Path, agent: str = "") -> Path:
    """Run four queries and judge them by `sharp`, `small` and `poor`; return the run's folder."""
    (folder / "q.txt").write_text("Why 1?\nWhy 2?\nWhy 3?\nWhy 4?\n")
    prices = "--price sharp=100/100 --price small=1/1 --price poor=0.1/0.1 --price m=1/1"
    command(f"run --queries q.txt -n 3 --model m --judge-model sharp --concurrency 1 -q {agent} {prices}")
    command(f"rescore last --judge-model small --judge-repeats 2 -q {prices}")
    command(f"rescore last --judge-model poor -q {prices}")
    return next((folder / "runs").iterdir())


@pytest.fixture(scope="module")
def judged(user_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that three judges have judged."""
    folder, numbers = tmp_path_factory.mktemp("judged"), count(1)
    with FakeEndpoint(lambda _: Say(f"Number {next(numbers)}."), merit).serving() as endpoint:
        environ = dict(os.environ) | {"OPENAI_BASE_URL": endpoint.base_url}
        with outside_of_tests(folder, user_folder):
            three_judges(lambda line: app.main(line.split(), standalone_mode=False, obj=environ), folder)
    return folder


def write_labels(run: Path, shown: str) -> None:
    """Label two pairs of answers of each query by their numbers, and a pair that the run does not have."""
    lines = [{"query": "Why 9?", "a": "x", "b": "y", "label": "a"}]
    for group in json.loads(shown)["groups"]:
        answers = [rollout["answer"] for rollout in group["rollouts"]]
        for a, b in ((answers[0], answers[1]), (answers[2], answers[0])):
            label = "a" if number(a) % 10 > number(b) % 10 else "b"
            lines.append({"query": group["query"], "a": a, "b": b, "label": label})
    (run / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_cheapest_of_two_right_judges_is_named_and_the_poor_one_is_not(command: Command, judged: Path):
    run = next(Path(shutil.copytree(judged / "runs", "runs")).iterdir())
    before = json.loads(command("judges --json"))
    assert (before["by"], before["best"]) == (None, None)
    assert "nothing tells which judge is right" in before["sentence"]
    assert "Nothing tells" in command("judges")
    write_labels(run, command("show --json"))
    side = json.loads(command("judges --json"))
    assert harness.open("last").judges() == {name: value for name, value in side.items() if name not in {"run", "path"}}
    sharp, small, poor = side["rankings"]
    assert [r["judge"].partition("@")[0] for r in side["rankings"]] == ["sharp", "small", "poor"]
    assert (side["by"], side["best"], side["cheapest"]) == ("labels", None, small["ranking"])
    assert (sharp["right"]["labels"]["value"], poor["right"]["labels"]["value"]) == (1, 0)
    assert (side["labels"], side["used_labels"]) == (9, 8)
    assert (sharp["self_noise"], small["self_noise"]["value"], small["calls"]["value"]) == (None, 0, 12)
    assert sharp["usd"]["value"] > small["usd"]["value"] > poor["usd"]["value"]
    taus = {tuple(a["rankings"]): a["tau"]["value"] for a in side["agreements"]}
    assert taus[sharp["ranking"], small["ranking"]] == 1
    assert taus[small["ranking"], poor["ranking"]] == -1
    printed = command("judges")
    assert max(map(len, printed.splitlines())) <= 80
    said = " ".join(printed.split())
    assert "Best by agreement with the labels: 2 (small@" in said
    assert "another judge is right as often; no cheaper judge is shown to be within 2 points of it" in said
    assert "8 of 9 labels name a query and two answers of the run" in said
    assert "labels right" in printed
    only = json.loads(command(f"judges --json --ranking {sharp['ranking']} --ranking {poor['ranking']}"))
    assert (only["best"], only["cheapest"], len(only["agreements"])) == (sharp["ranking"], sharp["ranking"], 1)


def test_people_who_labelled_the_same_pairs_stand_beside_the_judges_and_their_differences_are_listed(
    command: Command, judged: Path
):
    run = next(Path(shutil.copytree(judged / "runs", "runs")).iterdir())
    write_labels(run, command("show --json"))
    file = run / "labels.jsonl"
    ours = [json.loads(line) for line in file.read_text().splitlines()]
    other = {"a": "b", "b": "a"}
    ann = [line | {"by": "ann"} for line in ours]
    bo = [
        line | {"by": "bo", "label": other[line["label"]] if at < 2 else line["label"]} for at, line in enumerate(ours)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in ann + bo))
    side = json.loads(command("judges --json"))
    assert (side["people"]["people"], side["people"]["pairs"]) == (["ann", "bo"], 9)
    assert 0.3 < side["people"]["alpha"] < 0.8
    assert [each["query"] for each in side["people"]["disagreements"]] == [line["query"] for line in ours[:2]]
    assert side["rankings"][0]["alpha"] > 0.5 > side["rankings"][2]["alpha"]
    printed = command("judges")
    assert max(map(len, printed.splitlines())) <= 80
    said = " ".join(printed.split())
    assert "2 people on 9 pairs: Krippendorff's alpha 0." in said
    assert "they differ on 2" in said
    assert "ann: a, bo: b" in said
    assert "alpha with people" in said


def test_without_labels_reward_tells_which_judge_is_right(command: Command, tmp_path: Path):
    (tmp_path / "agents_config").mkdir()
    (tmp_path / "agents_config/numbers.py").write_text(AGENT)
    three_judges(command, tmp_path, "--agent numbers")
    side = json.loads(command("judges --json"))
    assert side["by"] == "reward"
    assert side["cheapest"] == side["rankings"][1]["ranking"]
    assert "best by agreement with reward()" in side["sentence"]


def test_a_run_with_one_ranking_names_the_command_that_makes_another(command: Command, tmp_path: Path):
    command("run Why? -n 2 --model m -q")
    (run,) = (tmp_path / "runs").iterdir()
    with pytest.raises(UsageError, match=f"one ranking only.*rescore {run.name} --judge-model MODEL"):
        command("judges")
    command("rescore last --judge-model m -q")
    with pytest.raises(UsageError, match="one ranking only"):
        command("judges")  # made in the same way
    command("rescore last --topology round_robin -q")
    assert "round_robin" in command("judges")


def test_a_bad_file_of_labels_is_one_error_that_names_it_and_a_link_in_its_place_is_not_followed(
    command: Command, tmp_path: Path
):
    command("run Why? -n 2 --model m -q")
    command("rescore last --topology round_robin -q")
    (run,) = (tmp_path / "runs").iterdir()
    for labels in ("{", '{"query": "Why?", "a": "x"}', "\x00", '{"query": 1, "a": 2, "label": 4}'):
        (run / "labels.jsonl").write_text(labels)
        with pytest.raises(HarnessError, match=r"labels\.jsonl"):
            command("judges")
        (run / "labels.jsonl").rename(tmp_path / "mine.jsonl")
        with pytest.raises(UsageError, match=r"--labels mine\.jsonl"):
            command("judges --labels mine.jsonl")
    (tmp_path / "secret").write_text("a secret\n")
    (run / "labels.jsonl").symlink_to(tmp_path / "secret")
    with pytest.raises(HarnessError, match="a link stands where a file should be"):
        command("judges")
