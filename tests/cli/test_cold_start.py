"""Each command once in a fresh process, with its own imports: the other tests start from one that has them all."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.nursery import clean_environment

pytestmark = pytest.mark.process

COMMANDS = (
    "run --offline -n 2 -q",
    "resume",
    "show",
    "show --matches",
    "ls",
    "stats",
    "validate",
    "replay",
    "report",
    "rescore --estimator bt",
    "schema query",
    "agents",
    "rubric show",
    "doctor",
    "best --offline -n 2",
)


def test_every_command_starts_by_itself(tmp_path: Path) -> None:
    for command in COMMANDS:
        done = subprocess.run(
            [sys.executable, "-m", "harness", *command.split()],
            cwd=tmp_path,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout.strip(), command
