"""How runs are named and found."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.archive.run_info import find_run, list_runs, new_run_id
from harness.archive.store import RunStore
from harness.core.errors import UsageError
from tests.archive.making import a_run, an_info
from tests.builders import AT, texts

IDS = ["20260721T140320-search-aaaaaa", "20260721T140320-search-bbbbbb", "20260722T090000-writer-cccccc"]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for run_id in IDS:
        a_run(tmp_path, run_id).close()
    return tmp_path


def test_last_is_the_newest(runs: Path) -> None:
    assert find_run("last", runs).name == IDS[-1]
    assert [p.name for p in list_runs(runs)] == IDS


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_runs_of_one_second_the_one_made_later_is_the_newer(tmp_path: Path, first: int) -> None:
    made = [IDS[first], IDS[1 - first]]
    for nth, run_id in enumerate(made):
        a_run(tmp_path, run_id).close()
        os.utime(tmp_path / run_id / "run.json", ns=(nth, nth))
    assert find_run("last", tmp_path).name == made[1]


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_runs_of_one_second_the_one_begun_later_is_the_newer_whatever_their_files_times(
    tmp_path: Path, first: int
) -> None:
    made = [IDS[first], IDS[1 - first]]
    for nth, run_id in enumerate(made):
        began = AT.replace(microsecond=500_000 * nth)
        RunStore.create(tmp_path, an_info(run_id, created_at=began)).close()
        os.utime(tmp_path / run_id / "run.json", ns=(1 - nth, 1 - nth))
    assert find_run("last", tmp_path).name == made[1]


@pytest.mark.parametrize("run_id", IDS)
def test_a_run_is_found_by_its_id_and_by_its_path(runs: Path, run_id: str) -> None:
    assert find_run(run_id, runs) == find_run(str(runs / run_id), Path("elsewhere")) == runs / run_id


def test_a_prefix_finds_the_one_run_that_begins_so(runs: Path) -> None:
    assert find_run("20260722", runs).name == IDS[2]
    assert find_run(IDS[1][:-5], runs).name == IDS[1]


def test_an_id_is_found_also_where_it_is_the_prefix_of_another(runs: Path) -> None:
    a_run(runs, IDS[0] + "-2").close()
    assert find_run(IDS[0], runs).name == IDS[0]


def test_a_prefix_of_several_runs_is_a_usage_error_naming_them(runs: Path) -> None:
    with pytest.raises(UsageError, match=r"fits 2 runs.*aaaaaa.*bbbbbb"):
        find_run("20260721", runs)


def test_an_unknown_run_is_a_usage_error_with_the_nearest_one(runs: Path) -> None:
    with pytest.raises(UsageError, match=rf"did you mean '{IDS[2]}'\? `harness ls` lists them$"):
        find_run("20260722T090000-writer-cccccd", runs)
    with pytest.raises(UsageError, match=r"no run 'xyz' in .*harness ls"):
        find_run("xyz", runs)


def test_without_any_run_last_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="harness run --agent search"):
        find_run("last", tmp_path)


@pytest.mark.parametrize("word", ["x" * 5000, "a\0b", "../..", "*", "[", "\ud800"])
def test_odd_words_for_a_run_are_usage_errors(runs: Path, word: str) -> None:
    with pytest.raises(UsageError, match="no run"):
        find_run(word, runs)


@given(texts, st.text("ab", max_size=3))
def test_a_run_s_id_is_one_plain_folder_name_that_sorts_by_time(agent: str, salt: str) -> None:
    earlier, later = new_run_id(agent, AT, salt), new_run_id(agent, datetime(2027, 1, 1, tzinfo=UTC), salt)
    assert earlier < later
    assert Path(earlier).name == earlier
    assert not earlier.startswith(".")
    assert len(earlier) < 80
    assert earlier.startswith("20260721T140320-")


def test_the_salt_keeps_two_runs_of_one_second_apart() -> None:
    assert len({new_run_id("search", AT, str(salt)) for salt in range(50)}) == 50


def test_two_runs_of_one_id_are_a_usage_error_and_the_first_stays_whole(tmp_path: Path) -> None:
    with a_run(tmp_path) as store:
        store.put_blob("kept")
        with pytest.raises(UsageError, match="cannot make a run"):
            RunStore.create(tmp_path, an_info())
        assert list((store.folder / "blobs").iterdir())
