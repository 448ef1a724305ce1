"""README and docs tell the truth: their commands and pages are there, and what they show is what is printed."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, get_args

import click
import pytest

from harness.cli.app import app
from harness.core.records import AgentFailureKind, InfrastructureFailureKind
from tests.conftest import ROOT, Harness

README = (ROOT / "README.md").read_text("utf-8")
PAGES = sorted((ROOT / "docs").rglob("*.md"))
OF_OTHERS = {
    "--enable-auto-tool-choice",
    "--logprobs-mode",
    "--rollout-function-path",
    "--rollout-temperature",
    "--tool-call-parser",
    "--custom-rm-path",
    "--custom-rollout-log-function-path",
    "--group-rm",
    "--reward-key",
}
"""Options of the trainer slime, which docs/trainers.md tells how to set."""
_VARIES = re.compile(r"\d{8}T\d{6}-search-[0-9a-f]{6}|(?:\S*python -m )?\bharness\b|\s+")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def settled(text: str) -> str:
    """Return a text without what differs from run to run: the run's id, the Python called, white space."""
    return _VARIES.sub(" ", text)


def test_the_output_shown_is_what_the_main_job_prints(harness: Harness):
    shown = page("start.md").split("```text\n", 1)[1].split("```", 1)[0]
    done = harness("run", "--agent", "search", env={"COLUMNS": "100"})
    assert settled(shown).split() == settled(done.out).split()


def test_the_two_commands_stand_at_the_top_and_make_their_own_environment():
    first, second = re.findall(r"^python3 -m venv .*$", README, re.MULTILINE)
    assert first.endswith("python -m harness run --agent search")
    assert second.endswith("python -m pytest")
    assert README.index(second) < len(README) / 3


def test_every_file_and_heading_that_a_page_points_to_is_there():
    for page in (ROOT / "README.md", *PAGES):
        for target in re.findall(r"\]\((?!http)([^)]+)\)", page.read_text("utf-8")):
            path, _, anchor = target.partition("#")
            other = page.parent / path if path else page
            assert other.is_file(), (page, target)
            headings = re.findall(r"^#+ (.*)$", other.read_text("utf-8"), re.MULTILINE) if anchor else []
            known = {"", *(re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in headings)}
            assert anchor in known, (page, target)


@pytest.mark.parametrize(
    ("blamed", "kinds"), [("agent", AgentFailureKind), ("infrastructure", InfrastructureFailureKind)]
)
def test_the_page_of_failures_tells_of_every_kind_and_who_is_blamed(blamed: str, kinds: Any):
    rows = re.findall(r"^\| (`.*?) \| .* \| (\w+) \| ", page("when-things-go-wrong.md"), re.MULTILINE)
    named = {kind for names, who in rows if who == blamed for kind in re.findall("`(.*?)`", names)}
    assert named == set(get_args(kinds))


def test_the_docs_are_short():
    assert sum(len(page.read_text("utf-8").split()) for page in PAGES) <= 25_000
    versions = (ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## ")
    assert max(len(version.splitlines()) for version in versions) <= 50


def test_every_source_file_that_a_page_names_is_there():
    pages = " ".join(page.read_text("utf-8") for page in (ROOT / "README.md", *PAGES))
    named = set(re.findall(r"\b((?:[a-z_]+/)+[a-z_]+\.py)\b", pages))
    ours = {"harness", "benchmarks", "tests", *(room.name for room in (ROOT / "harness").iterdir())}
    known = [name for name in named if name.split("/")[0] in ours]
    assert [name for name in known if not any((ROOT / top / name).is_file() for top in ("", "harness"))] == []


def helps_of(command: click.Command) -> Iterator[str]:
    """Yield what `--help` prints of a command and of the commands in it."""
    yield command.get_help(click.Context(command))
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        yield from helps_of(inner)


def test_every_option_that_the_docs_name_exists():
    """It stands in the help of a command, or in the source of a benchmark."""
    helps = "".join([*helps_of(app), *(path.read_text("utf-8") for path in (ROOT / "benchmarks").glob("*.py"))])
    for page in (ROOT / "README.md", *PAGES):
        for option in set(re.findall(r"`(?:[^`]* )?(--[a-z][a-z-]+)", page.read_text("utf-8"))) - OF_OTHERS:
            assert option in helps, (page, option)


@pytest.mark.nightly
@pytest.mark.process
def test_the_figures_of_the_cost_table_are_what_the_benchmark_prints():
    done = subprocess.run(
        [sys.executable, "benchmarks/judge_calls.py", "--most", "8"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    costs = " ".join(page("commands/run.md").split())
    for order in ("both", "single"):
        row = next(line.split() for line in done.stdout.splitlines() if line.split()[:2] == ["8", order])
        assert ", ".join(row[2:5]) in costs
    characters = int(done.stdout.rsplit(maxsplit=2)[-2])
    assert f"{characters:,} characters" in costs
