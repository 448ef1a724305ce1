"""`harness label` in a terminal: keys, how it ends, and what the screen must not tell."""

import io
import json
import os
import pty
import re
import select
import time
from pathlib import Path

import pytest

from harness.cli.app import app
from harness.core.errors import UsageError
from tests.fake_endpoint import FakeEndpoint, Say, Seen, verdict
from tests.nursery import Nursery

SECRETS = re.compile("anchor|sample|rollout|rank|place|judge|verdict|score", re.IGNORECASE)


@pytest.fixture
def folder_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a run of one query, whose answers hold what a terminal would obey."""
    monkeypatch.chdir(tmp_path)
    answers = iter(f"Number {number}.\x1b[2J\u202e" for number in range(9))

    def judged(_: Seen) -> Say:
        return Say(verdict(7, 6))

    (tmp_path / "agent.py").write_text('from agents import Agent\nagent = Agent(name="a", instructions="Answer.")\n')
    with FakeEndpoint(lambda _: Say(next(answers)), judged).serving() as endpoint:
        environ = dict(os.environ) | {"OPENAI_BASE_URL": endpoint.base_url}
        run = ["run", "Which?", "--agent", "agent.py", "-n", "4", "--model", "m", "--judge-model", "j", "-q"]
        assert not app.main(run, standalone_mode=False, obj=environ)
    return tmp_path


def in_terminal(nursery: Nursery, folder: Path, *keys: str, options: tuple[str, ...] = ()) -> tuple[int, str]:
    """Run `label`, answer each question with the next of `keys`, and return the exit code and the screen."""
    master, slave = pty.openpty()
    born = nursery.start(["label", *options], folder, terminal=os.ttyname(slave))
    screen, waiting, ends = b"", list(keys), time.monotonic() + 60
    while time.monotonic() < ends:
        if not select.select([master], [], [], 5)[0]:
            # A signal between the prompt and the read is seen only once the read returns: a person presses again.
            if keys[-1] == "\x03" and not waiting:
                os.write(master, b"\x03")
            continue
        try:
            part = os.read(master, 65536)
        except OSError:  # the process has ended
            break
        if not screen:
            os.close(slave)  # the process has it
        screen += part
        if screen.count(b"Enter:") > len(keys) - len(waiting) and waiting:
            os.write(master, waiting.pop(0).encode())
            screen += b"\n"
    os.close(master)
    return nursery.wait(born, 30).code, screen.decode()


def test_what_is_said_is_kept_and_the_screen_tells_nothing_of_the_rollouts(nursery: Nursery, folder_of_a_run: Path):
    code, screen = in_terminal(nursery, folder_of_a_run, "1\n", "what\n", "t\n", "s\n", "q\n")
    assert code == 0, screen
    (labels,) = folder_of_a_run.glob("runs/*/labels.jsonl")
    kept = [json.loads(line) for line in labels.read_text().splitlines()]
    assert (code, [label["label"] for label in kept]) == (0, ["a", "tie"])
    assert f"2 labels kept now in {labels.relative_to(folder_of_a_run)}" in screen
    assert "Number" in screen
    assert "\x1b[2J" not in screen
    assert "\u202e" not in screen
    asked, _, _ = screen.rpartition("2 labels kept")
    assert not SECRETS.findall(asked)


def test_ctrl_c_keeps_all_that_was_said(nursery: Nursery, folder_of_a_run: Path):
    code, screen = in_terminal(nursery, folder_of_a_run, "2\n", "1\n", "\x03")
    assert (code, "interrupted: 2 labels kept now in" in screen) == (130, True)
    (labels,) = folder_of_a_run.glob("runs/*/labels.jsonl")
    assert len(labels.read_text().splitlines()) == 2


def test_so_many_pairs_are_asked_of_the_person_who_is_named_and_then_it_ends(nursery: Nursery, folder_of_a_run: Path):
    for name in ("ann", "bo"):
        code, screen = in_terminal(nursery, folder_of_a_run, "s\n", "1\n", options=("--next", "1", "--as", name))
        assert (code, "1 label kept now in" in screen) == (0, True)
    (labels,) = folder_of_a_run.glob("runs/*/labels.jsonl")
    kept = [json.loads(line) for line in labels.read_text().splitlines()]
    assert [label["by"] for label in kept] == ["ann", "bo"]
    assert sorted(kept[0]["rollouts"]) == sorted(kept[1]["rollouts"])


def test_without_a_terminal_nobody_is_asked(folder_of_a_run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("1\n"))
    with pytest.raises(UsageError, match="run it in a terminal"):
        app.main(["label"], standalone_mode=False, obj=dict(os.environ))
    assert not list(folder_of_a_run.glob("runs/*/labels.jsonl"))
