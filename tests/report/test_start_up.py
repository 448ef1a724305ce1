"""Commands that draw no page do not load what draws one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.nursery import clean_environment
from tests.report.archives_by_hand import build, crowd

pytestmark = pytest.mark.process


@pytest.mark.few(2)
@pytest.mark.parametrize(("command", "draws"), [("show", False), ("ls", False), ("stats", False), ("report", True)])
def test_jinja2_is_loaded_only_to_draw_a_page(command: str, draws: bool, tmp_path: Path) -> None:
    build(tmp_path, crowd(2))
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "harness", command, "--runs-dir", str(tmp_path)],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert ("jinja2" in done.stderr) is draws
