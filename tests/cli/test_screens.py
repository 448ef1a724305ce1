"""What the terminal shows at four widths, in a pipe and without colours, beside what it showed.

After a change on purpose: `python -m tests.cli.test_screens`, and look at what changed in tests/data/screens.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.fuzz.attacks import Room
from tests.fuzz.attempts import attempt
from tests.nursery import ROOT, clean_environment

SCREENS = Path(__file__).resolve().parents[1] / "data" / "screens"
WIDTHS = ("60", "80", "120", "200", "piped")
ARCHIVES = (
    "offline-arena",
    "offline-interrupted",
    "online-arena",
    "online-jury",
    "online-resumed",
    "online-verified",
    "online-asked-again",
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def room_of_runs(top: Path) -> tuple[Room, dict[str, str]]:
    """Lay out runs, oldest first; return the room, and each run's id by the name of its archive."""
    room = Room.make(top)
    ids = {archive: room.add_run(archive).name for archive in ARCHIVES}
    return room, ids


def commands(ids: dict[str, str]) -> list[tuple[str, ...]]:
    return [
        ("ls",),
        ("show", ids["offline-arena"]),
        ("show", ids["online-arena"]),
        ("show", ids["online-arena"], "--all", "--sort", "-tokens"),
        ("show", ids["online-verified"]),
        ("show", ids["online-arena"], "--query", "sort", "--matches"),
        ("show", ids["online-jury"], "--match", "1", "--brief"),
        ("show", ids["online-asked-again"], "--rankings"),
        ("stats", ids["offline-arena"]),
    ]


def screens(top: Path, width: str) -> str:
    """Return what the commands print at a width, each below its command line."""
    room, ids = room_of_runs(top)
    environ = room.environ()
    del environ["COLUMNS"]
    parts: list[str] = []
    for argv in commands(ids):
        piped = width == "piped"
        outcome = attempt(argv, room.work, environ | ({} if piped else {"COLUMNS": width}), piped=piped)
        assert not outcome.faults()
        parts.append(f"$ harness {' '.join(argv)}\n{outcome.out_text}")
    return "\n".join(parts)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_screens_are_those_that_were_looked_at(width: str, tmp_path: Path):
    shown = screens(tmp_path / "room", width)
    assert shown == (SCREENS / f"{width}.txt").read_text("utf-8")


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_of_a_screen_is_wider_than_the_terminal_and_nothing_is_left_out_in_a_pipe(width: str):
    lines = (SCREENS / f"{width}.txt").read_text("utf-8").splitlines()
    shown = [
        line for line in lines if not line.startswith(("$ ", "run: ", "page: "))
    ]  # a path is one word, to be copied
    if width == "piped":
        assert not any("--wide shows more" in line for line in lines)
    else:
        assert [line for line in shown if cell_len(line) > int(width)] == []


@pytest.mark.few(2)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_run_ends_with_what_show_shows_of_it(width: str, tmp_path: Path):
    room = Room.make(tmp_path / "room")
    environ = room.environ({"COLUMNS": width} if width != "piped" else {})
    if width == "piped":
        del environ["COLUMNS"]
    (room.work / "q.txt").write_text("Why?\nHow?\nWhere?\nWhen?\n")
    run, show = (
        attempt(argv, room.work, environ, piped=width == "piped").out_text
        for argv in (("run", "--offline", "-n", "2", "-q", "--queries", "q.txt"), ("show",))
    )
    assert run.startswith(show)
    assert run.removeprefix(show).split()[0] == "next:"
    if width != "piped":
        wide = [line for line in show.splitlines() if cell_len(line) > int(width)]
        assert all(line.startswith(("run: ", "page: ")) for line in wide)


def written_on_a_terminal(width: int, start: Callable[[int], Callable[[], object]]) -> str:
    """Return what a command writes on a terminal of its own, that is `width` characters wide.

    `start` starts it there, on a file descriptor, and returns what waits for its end.
    """
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    wait = start(child)
    written = os.read(parent, 65536)  # so the command has opened the terminal
    os.close(child)
    with suppress(OSError):  # the other side is closed
        while part := os.read(parent, 65536):
            written += part
    wait()
    os.close(parent)
    return written.decode().replace("\r\n", "\n")


def on_a_terminal(argv: tuple[str, ...], cwd: Path, environ: dict[str, str], width: int) -> str:
    """Run a command in a new interpreter, on a terminal of its own; return what it wrote there."""
    begin = "import sys; sys.argv[0] = 'harness'; from harness.cli.app import main; main()"

    def start(child: int) -> Callable[[], object]:
        words = [sys.executable, "-c", begin, *argv]
        return subprocess.Popen(words, cwd=cwd, env=environ, stdin=child, stdout=child, stderr=child).wait

    return written_on_a_terminal(width, start)


@pytest.mark.process
@pytest.mark.parametrize("no_colour", [False, True])
def test_a_real_terminal_shows_the_same_and_no_colour_where_none_is_wanted(no_colour: bool, tmp_path: Path):
    room, ids = room_of_runs(tmp_path / "room")
    argv = ("show", ids["offline-arena"])
    environ = clean_environment() | room.environ({"TERM": "xterm-256color", "PYTHONPATH": str(ROOT)})
    del environ["COLUMNS"]
    written = on_a_terminal(argv, room.work, environ | ({"NO_COLOR": "1"} if no_colour else {}), 80)
    stored = (SCREENS / "80.txt").read_text("utf-8").split(f"$ harness {' '.join(argv)}\n")[1].split("\n$ ")[0]
    assert COLOUR.sub("", written) == stored
    assert ("\x1b" not in written) is no_colour


def main() -> None:
    SCREENS.mkdir(exist_ok=True)
    for width in WIDTHS:
        with tempfile.TemporaryDirectory() as folder:
            (SCREENS / f"{width}.txt").write_text(screens(Path(folder) / "room", width), "utf-8")


if __name__ == "__main__":
    main()
