"""A comparison's folder: what goes in comes out, and nothing half done is ever seen."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.lines import encode
from harness.archive.reader import RunReader
from harness.archive.run_info import find_archived, find_run, list_archived, list_comparisons, list_runs
from harness.archive.store import ComparisonStore, MemoryStore, VerdictStore
from harness.core.comparisons import ComparedQuery
from harness.core.errors import ArchiveDamaged, ArchiveLocked, UsageError
from harness.core.records import to_json
from harness.core.run_folders import enclosing_run
from tests.archive.comparing import (
    a_comparison,
    a_comparison_head,
    a_comparison_info,
    a_filled_comparison,
    a_side,
    compared_query,
    fill,
)
from tests.archive.making import a_run, lines_of, segment
from tests.archive.test_validation import cut_points
from tests.builders import AT, a_judged, an_unjudged


def test_what_is_written_comes_back_as_it_was(tmp_path: Path) -> None:
    info = a_comparison_info(task_from="file", task="Be brief.", cluster="author", queries=3)
    with ComparisonStore.create(tmp_path, info) as store:
        written = fill(store, 3)
    with ComparisonReader(store.folder) as reader:
        newest = reader.newest()
        assert reader.info == info
        assert newest
        assert (newest.head.sides, newest.finished, newest.incomplete) == (info.sides, True, 0)
        assert list(reader.queries()) == list(newest.queries) == written
        assert [v.key for v in reader.verdicts()] == [key for q in written for key in q.matches[0].verdicts]
        for key in written[0].matches[0].verdicts:
            assert reader.verdict(key)
        answers = [r.answer_blob for r in (side[0] for side in written[0].rollouts) if r.answer_blob]
        assert [reader.blobs.get(name) for name in answers] == ["answer of first q0", "answer of second q0"]


def test_the_newest_file_counts_and_a_query_with_an_open_match_is_incomplete(tmp_path: Path) -> None:
    with a_comparison(tmp_path) as store:
        assert (store.reader.newest(), list(store.reader.queries())) == (None, [])
        query = compared_query(store, "q0")
        (match,) = query.matches
        writer = store.open_comparison(a_comparison_head(store, "open"))
        writer.add(query.model_copy(update={"matches": (match.model_copy(update={"winner": None}),)}))
        writer.finish()
        writer.close()
        newest = store.reader.newest()
        assert newest
        assert (newest.finished, newest.incomplete) == (True, 1)
        fill(store, 2, file_id="later", at=AT + timedelta(seconds=1))
        newest = store.reader.newest()
        assert newest
        assert (newest.head.id, newest.incomplete, len(newest.queries)) == ("later", 0, 2)
        assert [file.head.id for file in store.reader.files()] == ["open", "later"]


def test_a_file_begins_with_the_first_verdict_that_is_bought_for_it(tmp_path: Path) -> None:
    with a_comparison(tmp_path) as store:
        writer = store.open_comparison(a_comparison_head(store))
        assert not (store.folder / "comparisons").exists()
        store.add_verdict(a_judged())
        newest = store.reader.newest()
        assert newest
        assert (newest.finished, len(newest.queries)) == (False, 0)
        writer.close()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["verdicts", "comparisons"])
def test_a_file_cut_anywhere_in_its_last_line_costs_that_line_only(tmp_path: Path, name: str) -> None:
    folder = a_filled_comparison(tmp_path, queries=2)

    def seen() -> dict[str, list[str]]:
        with ComparisonReader(folder) as reader:
            newest = reader.newest()
            assert newest
            queries = [q.query for q in newest.queries] + ["footer"] * newest.finished
            return {"verdicts": [v.key for v in reader.verdicts()], "comparisons": queries}

    path, before = segment(folder, name), seen()
    *others, last = lines_of(path)
    for cut in cut_points(len(last)):
        path.write_bytes(b"".join([*others, last[:cut]]))
        assert seen() == before | {name: before[name][:-1]}


def test_memory_and_a_comparison_are_the_same_door_to_a_judge(tmp_path: Path) -> None:
    def use(store: VerdictStore) -> Any:
        store.add_verdict(a_judged("k"))
        store.add_verdict(an_unjudged("other"))
        store.settle()
        return store.put_blob("text"), store.verdict("k"), store.verdict("other"), store.scored("k")

    with a_comparison(tmp_path) as disk:
        assert use(disk) == use(MemoryStore())


def test_only_one_process_writes_to_a_comparison_and_one_in_which_nothing_was_bought_can_be_discarded(
    tmp_path: Path,
) -> None:
    with a_comparison(tmp_path, "paid") as paid:
        with pytest.raises(ArchiveLocked, match="in use by another"):
            ComparisonStore(paid.folder, AT)
        paid.add_verdict(a_judged())
        with pytest.raises(RuntimeError, match="never discarded"):
            paid.discard()
    empty = a_comparison(tmp_path, "empty")
    empty.put_blob("a transcript")
    empty.discard()
    assert [folder.name for folder, _ in list_archived(tmp_path)] == ["paid"]


def test_a_later_process_finds_what_the_earlier_one_bought_and_writes_files_of_its_own(tmp_path: Path) -> None:
    folder = a_filled_comparison(tmp_path, queries=1)
    with ComparisonStore(folder, AT + timedelta(hours=1), accepted=["a warning"]) as later:
        assert later.verdict("q0-ab")
        later.add_verdict(a_judged("new"))
    heads = [json.loads(lines_of(path)[0]) for path in sorted((folder / "verdicts").iterdir())]
    assert [(head["versions"], head["accepted"]) for head in heads] == [
        ({"arena-harness": "0.2.0"}, []),
        ({"arena-harness": "0.2.0"}, ["a warning"]),
    ]


def test_every_file_is_its_owner_s_alone(tmp_path: Path) -> None:
    folder = a_filled_comparison(tmp_path)
    for path in [folder, *folder.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


# ---- Among the runs


def test_runs_and_comparisons_are_listed_by_time_and_last_is_the_newest_of_both(tmp_path: Path) -> None:
    names = ["20260721T140320-search-aaaaaa", "20260721T140321-compare-bbbbbb", "20260721T140322-search-cccccc"]
    a_run(tmp_path, names[0]).close()
    a_comparison(tmp_path, names[1]).close()
    assert find_archived("last", tmp_path) == (tmp_path / names[1], "comparison")
    assert find_run("last", tmp_path) == tmp_path / names[0], "where only a run will do"
    a_run(tmp_path, names[2]).close()
    assert [(folder.name, kind) for folder, kind in list_archived(tmp_path)] == list(
        zip(names, ["run", "comparison", "run"], strict=True)
    )
    assert [folder.name for folder in list_runs(tmp_path)] == [names[0], names[2]]
    assert [folder.name for folder in list_comparisons(tmp_path)] == [names[1]]
    assert find_run("last", tmp_path) == find_archived(names[2][:16], tmp_path).folder == tmp_path / names[2]
    assert find_archived(str(tmp_path / names[1]), tmp_path / "elsewhere").kind == "comparison"


@pytest.mark.parametrize("word", ["20260721T140321-compare", "PATH"])
def test_a_comparison_named_where_a_run_is_needed_is_a_usage_error_that_says_what_to_type(
    tmp_path: Path, word: str
) -> None:
    a_run(tmp_path, "20260721T140320-search-aaaaaa").close()
    folder = a_filled_comparison(tmp_path, "20260721T140321-compare-bbbbbb")
    with pytest.raises(UsageError) as caught:
        find_run(str(folder) if word == "PATH" else word, tmp_path)
    assert str(caught.value) == (
        "20260721T140321-compare-bbbbbb is a comparison, not a run: name a run; the newest is "
        "20260721T140320-search-aaaaaa. `harness show 20260721T140321-compare-bbbbbb` shows the comparison"
    )


def test_a_prefix_that_fits_several_names_them_and_says_where_there_are_more(tmp_path: Path) -> None:
    names = [f"20260721T14032{n}-search-aaaaaa" for n in range(5)]
    for name in names[:4]:
        a_run(tmp_path, name).close()
    with pytest.raises(UsageError, match=f"fits 4 runs: {', '.join(names[:4])}; say more"):
        find_run("2026", tmp_path)
    a_run(tmp_path, names[4]).close()
    with pytest.raises(UsageError, match=f"fits 5 runs: {', '.join(names[:4])}, …; say more"):
        find_run("2026", tmp_path)


def test_where_only_comparisons_are_there_is_no_last_run(tmp_path: Path) -> None:
    a_filled_comparison(tmp_path)
    with pytest.raises(UsageError, match="no run in"):
        find_run("last", tmp_path)


def test_a_folder_that_holds_both_files_is_a_run_and_one_under_its_dot_name_is_nothing(tmp_path: Path) -> None:
    a_run(tmp_path).close()
    (tmp_path / "run-1" / "compare.json").write_text(a_comparison_info().model_dump_json())
    (tmp_path / ".comparison-2").mkdir()
    (tmp_path / ".comparison-2" / "compare.json").write_text(a_comparison_info().model_dump_json())
    assert list_archived(tmp_path) == [(tmp_path / "run-1", "run")]


def test_a_run_is_no_comparison_and_a_comparison_no_run(tmp_path: Path) -> None:
    a_run(tmp_path).close()
    folder = a_filled_comparison(tmp_path)
    with pytest.raises(ArchiveDamaged, match=r"run-1/compare\.json"):
        ComparisonReader(tmp_path / "run-1")
    with pytest.raises(ArchiveDamaged, match=r"comparison-1/run\.json"):
        RunReader(folder)


# ---- Written by a stranger


def test_a_file_in_a_comparison_counts_as_a_strangers_as_one_in_a_run_does(tmp_path: Path) -> None:
    folder = a_filled_comparison(tmp_path)
    (tmp_path / "link.py").symlink_to(folder / "agent.py")
    for inside in (folder, folder / "agent.py", folder / "agents_config" / "search.py", tmp_path / "link.py"):
        assert enclosing_run(inside) == str(folder)
    assert enclosing_run(tmp_path) is None


@pytest.mark.parametrize(
    "change",
    [
        {"sides": []},
        {"sides": [a_side("A").model_dump()]},
        {"sides": [a_side("A").model_dump(), a_side("A").model_dump()]},
        {"sides": [a_side("A").model_dump(), a_side("B", run="run-a").model_dump()]},
        {"sides": [a_side("A", run="../../home").model_dump(), a_side("B").model_dump()]},
        {"sides": [a_side("A", sha256="0").model_dump(), a_side("B").model_dump()]},
        {"sides": [a_side("A", only_here=-1).model_dump(), a_side("B").model_dump()]},
        {"id": "../run"},
        {"id": ""},
        {"created_at": "2026-07-21T14:03:20"},
        {"created_at": "0001-01-01T00:00:00Z"},
        {"pairs": -1},
        {"pairs": 1e30},
        {"settings": {"n": "many"}},
        {"rendering": 0},
        {"rubric_text": "another text"},
        {"judge": None},
        {"judge": {"model": "m"}},
        {"queries": "many"},
    ],
)
def test_a_compare_json_that_no_harness_wrote_is_damage_with_its_path(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = a_filled_comparison(tmp_path)
    members = json.loads((folder / "compare.json").read_text())
    (folder / "compare.json").write_text(json.dumps(members | change))
    with pytest.raises(ArchiveDamaged, match=r"comparison-1/compare\.json: .*It holds the comparison's settings"):
        ComparisonReader(folder)


@pytest.mark.parametrize("floors", [[], [None], [None, 1.5], None])
def test_a_head_without_a_floor_or_none_for_each_side_is_damage_with_file_and_line(tmp_path: Path, floors: Any) -> None:
    with a_comparison(tmp_path) as store:
        fill(store, 1)
        head = a_comparison_head(store).model_dump(mode="json") | {"floors": floors}
    path = segment(store.folder, "comparisons")
    path.write_bytes(b"".join([encode("header", json.dumps(head)), *lines_of(path)[1:]]))
    with pytest.raises(ArchiveDamaged, match=r"file-1\.jsonl:1: no valid record: floors: "):
        list(ComparisonReader(store.folder).queries())


def changed(query: ComparedQuery, **changes: Any) -> dict[str, Any]:
    members = query.model_dump(mode="json")
    match = {name: changes.pop(name) for name in list(changes) if name in members["matches"][0]}
    rollout = {name: changes.pop(name) for name in list(changes) if name in members["rollouts"][0][0]}
    members["matches"][0] |= match
    members["rollouts"][0][0] |= rollout
    return members | changes


@pytest.mark.parametrize(
    "change",
    [
        {"sides": [0, 0]},
        {"sides": [1, 0]},
        {"sides": [0, 7]},
        {"sides": [-2, -1]},
        {"first": 5},
        {"second": -1},
        {"scores": []},
        {"scores": [[1e300, 0], [0, 0]]},
        {"score_first": None},
        {"score_first": None, "score_second": None},
        {"forfeit": "first"},
        {"winner": "nobody"},
        {"shown_first": ["first"]},
        {"index": -1},
        {"transcript": "../../etc/passwd"},
        {"path_blob": "x"},
        {"usd": -1e300},
        {"duration_s": -1},
        {"tokens": -5},
        {"ids": ["only one"]},
        {"left_out": [1]},
        {"left_out": [-1, 0]},
        {"rollouts": []},
        {"rollouts": [[], []]},
    ],
)
def test_a_line_that_no_harness_wrote_is_damage_with_file_and_line(tmp_path: Path, change: dict[str, Any]) -> None:
    with a_comparison(tmp_path) as store:
        (query,) = fill(store, 1)
    path = segment(store.folder, "comparisons")
    head, _, footer = lines_of(path)
    path.write_bytes(head + encode("compared", json.dumps(changed(query, **change))) + footer)
    with pytest.raises(ArchiveDamaged, match=r"file-1\.jsonl:2: no valid record"):
        list(ComparisonReader(store.folder).queries())


def test_a_line_of_another_kind_is_damage_with_file_and_line(tmp_path: Path) -> None:
    with a_comparison(tmp_path) as store:
        (query,) = fill(store, 1)
    path = segment(store.folder, "comparisons")
    head, _, footer = lines_of(path)
    path.write_bytes(head + encode("group", to_json(query)) + footer)
    with pytest.raises(ArchiveDamaged, match=r"file-1\.jsonl:2: a record of the kind 'group'"):
        list(ComparisonReader(store.folder).queries())


@pytest.mark.parametrize("name", ["compare.json", "verdicts", "comparisons", "blobs"])
def test_a_link_in_a_comparison_is_refused(tmp_path: Path, name: str) -> None:
    folder = a_filled_comparison(tmp_path)
    place = folder / name if name == "compare.json" else segment(folder, name)
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArchiveDamaged, match="a link stands where a file should be"):
        ComparisonReader(folder)
