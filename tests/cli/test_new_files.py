"""`rubric new` and `agents new` copy a packaged file that works as it is, and never write over one of the user's."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli.app import app
from harness.cli.new_files import check_writable
from harness.core.errors import CannotWrite, UsageError
from harness.judging.rubric import packaged_rubrics
from harness.rollouts.examples import EXAMPLES
from harness.rollouts.loading import load_agent

Command = Callable[..., str]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in an empty folder and return what it prints; errors are raised."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> str:
        assert not app.main(words, standalone_mode=False, obj={})
        return capsys.readouterr().out

    return run


@pytest.mark.process  # a rubric that is not the package's is read in a child process
@pytest.mark.parametrize("source", packaged_rubrics())
def test_a_new_rubric_is_a_copy_that_passes_the_check_under_its_own_name(command: Command, source: str):
    assert "mine.md: a copy of" in command("rubric", "new", "mine.md", "--from", source)
    assert "mine.md: ok: mine@1 " in command("rubric", "check", "mine.md")


def test_without_a_source_the_default_rubric_is_copied(command: Command, tmp_path: Path):
    command("rubric", "new", "sub/Mine too.md")  # no name for a rubric, so the copy keeps that of its source
    assert (tmp_path / "sub/Mine too.md").read_text().startswith("---\nname: writing\n")


@pytest.mark.parametrize("source", sorted(EXAMPLES))
def test_a_new_agent_is_a_copy_that_loads_under_its_own_name(command: Command, tmp_path: Path, source: str):
    assert "agents_config/mine.py: a copy of" in command("agents", "new", "mine", "--from", source)
    loaded = load_agent("mine", tmp_path)
    assert (loaded.name, loaded.packaged, bool(loaded.examples)) == ("mine", False, True)
    assert (tmp_path / "agents_config/_notes_server.py").exists() == (source == "mcp_notes")


def test_a_file_that_is_there_stays_unless_force_is_given(command: Command, tmp_path: Path):
    (tmp_path / "agents_config").mkdir()
    mine, companion = tmp_path / "agents_config/mine.py", tmp_path / "agents_config/_notes_server.py"
    for file in (mine, companion, tmp_path / "mine.md"):
        file.write_text("mine")
    for words in (("rubric", "new", "mine.md"), ("agents", "new", "mine", "--from", "mcp_notes")):
        with pytest.raises(UsageError, match="is there already; --force writes over it"):
            command(*words)
        assert (tmp_path / "mine.md").read_text() == mine.read_text() == "mine"
    command("rubric", "new", "mine.md", "--force")
    command("agents", "new", "mine", "--from", "mcp_notes", "--force")
    assert mine.read_text() != "mine"
    assert companion.read_text() == "mine", "--force is about the file that was named"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("rubric new mine.md --from reserch", "did you mean 'research'"),
        ("rubric new research", "name research.md"),
        ("agents new mine --from sarch", "did you mean 'search'"),
        ("agents new ../mine", "a name of letters, digits"),
        ("agents new _mine", "a name of letters, digits"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_line(command: Command, tmp_path: Path, words: str, complaint: str):
    with pytest.raises(UsageError, match=complaint):
        command(*words.split())
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_and_a_run_folder_are_refused(command: Command, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match=r"cannot write file.mine\.md"):
        command("rubric", "new", "file/mine.md")
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UsageError, match="inside of the run folder"):
        command("agents", "new", "mine")


def test_what_can_be_written_is_looked_at_without_a_trace(tmp_path: Path):
    there = tmp_path / "there.md"
    there.write_text("mine")
    check_writable(there, tmp_path / "new.md", None)
    assert (there.read_text(), sorted(path.name for path in tmp_path.iterdir())) == ("mine", ["there.md"])
    for path in (tmp_path, there / "below.md", Path("/proc/x.md")):
        with pytest.raises(CannotWrite, match="cannot write"):
            check_writable(path)
