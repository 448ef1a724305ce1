"""Commands whose working folder is a run folder from a stranger: none of the files there is taken for a module."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.archive.making import a_run
from tests.conftest import ROOT

pytestmark = pytest.mark.process

EVIL = "import os\nos.close(os.open({mark!r}, os.O_CREAT))\nraise SystemExit(99)\n"
STAND_INS = (
    "yaml",
    "typing",
    "pathlib",
    "click",
    "json",
    "pydantic",
    "agents",
    "openai",
    "numpy",
    "rich",
)
"""Modules that a command imports; what Python loads before the harness runs is beyond our reach."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with a_run(tmp_path / "runs") as store:
        folder = store.folder
    for name in STAND_INS:
        (folder / f"{name}.py").write_text(EVIL.format(mark=str(tmp_path / name)))
    (folder / "agents_config").mkdir()
    (folder / "agents_config" / "search.py").write_text(EVIL.format(mark=str(tmp_path / "agent")))
    (folder / "evil-1.dist-info").mkdir()
    (folder / "evil-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    (folder / "evil-1.dist-info" / "entry_points.txt").write_text("[harness.agents]\nevil = yaml:agent\n")
    return folder


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("--help", 0),
        ("agents", 0),
        ("show .", 2),
        ("replay .", 2),
        ("resume .", 0),
        ("doctor --ports=", 0),
        ("run Why --agent evil -n 2 --offline", 2),
        ("run Why -n 2 --offline --runs-dir ../elsewhere", 0),
    ],
)
def test_a_command_imports_nothing_from_a_run_folder_that_is_its_working_folder(run: Path, line: str, code: int):
    before = {path.name for path in run.parent.parent.iterdir()}
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-m", "harness", *line.split()],
        cwd=run,
        env=environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert {path.name for path in run.parent.parent.iterdir()} == before
