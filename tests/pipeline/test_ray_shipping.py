"""What of the folder of an agent's file goes to the workers of a Ray cluster, and what is said where it is too much."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import UsageError
from harness.core.settings_sources import load
from harness.pipeline.run_environment import check_engine

pytest.importorskip("ray")
from harness.pipeline import ray_rollouts
from harness.pipeline.ray_rollouts import MOST_BYTES, shipped_env

FILES = {
    "agent.py": 10,
    "tools/web.py": 20,
    "tools/deep/parse.py": 30,
    "data/words.txt": 40,
    ".env": 50,
    "runs/one/run.json": 60,
    "tools/__pycache__/web.pyc": 70,
    "my env/pyvenv.cfg": 80,
    "my env/lib/huge.py": 90,
    "notes/.gitignore": 5,
    "notes/secret.txt": 100,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name, size in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * size)
    (folder / "notes" / ".gitignore").write_text("*.txt")
    return folder


def sent(folder: Path, tmp_path: Path, *ship: str) -> tuple[Any, list[str]]:
    notes: list[str] = []
    (tmp_path / "copy").mkdir(exist_ok=True)
    return shipped_env(folder / "agent.py", ship, tmp_path / "copy", notes.append), notes


def names_in(folder: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file()}


def test_the_folder_goes_without_keys_runs_and_environments_and_it_is_said_how_much_that_is(
    folder: Path, tmp_path: Path
):
    shipped, notes = sent(folder, tmp_path)
    assert shipped["working_dir"] == str(folder)
    assert {"runs", ".git", ".venv", ".env", r"/my\ env"} <= set(shipped["excludes"])
    assert notes == [f"sending 0.0 MB in 5 files of {folder} to the Ray workers"]


def test_ray_leaves_out_what_is_not_counted(folder: Path, tmp_path: Path):
    packaging: Any = pytest.importorskip("ray._private.runtime_env.packaging")
    shipped, _ = sent(folder, tmp_path)
    packaging.create_package(str(folder), tmp_path / "sent.zip", include_gitignore=True, excludes=shipped["excludes"])
    packaging.unzip_package(str(tmp_path / "sent.zip"), str(tmp_path / "there"), *(False, False))
    whole = {"agent.py", "tools/web.py", "tools/deep/parse.py", "data/words.txt", "notes/.gitignore"}
    assert names_in(str(tmp_path / "there")) == whole


@pytest.mark.parametrize(
    ("ship", "names"),
    [
        (("tools/*.py",), {"tools/web.py"}),
        (("tools/**/*.py", "data/words.txt"), {"tools/web.py", "tools/deep/parse.py", "data/words.txt"}),
        (("tools",), {"tools/web.py", "tools/deep/parse.py"}),
        (("notes/*",), {"notes/secret.txt"}),
        (("*",), {"tools/web.py", "tools/deep/parse.py", "data/words.txt", "my env/pyvenv.cfg", "my env/lib/huge.py"}),
    ],
)
def test_patterns_choose_what_goes_beside_the_agents_file(
    folder: Path, tmp_path: Path, ship: tuple[str, ...], names: set[str]
):
    shipped, _ = sent(folder, tmp_path, *ship)
    assert names_in(shipped["working_dir"]) == names | {"agent.py"}


@pytest.mark.parametrize("pattern", ["nothing*", "../*", "/etc/*", ".env", ""])
def test_a_pattern_that_fits_nothing_there_is_one_error(folder: Path, tmp_path: Path, pattern: str):
    (tmp_path / "outside.txt").write_text("x")
    with pytest.raises(UsageError, match=f"--ship '?{re.escape(pattern)}.* fits nothing in"):
        sent(folder, tmp_path, pattern)


def too_large(folder: Path) -> None:
    with (folder / "data" / "weights.bin").open("wb") as file:
        file.truncate(MOST_BYTES + 1)


def too_many(folder: Path) -> None:
    for number in range(12):
        (folder / "data" / f"{number}.txt").touch()


@pytest.mark.parametrize("fill", [too_large, too_many])
def test_too_much_is_one_error_that_names_the_largest_parts_and_patterns_go_round_it(
    folder: Path, tmp_path: Path, fill: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ray_rollouts, "MOST_FILES", 12)
    fill(folder)
    with pytest.raises(UsageError, match=r"at most 100 MB .* the largest parts: data .* with --ship GLOB"):
        sent(folder, tmp_path)
    shipped, _ = sent(folder, tmp_path, "tools")
    assert "tools/web.py" in names_in(shipped["working_dir"])


def test_patterns_without_ray_do_nothing():
    with pytest.raises(UsageError, match="--ship tools does nothing without --engine ray"):
        check_engine(load({"ship": ["tools"]}))


@pytest.mark.parametrize(
    "fault",
    [
        Exception("The current node timed out during startup."),
        RuntimeError("no raylet"),
        TimeoutError(),
        OSError(2, "no"),
    ],
    ids=repr,
)
def test_ray_that_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch, fault: Exception):
    def init(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr("ray.init", init)
    with (
        pytest.raises(UsageError, match="Ray on this machine gives no cluster: ") as failed,
        ray_rollouts._ray_at(None, {}),
    ):
        raise AssertionError("there is no Ray")
    assert "\n" not in str(failed.value)
