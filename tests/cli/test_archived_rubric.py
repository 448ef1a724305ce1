"""A run is judged again by the rubric's text that it holds; a rubric's file that a run names is never read."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Done, Harness
from tests.judging.test_rubric import a_text

OWN = a_text(body="Mark by {{ name }}.")
LABEL = f"own@2 {hashlib.sha256(OWN.encode()).hexdigest()[:12]}"
RULES = ("run", "--offline", "-n", "2", "--json", "Why is the sky blue?")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.md"
    path.write_text(OWN)
    return path


@pytest.fixture
def made(harness_once: Harness, own: Path) -> Path:
    """A run by a rubric of the user's own, whose file is gone."""
    done = harness_once(*RULES, "--rubric", "own.md")
    assert done.code == 0, done.err
    own.unlink()
    return own.parent / done.json["path"]


def edit(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    info = json.loads((run / "run.json").read_text())
    change(info)
    (run / "run.json").write_text(json.dumps(info))


def without_text(run: Path, rubric: str) -> None:
    """Take the text of its rubric out of a run, as redaction does, and let the run name a file."""
    edit(run, lambda info: (info.update(rubric_text=None), info["settings"].update(rubric=rubric)))
    shutil.rmtree(run / "rankings")


def refusal(done: Done) -> str:
    assert (done.code, done.out) == (2, "")
    assert "Traceback" not in done.err
    (line,) = (line for line in done.err.splitlines() if line.startswith("error: "))
    return line


def test_a_run_holds_its_rubric_and_needs_the_file_no_more(harness: Harness, made: Path):
    assert json.loads((made / "run.json").read_text())["rubric_text"] == OWN
    again = harness("rescore", "--json", "--order", "single")
    assert again.code == 0, again.err
    assert again.json["rubric"] == LABEL
    shutil.rmtree(made / "rankings")
    assert harness("resume").code == 0
    assert harness("show", "--json").json["rubric"] == LABEL
    assert harness("validate").code == 0
    assert "rubric_text" not in harness("ls", "--json").json[0]


def test_a_run_by_a_text_in_plain_words_holds_the_text(harness: Harness, own: Path):
    own.write_text("Kindness counts.\n")
    done = harness(*RULES, "--rubric", "own.md", "--judge", "ruler")
    assert done.code == 0, done.err
    own.unlink()
    again = harness("rescore", "--json")
    assert again.code == 0, again.err
    assert (again.json["rubric"], again.json["groups"][0]["reused"]) == (done.json["rubric"], 1)


@pytest.mark.few(1)
@pytest.mark.parametrize("where", ["in the run", "beside it", "fifo"])
def test_a_rubric_s_file_that_a_run_names_is_not_read(harness: Harness, made: Path, where: str):
    file = made / "evil.md" if where != "beside it" else made.parent / "evil.md"
    if where == "fifo":
        os.mkfifo(file)
    else:
        file.write_text(OWN)
    without_text(made, str(file.relative_to(made.parents[1])))
    for line in ("rescore --free --dry-run", "rescore --free", "rescore", "resume"):
        told = refusal(harness(*line.split()))
        assert "does not hold the text of its rubric" in told, line
        assert "--rubric" in told, line
        assert "evil" not in told, line


def test_a_run_without_the_text_goes_on_with_the_file_that_the_user_names(harness: Harness, made: Path, own: Path):
    without_text(made, "own.md")
    own.write_text(OWN.replace("deep", "far"))
    assert f"no longer {LABEL}, but own@2 " in refusal(harness("resume", "--rubric", "own.md"))
    own.write_text(OWN)
    done = harness("resume", "--rubric", "own.md", "--json")
    assert done.code == 0, done.err
    assert done.json["rubric"] == LABEL
    again = harness("rescore", "--rubric", "own.md", "--json")
    assert (again.json["groups"][0]["judged"], again.json["rubric"]) == (0, LABEL)


def test_a_text_that_is_not_the_one_of_the_label_is_damage(harness: Harness, made: Path):
    edit(made, lambda info: info.update(rubric_text=OWN.replace("deep", "far")))
    for line in ("rescore --free", "show", "validate", "resume last"):
        done = harness(*line.split())
        assert done.code == 5, line
        assert "run.json: " in done.err + done.out
        assert "rubric_text is not the text" in done.err + done.out
        assert "Traceback" not in done.err


def test_a_hostile_text_in_a_run_runs_nothing_and_is_refused_by_line(harness: Harness, made: Path, tmp_path: Path):
    payload = f"cposix\\nsystem\\n(S'touch {tmp_path / 'marker'}'\\ntR."
    text = a_text(body=f'Mark.\n{{{{ dimensions[0].parse_raw("{payload}", proto="pickle") }}}}')
    label = f"own@2 {hashlib.sha256(text.encode()).hexdigest()[:12]}"
    edit(made, lambda info: info.update(rubric_text=text, rubric=label))
    told = refusal(harness("rescore", "--free", "--dry-run"))
    assert f"the rubric in run {made.name}:11: the body uses a call, which a rubric may not" in told
    assert not (tmp_path / "marker").exists()


def test_a_text_that_redaction_would_change_is_not_kept_and_its_file_is_named_again(harness: Harness, own: Path):
    done = harness(*RULES, "--rubric", "own.md", "--redact", "It goes \\w+")
    assert done.code == 0, done.err
    run = own.parent / done.json["path"]
    assert not any(b"goes deep" in file.read_bytes() for file in run.rglob("*") if file.is_file())
    assert "does not hold" in refusal(harness("rescore"))
    assert harness("rescore", "--rubric", "own.md").code == 0


def test_another_way_of_judging_takes_the_package_s_own_rubric(harness: Harness, own: Path):
    assert harness(*RULES).code == 0
    listed = harness("rescore", "--judge", "ruler", "--json")
    assert listed.code == 0, listed.err
    assert listed.json["rubric"].startswith("ruler ")
