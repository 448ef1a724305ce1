"""Rankings whose transcripts only a later version can write."""

import json
from pathlib import Path

import pytest

from harness.transcripts.transcript import NEWEST_RENDERING, RENDERING
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import Outcome, attempt
from tests.fuzz.kinds.records import sealed

LATER = NEWEST_RENDERING + 1


@pytest.fixture
def room(tmp_path: Path) -> Room:
    """A run whose ranking names a later rendering."""
    room = Room.make(tmp_path / "room")
    (path,) = room.add_run().glob("rankings/*.jsonl")
    head, _, groups = path.read_bytes().partition(b"\n")
    assert json.loads(head)["rendering"] == RENDERING
    path.write_bytes(sealed(json.dumps(json.loads(head) | {"rendering": LATER}).encode()) + groups)
    return room


def harness(room: Room, *argv: str) -> Outcome:
    outcome = attempt(argv, room.work, room.environ())
    assert outcome.faults() == []
    return outcome


@pytest.mark.parametrize("argv", [("--rollout", "1", "--transcript"), ("--match", "1")], ids=" ".join)
def test_such_a_ranking_is_refused_in_a_line(room: Room, argv: tuple[str, ...]) -> None:
    outcome = harness(room, "show", *argv)
    assert (outcome.code, f"in way {LATER}" in outcome.err_text, outcome.err_text.count("\n")) == (2, True, 1)


def test_such_a_ranking_is_not_compared_by_validate_which_says_so(room: Room) -> None:
    (notice,) = json.loads(harness(room, "validate", "--json").out_text)
    assert (notice["kind"], f"way {LATER}" in notice["reason"]) == ("notice", True)
