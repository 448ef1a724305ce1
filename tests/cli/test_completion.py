"""A shell completes commands, options, agents and runs once it has been told to ask."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from harness.cli.app import app
from harness.cli.completion import SHELLS
from harness.core.errors import CannotWrite
from tests.fuzz.attacks import Room
from tests.nursery import clean_environment


def completed(line: str) -> list[str]:
    """Return what the last word of a line may become, without the commands' own order of things."""
    *words, begun = line.split(" ")
    shell = ShellComplete(app, {"obj": {}}, "harness", "_HARNESS_COMPLETE")
    return [f"<{item.type}>" if item.type != "plain" else item.value for item in shell.get_completions(words, begun)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents_config").mkdir()
    (tmp_path / "agents_config/poet.py").write_text("raise SystemExit('an agent is not loaded to be listed')")
    for parent in ("runs", "elsewhere"):
        for name in ("20260101T000000-a", "20260102T000000-b", "20260103T000000-\x1b[31m"):
            (tmp_path / parent / name).mkdir(parents=True)
            (tmp_path / parent / name / "run.json").write_text("no JSON")
    (tmp_path / "runs/20260104T000000-no-run").mkdir()
    (tmp_path / "runs/20260105T000000-improve-c").mkdir()
    (tmp_path / "runs/20260105T000000-improve-c/improve.json").write_text("no JSON")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("re", ["resume", "report", "rescore", "replay"]),
        ("agents n", ["new"]),
        ("rubric ", ["show", "check", "new"]),
        ("run --topo", ["--topology"]),
        ("run --topology s", ["single", "swiss"]),
        ("run --agent p", ["poet"]),
        ("best -a sea", ["search"]),
        ("run --agent ./p", ["<file>"]),
        ("show 2026", ["20260105T000000-improve-c", "20260102T000000-b", "20260101T000000-a"]),
        ("show ", ["last", "20260105T000000-improve-c", "20260102T000000-b", "20260101T000000-a"]),
        ("rescore last --reuse 20260102", ["20260102T000000-b"]),
        ("resume 20260101", ["20260101T000000-a"]),
        ("show --runs-dir elsewhere 20260101", ["20260101T000000-a"]),
        ("show ./ru", ["<dir>"]),
        ("compare 20260101", ["20260101T000000-a"]),
        ("compare last p", ["poet"]),
        ("compare poet --instructions ./m", ["<file>"]),
        ("run --rubric re", ["research"]),
        ("rescore --rubric ./m", ["<file>"]),
        ("show --sort to", ["tokens"]),
        ("show nowhere --query l", []),
    ],
)
def test_words_are_completed_by_what_there_is(line: str, words: list[str]):
    assert completed(line) == words


def test_a_query_is_completed_by_those_of_the_run_that_the_command_is_about(tmp_path: Path):
    folder = Room.make(tmp_path / "room").add_run("online-arena")
    assert completed(f"show --runs-dir {folder.parent} --query l") == ["lend"]
    assert completed(f"replay {folder} --query l") == ["lend"]


def test_without_a_folder_of_runs_there_is_only_the_last(folder: Path):
    assert completed("show --runs-dir nowhere l") == ["last"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_is_told_once_where_to_ask(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]):
    home = folder / "it's home"
    home.mkdir()
    start = home / {"bash": ".bashrc", "zsh": ".zshrc", "fish": ".none"}[shell]
    if shell != "fish":
        start.write_text("alias l=ls")
    for _ in range(2):
        assert not app.main(["--install-completion", shell], standalone_mode=False, obj={"HOME": str(home)})
    (script,) = (
        (path for path in home.rglob("*harness*/*") if path.is_file()) if shell != "fish" else home.rglob("*.fish")
    )
    assert "_HARNESS_COMPLETE" in script.read_text()
    if shell != "fish":
        first, added = start.read_text().splitlines()
        assert first == "alias l=ls"
        assert added.endswith("# completion of arena-harness")
    assert "already" in capsys.readouterr().out or shell == "fish"


def test_a_start_file_that_cannot_be_written_is_said_in_one_line(folder: Path):
    (folder / ".bashrc").mkdir()
    with pytest.raises(CannotWrite, match=r"cannot add to .*\.bashrc"):
        app.main(["--install-completion", "bash"], standalone_mode=False, obj={"HOME": str(folder)})
    with pytest.raises(click.BadParameter, match="'tcsh' is not one of"):
        app.main(["--install-completion", "tcsh"], standalone_mode=False, obj={"HOME": str(folder)})


@pytest.mark.nightly
@pytest.mark.process
def test_bash_itself_completes_by_the_installed_file(folder: Path):
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    (bin_folder / "harness").write_text(
        f"#!{sys.executable}\nimport sys; sys.argv[0] = 'harness'\nfrom harness.cli.app import main\nmain()\n"
    )
    (bin_folder / "harness").chmod(0o755)
    environ = clean_environment() | {"HOME": str(folder), "PATH": f"{bin_folder}:/usr/bin:/bin"}
    environ |= {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    typed = (
        "harness --install-completion bash && . ~/.bashrc && COMP_WORDS=(harness run --agent po) COMP_CWORD=3 && "
        "_harness_completion harness && echo completed: ${COMPREPLY[@]}"
    )
    done = subprocess.run(
        ["/bin/bash", "-c", typed], env=environ, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert "completed: poet" in done.stdout, done.stderr
