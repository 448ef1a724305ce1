"""`harness replay`, as a user runs it."""

import json
from pathlib import Path

from tests.conftest import ROOT, Harness


def test_a_run_is_identical_and_a_changed_agent_is_shown_with_a_diff(harness: Harness, tmp_path: Path):
    assert harness("run", "--agent", "search", "-n", "2").code == 0
    done = harness("replay")
    assert (done.code, done.out.count("identical")) == (0, 3), done.err
    text = (ROOT / "agents_config" / "search.py").read_text("utf-8")
    (tmp_path / "mine.py").write_text(text.replace("under 300 words", "under 50 words"))
    changed = harness("replay", "last", "--rollout", "1", "--agent", "mine.py")
    assert changed.code == 1
    assert "rollout 1: prompt changed at model call 1 of" in changed.out
    assert "under 50 words" in changed.out
    assert "rollout 0" not in changed.out
    told = json.loads(harness("replay", "--agent", "mine.py", "--json").out)
    assert told["identical"] is False
    assert [r["divergence"]["what"] for r in told["rollouts"]] == ["prompt changed"] * 2


def test_its_help_begins_by_naming_rescore(harness: Harness):
    said = " ".join(harness("replay", "--help").out.split())
    assert "To judge a run again use rescore." in said


def test_the_file_that_made_a_run_here_is_found_again_from_any_folder_and_asked_for_once_it_is_gone(
    harness: Harness, tmp_path: Path
):
    """Not an agent that happens to have the name of the file."""
    (tmp_path / "triage.py").write_text((ROOT / "agents_config" / "search.py").read_text("utf-8"))
    assert harness("run", "--agent", "triage.py", "-n", "1", "--offline").code == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for folder in (tmp_path, elsewhere):
        done = harness("replay", "--runs-dir", str(tmp_path / "runs"), cwd=folder)
        assert (done.code, done.out.count("identical")) == (0, 2), done.err
    (tmp_path / "triage.py").rename(tmp_path / "moved.py")
    missing = harness("replay")
    assert missing.code == 2
    assert "--agent path.py:attr" in missing.err
    assert harness("replay", "--agent", "moved.py").code == 0
