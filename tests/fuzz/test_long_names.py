"""Names and paths that no file system takes, wherever a command may be given a file: one line, and exit code 2."""

import shutil

import pytest

from tests.fuzz.attacks import Room
from tests.fuzz.attempts import attempt
from tests.fuzz.commands import commands
from tests.fuzz.kinds.files import files_of, line_with

TOO_LONG = {"name": "x" * 300, "path": "e/" * 2100 + "x", "deep path": "/".join(["d" * 200] * 25) + ".json"}


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Room:
    """A room with a run, and an older one that lacks its rollouts, so that `resume` looks at what it is given."""
    room = Room.make(tmp_path_factory.mktemp("names") / "room")
    room.add_run()
    older = room.add_run(name="20200101T000000-older-000000")
    shutil.rmtree(older / "rollouts")
    (older / "run.lock").touch()
    return room


@pytest.mark.few(1)
@pytest.mark.parametrize("word", TOO_LONG.values(), ids=TOO_LONG)
def test_a_name_or_a_path_that_is_too_long_is_one_error_and_writes_nothing(room: Room, word: str) -> None:
    before = {*room.work.rglob("*")}
    faults: list[object] = []
    for command in commands():
        for parameter in files_of(command):
            outcome = attempt(line_with(command, parameter, word), room.work, room.environ())
            fine = outcome.code == 2 and len(outcome.errors) == 1 and not outcome.faults()
            made = {*room.work.rglob("*")} - before
            if made or not fine:
                faults.append(
                    (*command.words, parameter.name, outcome.code, outcome.err_text[:200], outcome.faults(), made)
                )
    assert faults == []
