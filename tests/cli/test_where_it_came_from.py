"""What is wrong is said of what the user wrote: a variable, a line of a file, an option of this very command."""

import io
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

import pytest

from harness.cli.app import app
from harness.core.errors import Refused, UsageError
from harness.core.settings import TopologyName

Command = Callable[..., str]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Run a command in an empty folder and return what it prints on stdout; errors are raised."""
    monkeypatch.chdir(tmp_path)

    def run(line: str, **environ: str) -> str:
        app.main(line.split(), standalone_mode=False, obj=environ)
        return capfd.readouterr().out

    return run


@pytest.mark.parametrize(
    ("line", "environ", "complaint"),
    [
        ("run", {"HARNESS_N": "0"}, r"^HARNESS_N '0': .*`harness run --help`"),
        ("ls", {"HARNESS_TEMPERATURE": "hot"}, r"^HARNESS_TEMPERATURE 'hot': .*`harness run --help`"),
        ("run --config c.yaml", {}, r"^--config c\.yaml: temperature 9: "),
        ("run --config c.yaml", {"HARNESS_TEMPERATURE": "8"}, r"^HARNESS_TEMPERATURE '8': "),
        ("run --config c.yaml --temperature 3", {"HARNESS_TEMPERATURE": "8"}, r"^--temperature 3"),
        ("run --estimator foo", {}, r"^--estimator 'foo': .*`harness run --help`"),
        ("rescore {run} --estimator foo", {}, r"^--estimator 'foo': .*`harness rescore --help`"),
        ("best --n 0", {}, r"^-n 0: .*`harness best --help`"),
        ("rank table.json --topology none", {}, "none"),
        ("rubric check nofile.md", {}, r"^nofile\.md: cannot be read"),
    ],
)
def test_a_bad_value_is_blamed_on_what_holds_it(
    command: Command, tmp_path: Path, line: str, environ: Mapping[str, str], complaint: str
):
    (tmp_path / "c.yaml").write_text("temperature: 9\n")
    (tmp_path / "table.json").write_text('{"n": 2, "scores": {"0,1": [5, 4]}}')
    if "{run}" in line:
        command("run --offline -n 2 -q")
    with pytest.raises(UsageError, match=complaint):
        command(line.format(run="last"), **environ)


def test_a_bad_value_that_another_source_overrides_stands_in_nobodys_way(command: Command, tmp_path: Path):
    (tmp_path / "c.yaml").write_text("n: 0\ntemperature: 9\n")
    command("run --config c.yaml -n 2 --offline --dry-run", HARNESS_TEMPERATURE="1", HARNESS_N="none")


def test_rank_offers_what_it_can_rank_by(command: Command):
    ranks = [name for name in get_args(TopologyName) if name != "none"]
    assert f"[{'|'.join(ranks)}]" in command("rank --help")


def test_resume_without_any_run_says_so(command: Command):
    assert command("resume") == "nothing to do: there is no run in runs/ yet\n"
    command("run --offline -n 2 -q")
    assert command("resume") == "nothing to do: every run is finished\n"


def test_a_run_that_is_refused_leaves_no_folder_behind(command: Command, tmp_path: Path):
    with pytest.raises(Refused):
        command("run hello --base-url http://127.0.0.1:9/v1 --model m -n 2 -q --retries 0")
    assert not list(tmp_path.iterdir())
    (tmp_path / "runs").mkdir()
    with pytest.raises(Refused):
        command("run hello --base-url http://127.0.0.1:9/v1 --model m -n 2 -q --retries 0")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"], "a folder of the user's own stays"


def test_a_query_of_one_dash_is_read_from_standard_input(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\nWhy is\nthe sky blue?\n")))
    shown = json.loads(command("run - --offline -n 2 -q --json"))
    assert shown["groups"][0]["query"] == "Why is\nthe sky blue?"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    with pytest.raises(UsageError, match="the query is empty"):
        command("run - --offline -n 2 -q")


def test_doctor_advises_nothing_for_an_agent_that_is_not_there(command: Command):
    checks = {check["name"]: check for check in json.loads(command("doctor --agent nope --ports , --json"))}
    assert checks["agent"]["status"] == "fail"
    assert checks["run"]["do"] is None
    real = {check["name"]: check for check in json.loads(command("doctor --offline --ports , --json"))}
    assert "SELF-TEST (by --offline)" in real["run"]["found"]


def test_what_an_agents_file_prints_is_not_in_doctors_json(command: Command, tmp_path: Path):
    (tmp_path / "loud.py").write_text("import os; os.write(1, b'loud'); print('loud')\nagent = 1\n")
    assert json.loads(command("doctor --agent loud.py --ports , --json"))
