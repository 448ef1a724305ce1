"""What is written to file descriptor 2 while bars are drawn comes in whole lines, and is lost nowhere."""

import os
import time
from collections.abc import Callable

import pytest

from harness.cli.progress_bars import PrintedLines


def until(condition: Callable[[], object]) -> None:
    """Wait for what another thread does."""
    ends = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_lines_come_whole_a_question_without_an_end_comes_after_a_moment_and_all_is_there_at_the_end():
    lines: list[str] = []
    with PrintedLines().printed_by(lines.append):
        os.write(2, "one\ntwo \u00e9\nhal".encode())
        os.write(2, b"f\n10 %\r90 %\rdone\n\xff\n")
        os.write(2, b"Really? ")
        until(lambda: "Really? " in lines)
        os.write(2, b"the end")
    assert lines == ["one", "two é", "half", "done", "\\xff", "Really? ", "the end"]


def test_a_line_without_an_end_does_not_fill_the_memory():
    lines: list[str] = []
    with PrintedLines().printed_by(lines.append):
        for _ in range(40):
            os.write(2, b"x" * 10_000)
    assert len(lines) > 1
    assert sum(map(len, lines)) == 400_000


def test_who_prints_waits_for_no_terminal_that_has_gone():
    def gone(_: str) -> None:
        raise OSError

    with PrintedLines().printed_by(gone):
        for _ in range(40):
            os.write(2, b"x" * 9_999 + b"\n")


def test_what_a_child_process_writes_after_the_bars_is_said_below_them(capsys: pytest.CaptureFixture[str]):
    lines: list[str] = []
    with PrintedLines().printed_by(lines.append):
        os.write(2, b"before\n")
        held = os.dup(2)
    os.write(held, b"after\x1b[2J\n")
    os.close(held)
    said: list[str] = []
    until(lambda: said.append(capsys.readouterr().err) or "".join(said).endswith("\n"))
    assert (lines, "".join(said)) == (["before"], "after<U+001B>[2J\n")
