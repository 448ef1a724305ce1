"""What an agent's file says of its rubric, and --instructions: both are kept in the run, and hold when it goes on."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.archive.reader import RunReader
from harness.cli.app import app
from harness.core.errors import UsageError

AGENT = """\
from agents import Agent
EXAMPLES = ["Tell me about Lisp."]
{rubric}
agent = Agent(name="mine", instructions="You sum up.")
"""
Command = Callable[[str], str]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in the folder of an agent `mine`, and return what it prints; errors are raised."""
    monkeypatch.chdir(tmp_path)
    agent_file(tmp_path, "")

    def run(line: str) -> str:
        app.main(line.split(), standalone_mode=False, obj=dict(os.environ))
        return capsys.readouterr().out

    return run


def agent_file(folder: Path, rubric: str) -> None:
    (folder / "agents_config").mkdir(exist_ok=True)
    (folder / "agents_config/mine.py").write_text(AGENT.format(rubric=rubric))


def run_json(folder: Path) -> dict[str, Any]:
    return json.loads(max((folder / "runs").glob("*/run.json"), key=lambda path: path.stat().st_mtime_ns).read_text())


def test_a_run_is_judged_by_the_rubric_of_the_agents_file_unless_its_user_names_one(command: Command, tmp_path: Path):
    agent_file(tmp_path, 'RUBRIC = "research"')
    command("run --agent mine --offline -n 2 -q")
    info = run_json(tmp_path)
    assert (info["settings"]["rubric"], info["rubric"].split("@")[0]) == ("research", "research")
    agent_file(tmp_path, 'RUBRIC = "task"')
    command("rescore last -q")
    with RunReader(next((tmp_path / "runs").iterdir())) as reader:
        assert [head.rubric for head in reader.heads()] == [info["rubric"]] * 2, "rescore keeps the run's own"
    command("run --agent mine --offline -n 2 -q --rubric writing")
    assert run_json(tmp_path)["settings"]["rubric"] == "writing"
    command("run --agent mine --offline -n 2 -q --judge ruler --dry-run")  # which goes by other rubrics


@pytest.mark.parametrize("agent", ["mine", "search"])
def test_an_agent_without_a_rubric_is_judged_by_writing(command: Command, tmp_path: Path, agent: str):
    command(f"run --agent {agent} --offline -n 2 -q")
    assert run_json(tmp_path)["settings"]["rubric"] == "writing"


@pytest.mark.process  # a rubric that is not the package's is read in a child process
def test_an_agents_file_may_name_a_rubric_beside_it(command: Command, tmp_path: Path):
    command("rubric new agents_config/own.md")
    agent_file(tmp_path, 'RUBRIC = "own.md"')
    command("run --agent mine --offline -n 2 -q")
    info = run_json(tmp_path)
    assert (info["settings"]["rubric"], info["rubric"].split("@")[0]) == ("agents_config/own.md", "own")
    (tmp_path / "agents_config/own.md").unlink()
    command("rescore last -q")
    with pytest.raises(UsageError, match=r"^RUBRIC in .*mine\.py: agents_config/own\.md: cannot be read"):
        command("run --agent mine --offline -n 2 -q")


@pytest.mark.parametrize(
    ("rubric", "complaint"),
    [
        ("RUBRIC = 3", "RUBRIC must be the name of a rubric"),
        ("RUBRIC = ''", "RUBRIC must be the name of a rubric"),
        ("RUBRIC = 'reserch'", r"^RUBRIC in .*mine\.py: no rubric 'reserch'; did you mean 'research'"),
    ],
)
def test_a_rubric_that_cannot_be_is_refused_by_the_agents_file(
    command: Command, tmp_path: Path, rubric: str, complaint: str
):
    agent_file(tmp_path, rubric)
    with pytest.raises(UsageError, match=complaint):
        command("run --agent mine --offline -n 2 -q")


def without_its_last_rollout(folder: Path) -> None:
    segment = max((folder / "rollouts").glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join(lines[:-1]))
    for ranking in (folder / "rankings").glob("*.jsonl"):
        ranking.unlink()


def instructions_of(folder: Path) -> list[str | None]:
    with RunReader(folder) as reader:
        return [rollout.instructions for query in reader.queries() for rollout in reader.group(query).rollouts]


def test_instructions_of_a_file_are_kept_in_the_run_and_hold_when_it_goes_on(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    instructions, told = tmp_path / "told.txt", "You write verse.\n"
    instructions.write_text(told)
    command("run --agent mine --offline -n 2 -q --instructions told.txt")
    (folder,) = (tmp_path / "runs").iterdir()
    assert run_json(tmp_path)["instructions"] == told
    assert instructions_of(folder) == [told, told]
    instructions.unlink()
    assert "all identical" in command("replay last")
    without_its_last_rollout(folder)
    command("resume -q")
    assert instructions_of(folder) == [told, told]
    without_its_last_rollout(folder)
    instructions.write_text("You write plays.\n")
    with pytest.raises(UsageError, match="the agent is no longer the one of run"):
        command("resume -q --instructions told.txt")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user's"))
    with pytest.raises(UsageError, match=r"gives its agent other instructions \(--instructions\)"):
        command("resume -q")
    instructions.write_text(told)
    command("resume -q --instructions told.txt")
    assert instructions_of(folder) == [told, told]


def test_instructions_that_a_run_may_not_keep_have_to_be_named_again(command: Command, tmp_path: Path):
    (tmp_path / "told.txt").write_text("You serve Ms Aydin.")
    command("run --agent mine --offline -n 2 -q --instructions told.txt --redact Aydin")
    assert run_json(tmp_path)["instructions"] is None
    (folder,) = (tmp_path / "runs").iterdir()
    without_its_last_rollout(folder)
    with pytest.raises(UsageError, match=r"name the file with `harness resume .* --instructions FILE`"):
        command("resume -q")
    command("resume -q --instructions told.txt")
    assert len(instructions_of(folder)) == 2


@pytest.mark.parametrize(
    ("content", "complaint"), [(b" \n", "it is empty"), (b"\xff\xfe\xff", "UTF-"), (None, "cannot be read")]
)
def test_instructions_that_are_no_text_are_refused(
    command: Command, tmp_path: Path, content: bytes | None, complaint: str
):
    if content is not None:
        (tmp_path / "told.txt").write_bytes(content)
    with pytest.raises(UsageError, match=rf"--instructions told\.txt.*{complaint}"):
        command("run --agent mine --offline -n 2 -q --instructions told.txt")
    assert not (tmp_path / "runs").exists()
