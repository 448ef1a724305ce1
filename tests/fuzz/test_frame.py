"""The frame itself: all commands are attacked, and what must never be is seen."""

import os
import signal
import socket
import sys
import time
from pathlib import Path

import click
import pytest

from harness.cli.app import app
from tests.fuzz.attacks import Attack, Room, faults_of
from tests.fuzz.attempts import attempt
from tests.fuzz.commands import Values, argument_lists, commands, lines_reading
from tests.fuzz.snapshots import changes, snapshot, untouched


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room.make(tmp_path / "room")


@pytest.fixture
def new_command(monkeypatch: pytest.MonkeyPatch):
    """Add a command to the app that does what it is given."""

    def add(work):
        monkeypatch.setitem(app.commands, "new", click.Command("new", callback=work))

    return add


def test_every_command_of_the_app_and_of_its_groups_is_attacked():
    names = {command.name for command in commands()}
    assert {"run", "best", "import", "show", "rubric check", "rubric show"} <= names
    assert {name.split()[0] for name in names} == set(app.commands)


def test_every_command_that_takes_a_run_gets_it():
    lines = lines_reading(Values(run="RUN"))
    for name in ("show", "stats", "report", "validate", "replay", "resume", "rescore", "run"):
        assert any(line[0] == name and "RUN" in line for line in lines), name
    assert ("ls",) in lines
    assert ("show", "RUN", "--rollout", "0", "--transcript") in lines
    assert ("validate", "RUN", "--repair") in lines


def test_no_argument_list_rolls_out_on_a_model():
    for command in commands():
        for line in argument_lists(command, Values()):
            assert "--live" not in line
            assert not command.rolls_out or "--offline" in line


def test_an_attempt_tells_code_and_streams_and_leaves_the_process_as_it_was(room: Room):
    before = Path.cwd(), dict(os.environ), list(sys.argv), sys.stdout, signal.getsignal(signal.SIGTERM)
    outcome = attempt(["show", "nothing"], room.work, room.environ())
    assert (outcome.code, outcome.out, outcome.faults()) == (2, b"", [])
    assert outcome.errors == ["error: no run 'nothing' in runs/; `harness ls` lists them"]
    assert before == (Path.cwd(), dict(os.environ), list(sys.argv), sys.stdout, signal.getsignal(signal.SIGTERM))


def test_an_offline_run_has_no_faults_and_changes_nothing_outside(room: Room):
    lines = [("run", "--offline", "-n", "2", "Why?"), ("show", "last"), ("ls", "--json")]
    assert faults_of(Attack("Why?", lines), room) == []
    assert len(list(room.runs.iterdir())) == 1


def test_an_exception_that_escapes_is_a_fault(room: Room, new_command):
    new_command(lambda: 1 / 0)
    outcome = attempt(["new"], room.work, room.environ())
    assert "ZeroDivisionError" in outcome.traceback
    assert outcome.faults() == ["traceback: ZeroDivisionError: division by zero"]


def compute_for_ever():
    while True:
        pass


@pytest.mark.parametrize("work", [lambda: time.sleep(60), compute_for_ever], ids=["waits", "computes"])
def test_a_hang_is_a_fault(room: Room, new_command, work):
    new_command(work)
    (fault,) = attempt(["new"], room.work, room.environ(), limit_s=0.05).faults()
    assert fault.startswith("hang: ")


def test_an_undocumented_exit_code_is_a_fault(room: Room, new_command):
    new_command(lambda: sys.exit(9))
    assert attempt(["new"], room.work, room.environ()).faults() == ["exit code: 9 is not documented"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("error: a\nerror: b", "errors: 2 lines"),
        ("error: " + "x" * 5000, "line: 5007 characters on stderr"),
        ("a\x1b[31mred", "control character: U+001B on stderr"),
        ("a\u202eb", "control character: U+202E on stderr"),
    ],
)
def test_a_line_that_is_not_for_people_is_a_fault(room: Room, new_command, text: str, what: str):
    new_command(lambda: click.echo(text, err=True))
    (fault,) = attempt(["new"], room.work, room.environ()).faults()
    assert fault.startswith(what)


def test_nothing_is_reached_over_the_network_and_the_wish_is_a_fault(room: Room, new_command):
    def connect():
        for host in ("127.0.0.1", "192.0.2.1"):
            with socket.socket() as out, pytest.raises(ConnectionRefusedError):
                out.connect((host, 80))

    new_command(connect)
    outcome = attempt(["new"], room.work, room.environ())
    assert outcome.connections == ("127.0.0.1", "192.0.2.1")
    assert outcome.faults() == ["network: wanted to reach 192.0.2.1"]


def test_a_byte_changed_outside_is_a_fault(room: Room, new_command):
    new_command((room.outside / "canary").unlink)
    (fault,) = faults_of(Attack("a command that writes", [("new",)]), room)
    assert fault.what == "outside: gone: outside/canary"


def test_a_snapshot_tells_what_came_went_and_changed(tmp_path: Path):
    (tmp_path / "gone").write_text("x")
    (tmp_path / "mode").write_text("x")
    (tmp_path / "link").symlink_to("gone")
    (tmp_path / "left").mkdir()
    before = snapshot(tmp_path, leave_out=[tmp_path / "left"])
    (tmp_path / "gone").unlink()
    (tmp_path / "mode").chmod(0o777)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("mode")
    (tmp_path / "left" / "new").write_text("x")
    (tmp_path / "new").mkdir()
    after = snapshot(tmp_path, leave_out=[tmp_path / "left"])
    assert changes(before, after) == ["gone: gone", "changed: link", "changed: mode", "new: new"]


def test_untouched_fails_where_something_changed(tmp_path: Path):
    with untouched(tmp_path):
        pass
    with pytest.raises(AssertionError, match="new: file"), untouched(tmp_path):
        (tmp_path / "file").write_text("x")
