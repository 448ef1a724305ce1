"""A run's folder: what goes in comes out, and nothing half done is ever seen."""

import json
import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.archive.lines import Appender, read_lines
from harness.archive.reader import RunReader, blob_body, blob_name
from harness.archive.run_info import list_runs
from harness.archive.store import MemoryStore, RunStore, Store
from harness.core.errors import ArchiveDamaged, ArchiveLocked, ExitCode, TooOld, UsageError
from harness.core.rankings import GroupRanking, Judged, Unjudged
from harness.core.records import Query, Rollout, Trajectory
from harness.core.settings import SETTINGS
from tests.archive.making import a_head, a_run, an_info, lines_of, segment
from tests.builders import (
    AT,
    a_judged,
    a_rollout,
    an_unjudged,
    group_rankings,
    json_objects,
    queries,
    rollouts,
    texts,
    verdicts,
)

# ---- Round trips


@given(st.lists(queries, max_size=4, unique_by=lambda q: q.id))
@settings(max_examples=12)
def test_queries_come_back_as_they_were_and_in_their_order(written: list[Query]) -> None:
    with TemporaryDirectory() as runs, a_run(Path(runs)) as store:
        for query in written:
            store.add_query(query)
        with RunReader(store.folder) as reader:
            assert list(reader.queries()) == written


@given(st.lists(rollouts, max_size=4))
@settings(max_examples=12)
def test_rollouts_come_back_as_they_were_by_index_and_the_newest_of_each(written: list[Rollout]) -> None:
    with TemporaryDirectory() as runs, a_run(Path(runs)) as store:
        for rollout in written:
            store.add_rollout(rollout)
        with RunReader(store.folder) as reader:
            for query in {r.query for r in written}:
                newest = {r.index: r for r in written if r.query == query}
                assert reader.group(Query(id=query, text="?")).rollouts == tuple(newest[i] for i in sorted(newest))


@given(st.lists(verdicts, max_size=5))
@settings(max_examples=12)
def test_verdicts_come_back_as_they_were_failed_ones_too_but_only_judged_ones_under_their_key(
    written: list[Judged | Unjudged],
) -> None:
    with TemporaryDirectory() as runs, a_run(Path(runs)) as store:
        for verdict in written:
            store.add_verdict(verdict)
        with RunReader(store.folder) as reader:
            assert list(reader.verdicts()) == written
            for verdict in written:
                bought = [v for v in written if isinstance(v, Judged) and v.key == verdict.key]
                assert reader.verdict(verdict.key) == (bought[0] if bought else None)


@given(st.lists(group_rankings, max_size=3), json_objects.filter(lambda o: not SETTINGS.keys() & o), st.booleans())
@settings(max_examples=12)
def test_a_ranking_comes_back_as_it_was_and_is_finished_if_and_only_if_its_footer_is_there(
    groups: list[Any], told: dict[str, Any], footer: bool
) -> None:
    head = a_head(settings=told)
    with TemporaryDirectory() as runs, a_run(Path(runs)) as store:
        writer = store.open_ranking(head)
        for group in groups:
            writer.add(group)
        if footer:
            writer.finish()
        writer.close()
        last = tuple({group.query: group for group in groups}.values())  # of several lines of a query the last counts
        expected = [(head, last, footer)] * bool(groups or footer)
        assert [(f.head, f.groups, f.finished) for f in RunReader(store.folder).rankings()] == expected


@given(st.lists(st.text(st.characters(), max_size=20), max_size=4))
@settings(max_examples=12)
def test_blobs_come_back_as_they_were_each_kept_once(written: list[str]) -> None:
    with TemporaryDirectory() as runs, a_run(Path(runs)) as store:
        names = [store.put_blob(text) for text in [*written, *written]]
        assert [store.reader.blobs.get(name) for name in names] == [*written, *written]
        kept = [
            at.members["sha256"] for path in (store.folder / "blobs").glob("*") for at in list(read_lines(path))[1:]
        ]
        assert sorted(kept) == sorted(set(names))


def test_run_info_comes_back_as_it_was(tmp_path: Path) -> None:
    info = an_info(settings={"corpus": "naïve/文書", "n": 8}, accepted=("a warning",))
    with RunStore.create(tmp_path, info) as store:
        assert store.reader.info == info == RunReader(store.folder).info


@pytest.mark.parametrize("lone", ["\ud800", "a\udfffb", "\udc80\ud800"])
def test_text_that_is_no_valid_unicode_is_stored_all_the_same(tmp_path: Path, lone: str) -> None:
    """A model may escape half a surrogate pair in its JSON: what was paid for must not be lost for that."""
    with a_run(tmp_path) as store:
        store.add_query(Query(id="q", text=lone, metadata={lone: lone}))
        store.add_rollout(a_rollout(0, lone, trajectory=Trajectory(query="?", answer=f"so {lone} it is ∞")))
        store.add_verdict(a_judged(analysis={"path_A": lone}, claims={"winner": [lone]}))
        with RunReader(store.folder) as reader:
            (query,) = reader.queries()
            (rollout,) = reader.group(query).rollouts
            verdict = reader.verdict("k")
            assert verdict
            assert rollout.trajectory.answer == "".join(
                "\ufffd" if "\ud800" <= c <= "\udfff" else c for c in f"so {lone} it is ∞"
            )
            for text in (query.text, verdict.analysis["path_A"], rollout.trajectory.answer):
                assert text.encode()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_never_reaches_a_line(tmp_path: Path, number: float) -> None:
    with pytest.raises(ValidationError):
        Query(id="q", text="?", metadata={"score": number})
    with pytest.raises(ValidationError):
        a_rollout(0, duration_s=number)
    with a_run(tmp_path) as store:
        store.add_rollout(a_rollout(0).model_copy(update={"price_usd": number}))  # round the back of validation
        for line in lines_of(segment(store.folder, "rollouts")):
            json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} in a line"))


# ---- Reading beside a writer, and what a kill leaves


def _fill(store: RunStore) -> None:
    """Three records in each segment, and a ranking."""
    writer = store.open_ranking(a_head())
    for i in range(3):
        store.add_query(Query(id=f"q{i}", text="?"))
        store.add_rollout(a_rollout(i))
        store.add_verdict(a_judged(f"k{i}"))
        writer.add(_ranked(f"q{i}"))
    writer.finish()
    writer.close()


def _ranked(query: str) -> Any:
    return GroupRanking(query=query, topology="arena", estimator="tiers", status="complete", signal="ok")


def _read(folder: Path) -> dict[str, list[str]]:
    """What a reader sees of a run filled by `_fill`, by segment."""
    with RunReader(folder) as reader:
        return {
            "queries": [q.id for q in reader.queries()],
            "rollouts": [str(r.index) for r in reader.group(Query(id="q", text="?")).rollouts],
            "verdicts": [v.key for v in reader.verdicts()],
            "rankings": [g.query for f in reader.rankings() for g in f.groups]
            + ["footer" for f in reader.rankings() if f.finished],
        }


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["queries", "rollouts", "verdicts", "rankings"])
def test_a_segment_cut_at_any_byte_of_its_last_record_costs_the_run_that_record_only(tmp_path: Path, name: str) -> None:
    with a_run(tmp_path) as store:
        _fill(store)
    path, before = segment(store.folder, name), _read(store.folder)
    lines, whole = lines_of(path), path.read_bytes()
    expected = before | {name: before[name][:-1]}
    for cut in range(1, len(lines[-1]) + 1):
        path.write_bytes(whole[:-cut])
        assert _read(store.folder) == expected


@pytest.mark.parametrize("name", ["queries", "rollouts", "verdicts", "rankings"])
def test_a_changed_line_in_the_middle_of_a_segment_is_damage_with_its_file_and_line(tmp_path: Path, name: str) -> None:
    with a_run(tmp_path) as store:
        _fill(store)
    path = segment(store.folder, name)
    lines = lines_of(path)
    path.write_bytes(b"".join([lines[0], lines[1], lines[2].replace(b'"', b"'", 1), *lines[3:]]))
    with pytest.raises(ArchiveDamaged, match=f"{path.name}:3: ") as caught:
        _read(store.folder)
    assert caught.value.exit_code == ExitCode.DAMAGED == 5


def test_a_ranking_without_its_footer_reads_as_unfinished(tmp_path: Path) -> None:
    with a_run(tmp_path) as store:
        writer = store.open_ranking(a_head())
        writer.add(_ranked("q0"))
        assert [f.finished for f in RunReader(store.folder).rankings()] == [False]
        writer.finish()
        assert [f.finished for f in RunReader(store.folder).rankings()] == [True]
        writer.close()


def test_the_newest_ranking_is_the_one_made_last_also_within_one_second(tmp_path: Path) -> None:
    with a_run(tmp_path) as store:
        for name, seconds in (("20260721T140320-ffffff", 0.1), ("20260721T140320-000000", 0.9)):
            writer = store.open_ranking(a_head(name, AT + timedelta(seconds=seconds)))
            writer.finish()
            writer.close()
        assert store.reader.ranking().head.id == "20260721T140320-000000"
        assert store.reader.ranking("20260721T140320-ffffff").head.id == "20260721T140320-ffffff"


def test_a_ranking_that_is_not_there_is_a_usage_error_saying_how_to_make_one(tmp_path: Path) -> None:
    with a_run(tmp_path) as store:
        for wanted in (None, "rank-7"):
            with pytest.raises(UsageError, match=r"harness resume .*run-1"):
                store.reader.ranking(wanted)


def test_a_ranking_is_no_file_before_its_first_group(tmp_path: Path) -> None:
    with a_run(tmp_path) as store:
        store.open_ranking(a_head()).close()
        assert not (store.folder / "rankings").exists()


def test_a_later_process_reads_what_the_earlier_wrote_and_writes_files_of_its_own(tmp_path: Path) -> None:
    with a_run(tmp_path) as store:
        store.add_verdict(a_judged("old"))
    with RunStore(store.folder, AT + timedelta(hours=1)) as later:
        later.add_verdict(a_judged("new"))
        assert [v and v.key for v in map(later.verdict, ("old", "new", "none"))] == ["old", "new", None]
    assert [v.key for v in RunReader(store.folder).verdicts()] == ["old", "new"]
    assert len(list((store.folder / "verdicts").iterdir())) == 2


def test_a_header_says_when_and_with_which_versions_a_segment_was_written(tmp_path: Path) -> None:
    with a_run(tmp_path) as store:
        store.add_query(Query(id="q", text="?"))
    head = json.loads(lines_of(segment(store.folder, "queries"))[0])
    assert (head["kind"], head["versions"]) == ("header", {"arena-harness": "0.2.0"})
    assert head["at"].startswith("2026-07-21T14:03:20")


# ---- A run exists if and only if its run.json does


def test_a_run_is_there_once_it_is_made_and_holds_its_run_json(tmp_path: Path) -> None:
    assert list_runs(tmp_path) == list_runs(tmp_path / "nowhere") == []
    with a_run(tmp_path) as store:
        assert list_runs(tmp_path) == [store.folder]
        assert (store.folder / "run.json").is_file()


def test_a_folder_without_run_json_and_one_still_under_its_dot_name_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "no-run").mkdir()
    half = tmp_path / ".run-0"
    half.mkdir()
    (half / "run.json").write_text(an_info().model_dump_json())
    assert list_runs(tmp_path) == []


def test_making_a_run_leaves_no_dot_folder_behind(tmp_path: Path) -> None:
    with a_run(tmp_path):
        assert [p.name for p in tmp_path.iterdir()] == ["run-1"]


@pytest.mark.parametrize("broken", ["", "{", "[]", "{}", '{"id": 3}', "\x00"])
def test_a_run_json_that_cannot_be_read_is_damage_with_its_path(tmp_path: Path, broken: str) -> None:
    with a_run(tmp_path) as store:
        pass
    (store.folder / "run.json").write_text(broken)
    with pytest.raises(ArchiveDamaged, match=r"run-1/run\.json: "):
        RunReader(store.folder)
    with pytest.raises(ArchiveDamaged, match=r"run-1/run\.json: "):
        RunStore(store.folder, AT)


def test_a_run_of_a_newer_schema_is_refused_with_the_version_that_is_needed(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, an_info(schema_version=1)) as store:
        pass
    (store.folder / "run.json").write_text(an_info(schema_version=2).model_dump_json())
    with pytest.raises(UsageError, match=r"run\.json has schema_version 2.*reads up to 1"):
        RunReader(store.folder)


@pytest.mark.parametrize("version", ["0.1.9", "0.1.9.dev1", f"0.1.{10**8}", None, "0.2.0", "0.2.0rc1", "1.0.0", "x", 7])
def test_a_run_of_a_version_before_the_oldest_readable_one_is_refused(tmp_path: Path, version: object) -> None:
    with a_run(tmp_path) as store:
        pass
    path = store.folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"versions": {"arena-harness": version}}))
    is_old = isinstance(version, str) and version.startswith("0.1.")
    what = TooOld if is_old else ArchiveDamaged if not isinstance(version, str) else None
    with pytest.raises(what) if what else nullcontext():
        RunReader(store.folder)


def test_opening_what_is_no_run_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ArchiveDamaged, match=r"nowhere/run\.json"):
        RunStore(tmp_path / "nowhere", AT)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_a_usage_error_naming_the_flag(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("I am no folder")
    for place in (tmp_path / "file", tmp_path / "file" / "runs"):
        with pytest.raises(UsageError, match="--runs-dir"):
            a_run(place)


def test_only_a_run_in_which_nothing_was_paid_for_is_ever_discarded(tmp_path: Path) -> None:
    empty, paid = a_run(tmp_path, "empty"), a_run(tmp_path, "paid")
    empty.add_query(Query(id="q", text="?"))
    paid.add_rollout(a_rollout(0))
    empty.discard()
    with pytest.raises(RuntimeError, match="never discarded"):
        paid.discard()
    paid.close()
    assert [p.name for p in list_runs(tmp_path)] == ["paid"]


# ---- Locks, modes, blobs


def test_a_second_writer_is_locked_out_until_the_first_is_done_and_readers_never_are(tmp_path: Path) -> None:
    with a_run(tmp_path) as store:
        with pytest.raises(ArchiveLocked, match="in use by another") as caught:
            RunStore(store.folder, AT)
        assert caught.value.exit_code == ExitCode.LOCKED == 75
        assert RunReader(store.folder).info.id == "run-1"
    RunStore(store.folder, AT).close()


def test_every_file_is_its_owner_s_alone(tmp_path: Path) -> None:
    with a_run(tmp_path) as store:
        _fill(store)
        store.put_blob("secret")
    for path in [store.folder, *store.folder.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("change", [lambda t: t.replace(b"some", b"same"), lambda t: t[:-2] + b"\n", bytes.swapcase])
def test_a_blob_that_was_tampered_with_is_damage(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    with a_run(tmp_path) as store:
        name = store.put_blob("some text")
    (path,) = (store.folder / "blobs").iterdir()
    header, blob = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header + change(blob))
    with pytest.raises(ArchiveDamaged, match=r"missing blob|checksum"):
        RunReader(store.folder).blobs.get(name)


def test_a_blob_whose_line_is_whole_but_whose_text_is_another_is_damage(tmp_path: Path) -> None:
    name = blob_name("some text")
    with a_run(tmp_path) as store:
        forged = Appender(store.folder / "blobs" / "forged.jsonl")
        forged.append("blob", blob_body(name, "another"))
        forged.close()
        with pytest.raises(ArchiveDamaged, match="does not match its hash"):
            store.reader.blobs.get(name)


def test_a_reader_finds_blobs_that_were_written_since_it_looked(tmp_path: Path) -> None:
    with a_run(tmp_path) as store, RunReader(store.folder) as reader:
        names = [store.put_blob("one")]
        assert reader.blobs.get(names[0]) == "one"
        names.append(store.put_blob("two"))
        assert [reader.blobs.get(name) for name in names] == ["one", "two"]


def test_the_next_writer_of_a_run_stores_no_blob_again(tmp_path: Path) -> None:
    with a_run(tmp_path) as store:
        store.put_blob("kept")
    with RunStore(store.folder, AT + timedelta(hours=1)) as later:
        later.put_blob("kept")
    assert len(list((store.folder / "blobs").iterdir())) == 1


def test_a_blob_that_is_missing_is_damage(tmp_path: Path) -> None:
    with a_run(tmp_path) as store, pytest.raises(ArchiveDamaged, match="missing"):
        store.reader.blobs.get("0" * 64)


@given(st.lists(verdicts, max_size=5), st.lists(texts, max_size=3))
@settings(max_examples=12)
def test_memory_and_disk_are_the_same_door(written: Iterable[Judged | Unjudged], blobs: list[str]) -> None:
    def use(store: Store) -> Any:
        for verdict in written:
            store.add_verdict(verdict)
        store.add_query(Query(id="q", text="?"))
        store.add_rollout(a_rollout(0))
        return [store.put_blob(b) for b in blobs], {v.key: store.verdict(v.key) for v in written}

    with TemporaryDirectory() as runs, a_run(Path(runs)) as disk:
        assert use(disk) == use(MemoryStore())


def test_a_failed_verdict_is_kept_and_never_found_as_bought(tmp_path: Path) -> None:
    with a_run(tmp_path) as store:
        store.add_verdict(an_unjudged("k"))
        assert store.verdict("k") is None
        store.add_verdict(a_judged("k"))
        assert isinstance(store.verdict("k"), Judged)
    with RunReader(store.folder) as reader:
        assert isinstance(reader.verdict("k"), Judged)
