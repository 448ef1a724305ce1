"""Each command once in a fresh process, with its own imports: the other tests start from one that has them all."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.attempts import attempt
from tests.nursery import clean_environment

pytestmark = pytest.mark.process

COMMANDS = (
    "run --offline -n 2 -q",
    "resume",
    "show",
    "show --matches",
    "ls",
    "stats",
    "plan",
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


@pytest.fixture(scope="module")
def folder_of_a_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cold")
    assert attempt("run --offline -n 2 -q".split(), folder, clean_environment()).code == 0
    (folder / "table.json").write_text('{"n": 2, "scores": {"0,1": [3, 5], "1,0": [6, 2]}}', encoding="utf-8")
    return folder


@pytest.mark.nightly
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_starts_by_itself(command: str, folder_of_a_run: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness", *command.split()],
        cwd=folder_of_a_run,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


ALWAYS_HEAVY = "numpy scipy openai agents anyio asyncio httpx2 stamina genai_prices"
"""sqlite3, which the index of a run is in, loads in a few milliseconds, and for commands that read a run."""
WITHOUT = {
    "--help": f"{ALWAYS_HEAVY} sqlite3 pydantic rich yaml jinja2",
    "ls": f"{ALWAYS_HEAVY} yaml jinja2",
    "show": f"{ALWAYS_HEAVY} yaml jinja2 harness.report.json harness.report.summary.labels",
    "show --match 1": f"{ALWAYS_HEAVY} yaml jinja2",
    "why": f"{ALWAYS_HEAVY.removeprefix('numpy ')} yaml jinja2 harness.pipeline",  # two that met; a fit needs numpy
    # what the verdicts teach of a judge is fitted
    "stats": f"{ALWAYS_HEAVY.replace('numpy', '')} yaml jinja2 harness.evidence",
    "judges --help": f"{ALWAYS_HEAVY} sqlite3 yaml jinja2",
    # only --engine ray loads Ray; only comparisons load scipy; only a rubric with evidence looks claims up
    "run --offline -n 2 -q": "ray scipy harness.evidence",
    "schema": f"{ALWAYS_HEAVY} yaml jinja2 rich",
    "rubric show": f"{ALWAYS_HEAVY} sqlite3",  # a rubric is YAML, and a template
    "rank table.json": "scipy jinja2",
    "rubric check research": f"{ALWAYS_HEAVY} sqlite3",
    "agents": "numpy scipy jinja2 yaml genai_prices",  # it loads agents, so the SDK with all that the SDK loads
}
"""The first, fifth and ninth are tried by day."""


@pytest.mark.few(3)
@pytest.mark.parametrize(("command", "modules"), WITHOUT.items())
def test_a_command_loads_nothing_heavy_that_it_does_not_need(command: str, modules: str, folder_of_a_run: Path) -> None:
    watching = (
        "import atexit, sys; from harness.cli.app import main; "
        f"atexit.register(lambda: print(*({set(modules.split())} & sys.modules.keys()), file=sys.stderr)); main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", watching, *command.split()],
        cwd=folder_of_a_run,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.strip()
    assert done.stderr.strip() == ""


def test_help_loads_neither_pydantic_nor_the_sdk(tmp_path: Path) -> None:
    for command in ("--help", "run --help", "rescore --help"):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "harness", *command.split()],
            cwd=tmp_path,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
        assert "click" in loaded
        assert not loaded & {"pydantic", "pydantic_core", "agents", "openai", "numpy", "rich", "yaml"}
