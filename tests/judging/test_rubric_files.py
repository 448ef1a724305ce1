"""Rubric files: what is read of them, and in what process."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.judging.rubric import load_rubric
from tests.judging.test_rubric import a_text

pytestmark = pytest.mark.process


def a_file(folder: Path, body: str = "Mark them.") -> Path:
    path = folder / "own.md"
    path.write_text(a_text(body=body), "utf-8")
    return path


def test_a_rubric_of_the_user_s_own_loads_from_its_path(tmp_path: Path) -> None:
    rubric = load_rubric(str(a_file(tmp_path)))
    assert (rubric.name, rubric.version, rubric.body) == ("own", 2, "Mark them.")
    assert rubric.label == f"own@2 {rubric.fingerprint[:12]}"


@pytest.mark.parametrize("edit", [lambda t: t.replace("\n", "\r\n"), lambda t: "\ufeff" + t])
def test_a_rubric_written_on_windows_loads(tmp_path: Path, edit: Callable[[str], str]) -> None:
    path = a_file(tmp_path)
    path.write_bytes(edit(path.read_text("utf-8")).encode())
    assert load_rubric(str(path)).name == "own"


@pytest.mark.parametrize(
    "edit",
    [lambda t: t.replace("deep.", "deep!"), lambda t: t.replace("Mark them.", "Mark  them."), lambda t: t + "\n"],
)
def test_any_change_to_the_file_changes_the_fingerprint(tmp_path: Path, edit: Callable[[str], str]) -> None:
    path = a_file(tmp_path)
    before = load_rubric(str(path)).fingerprint
    path.write_text(edit(path.read_text()))
    assert load_rubric(str(path)).fingerprint != before


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "front matter"),
        (b"Mark them.", "front matter"),
        (b"---\nname: own\n", "front matter"),
        (b"text before\n---\nname: own\n---\n", "front matter"),
        (b"---\n- a\n- b\n---\n", "`key: value` lines"),
        (b"---\n---\nMark them.", "`key: value` lines"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_a_file_that_is_no_rubric_is_a_usage_error_with_its_name(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "own.md"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=fault) as caught:
        load_rubric(str(path))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["nowhere/own.md", ".", ""])
def test_a_rubric_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_rubric(str(tmp_path / name) if name == "nowhere/own.md" else name)
