"""What a plain install does, tried in this environment with all hidden that only the extras bring."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.nursery import clean_environment

pytestmark = [pytest.mark.process, pytest.mark.nightly]
"""By day the workflow tries it where no extra is installed."""


def test_without_extras_every_command_helps_preload_loads_and_a_run_needs_no_more(tmp_path: Path):
    command = [sys.executable, "-m", "tests.core_alone", "--hide"]
    done = subprocess.run(
        command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("core alone: all well\n")
