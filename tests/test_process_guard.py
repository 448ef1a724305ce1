"""Tests that are not marked `process` start no process: a guard refuses processes in every one of them."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.process_guard import PROCESSES, ProcessRefused

STARTS: dict[str, Callable[[], object]] = {
    "subprocess": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
    "asyncio": lambda: asyncio.run(asyncio.create_subprocess_exec(sys.executable, "-c", "")),  # type: ignore[arg-type]
    "fork": os.fork,
    "multiprocessing": lambda: multiprocessing.get_context("fork").Process(target=print).start(),
    "kill": lambda: os.kill(os.getpid(), signal.SIGTERM),
}


@pytest.mark.parametrize("way", STARTS)
def test_an_unmarked_test_can_neither_start_nor_kill_a_process(way: str):
    with pytest.raises(ProcessRefused, match="mark this test"), PROCESSES.refused():
        STARTS[way]()


def test_an_unmarked_test_fails_even_where_its_code_swallows_the_refusal():
    with pytest.raises(ProcessRefused, match="mark this test"), PROCESSES.refused(), suppress(Exception):
        os.fork()


@pytest.mark.process
def test_a_marked_test_can():
    assert subprocess.run([sys.executable, "-c", ""], check=True).returncode == 0


def test_a_test_that_uses_a_fixture_with_processes_is_marked(request: pytest.FixtureRequest):
    for item in request.session.items:
        if "harness" in getattr(item, "fixturenames", ()):
            assert item.get_closest_marker("process"), item.nodeid
