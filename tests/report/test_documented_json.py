"""docs/commands/look.md names every field of the JSON, and no other."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import attempt

PAGE = " ".join((ROOT / "docs" / "commands" / "look.md").read_text("utf-8").split())
INSIDE = {"cached", "kappa", "spearman"}
"""Fields of parts, named beside the part."""


def documented(begins: str) -> set[str]:
    """Return the names in backticks of the point of a list that begins so."""
    (point,) = re.findall(rf"- {re.escape(begins)} (.*?)(?= - [A-Z`]| `ls --json`| ## )", PAGE)
    return set(re.findall(r"`(\w+)`", point))


def printed(tmp_path: Path, archive: str, command: str) -> Any:
    room = Room.make(tmp_path / archive)
    outcome = attempt((command, room.add_run(archive).name, "--json"), room.work, room.environ())
    return json.loads(outcome.out_text)


@pytest.mark.parametrize("archive", ["online-jury", "online-ruler", "imported"])
def test_the_fields_of_a_run_its_groups_and_its_rollouts_are_the_documented_ones(archive: str, tmp_path: Path):
    shown = printed(tmp_path, archive, "show")
    assert set(shown) == documented("The object has")
    (group, *_) = shown["groups"]
    assert set(group) == documented("A group has") - INSIDE
    assert set(group["rollouts"][0]) == documented("A rollout has")
    assert INSIDE - {"cached"} <= documented("A group has")


def test_the_fields_of_the_figures_of_a_judge_are_the_documented_ones(tmp_path: Path):
    shown = printed(tmp_path, "online-jury", "stats")
    assert set(shown) == documented("`stats --json` prints")
    (ranking,) = shown["rankings"]
    assert set(ranking) == documented("A ranking has")
    assert set(ranking["judges"][0]) == documented("A judge has")
    assert set(ranking["judges"][0]["flips"]) == documented("A share has")
    assert set(ranking["judges"][0]["information"]) == documented("An information has")


def test_the_fields_of_the_list_of_rankings_are_the_documented_ones(tmp_path: Path):
    room = Room.make(tmp_path / "room")
    argv = ("show", room.add_run("online-jury").name, "--rankings", "--json")
    (ranking,) = json.loads(attempt(argv, room.work, room.environ()).out_text)
    assert set(ranking) == documented("`show --rankings --json` prints a list: of each ranking")


def test_what_came_with_imported_trajectories_and_their_queries_is_in_the_json(tmp_path: Path):
    room = Room.make(tmp_path / "room")
    line = {
        "query_id": "q7",
        "id": "run-1",
        "reward": 0.5,
        "metadata": {"difficulty": "hard"},
        "messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}],
    }
    (room.work / "t.jsonl").write_text("\n".join(json.dumps(line | {"id": f"run-{i}"}) for i in range(2)))
    assert attempt(("import", "t.jsonl"), room.work, room.environ()).code == 0
    assert attempt(("rescore", "--judge-model", "offline-features", "-q"), room.work, room.environ()).code == 0
    (group,) = json.loads(attempt(("show", "--json"), room.work, room.environ()).out_text)["groups"]
    assert group["id"] == "q7"
    assert [rollout["origin_id"] for rollout in group["rollouts"]] == ["run-0", "run-1"]
    assert [rollout["given_reward"] for rollout in group["rollouts"]] == [0.5, 0.5]
    assert [rollout["metadata"]["difficulty"] for rollout in group["rollouts"]] == ["hard", "hard"]
