"""Cached groups are kept in the index in the user's folder of caches, and are never more than a cache."""

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from harness.archive import index_file
from harness.archive.reader import RunReader
from harness.core.group_cache import CachedGroup, cached_group
from harness.core.rankings import GroupRanking, Judged, Match
from harness.core.records import Query
from tests.archive.making import a_run, segment
from tests.builders import a_group, a_judged, a_rollout

Q = Query(id="q", text="Why? " * 100, metadata={"size": 3, "of": [1], "none": None})
VERDICTS = {
    "k": a_judged("k", first="one", second="two", cut=("B",), claims={"winner": "A"}),
    "l": a_judged("l", 5.0, 5.0, first="two", second="one", cut=("A",), repaired=True, source="run-0"),
}
MATCH = Match(
    round=1,
    a=0,
    b=1,
    verdicts=("k", "l"),
    shown_first=(0, 1),
    scores=((6, 5), (5, 5)),
    score_a=5.5,
    score_b=5.0,
    winner=0,
    flipped=False,
    inconsistent=True,
)
RANKING = GroupRanking(query="q", topology="arena", estimator="tiers", status="complete", signal="ok", matches=(MATCH,))
ROLLOUTS = (a_rollout(0, "a b c", price_usd=0.5), a_rollout(1, verified=0.25), a_rollout(2, failed="timeout"))


@pytest.fixture(autouse=True)
def every_run_is_large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(index_file, "WORTH_KEEPING", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with a_run(tmp_path) as store:
        store.add_query(Q)
        for rollout in ROLLOUTS:
            store.add_rollout(rollout)
        for verdict in VERDICTS.values():
            store.add_verdict(verdict)
    return store.folder


@pytest.fixture
def group(run: Path) -> CachedGroup:
    """The group of the run's group, which is kept."""
    with RunReader(run) as reader, reader.group_cache("way") as cache:
        assert cache.of("q") is None
        made = cached_group(reader.group(Q), RANKING, reader.pair_scores)
        cache.add(made)
        cache.add(replace(made, query="other"))
    return made


def kept(run: Path, way: str = "way") -> CachedGroup | None:
    with RunReader(run) as reader, reader.group_cache(way) as cache:
        return cache.of("q")


def file_of(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "cache" / "arena-harness" / "index").iterdir()
    return path


def test_what_was_made_is_what_is_found(run: Path, group: CachedGroup):
    assert kept(run) == group
    assert [(r.number, r.failure, r.answer_words, r.shown, r.cut) for r in group.rollouts] == [
        (0, None, 3, "one", False),
        (1, None, 1, "two", True),
        (2, "timeout", 1, None, False),
    ]
    assert {order: [v.key for v in seats] for order, seats in group.verdicts.items()} == {
        (0, 1, 0): ["k"],
        (1, 0, 0): ["l"],
    }
    assert group.metadata == {"size": 3, "of": "[1]"}


def test_a_cached_group_says_of_verdicts_what_their_records_say():
    of = cached_group(a_group(ROLLOUTS), RANKING, VERDICTS.get).verdicts
    for order, key in (((0, 1, 0), "k"), ((1, 0, 0), "l")):
        (row,), record = of[order], VERDICTS[key]
        assert (row.score_first, row.score_second) == (record.a.combined, record.b.combined)
        assert (row.claimed_winner, row.repaired, row.source) == (key == "k", key == "l", record.source)
        assert (row.started, row.seconds) == (record.started_at.timestamp(), record.duration_s)


def test_verdicts_of_several_jurors_stand_in_the_order_of_their_seats():
    juror = VERDICTS["k"].model_copy(update={"key": "m", "judge": "another"})
    match = MATCH.model_copy(update={"verdicts": ("k", "m", "l"), "shown_first": (0, 0, 1)})
    ranking = RANKING.model_copy(update={"matches": (match,)})
    judged: dict[str, Judged] = VERDICTS | {"m": juror}
    of = cached_group(a_group(ROLLOUTS), ranking, judged.get).verdicts
    assert {order: [v.judge for v in seats] for order, seats in of.items()} == {
        (0, 1, 0): ["scripted", "another"],
        (1, 0, 0): ["scripted"],
    }


def test_cached_groups_of_another_way_of_judging_do_not_count(run: Path, group: CachedGroup):
    assert kept(run, "another way") is None


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("name", ["queries", "rollouts", "verdicts"])
def test_cached_groups_of_files_that_changed_do_not_count(run: Path, name: str):
    path = segment(run, name)
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1))
    assert kept(run) is None


@pytest.mark.usefixtures("group")
def test_cached_groups_of_a_run_that_grew_do_not_count(run: Path):
    (run / "verdicts" / "20990101T000000000000-1-1.jsonl").write_bytes(segment(run, "verdicts").read_bytes())
    assert kept(run) is None


CRAFTED = {
    "another score": "update cached_groups set data = replace(data, '6.0', '9.0')",
    "another checksum": "update cached_groups set crc = crc + 1",
    "no JSON": "update cached_groups set data = '['",
    "a number for a text": "update cached_groups set data = 5",
    "a text that is no UTF-8": "update cached_groups set data = cast(x'ff00' as text)",
    "another query's name": "update cached_groups set query = query || '2'",
    "another query's row under its name": "update cached_groups set query = 'old' where query = 'q'; "
    "update cached_groups set query = 'q' where query = 'other'",
    "another version": "update judging set stamps = replace(stamps, '[', '[9')",
    "no head": "delete from judging",
    "a trigger": "create trigger t after insert on judging begin delete from cached_groups; end",
    "another table": "create table more(x)",
    "a view": "drop table cached_groups; create view cached_groups as select 'q' as query, 0 as crc, '[]' as data",
}


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("what", CRAFTED)
def test_crafted_groups_do_not_count_and_are_made_anew(run: Path, tmp_path: Path, what: str, group: CachedGroup):
    with closing(sqlite3.connect(file_of(tmp_path))) as base, base:
        base.executescript(CRAFTED[what])
    assert kept(run) is None
    with RunReader(run) as reader, reader.group_cache("way") as cache:
        cache.add(group)
    assert kept(run) == group


@pytest.mark.parametrize("spoil", [b"", b"no database at all" * 99, b"SQLite format 3\0" + bytes(5000)])
def test_a_file_that_is_none_is_made_anew(run: Path, tmp_path: Path, group: CachedGroup, spoil: bytes):
    file_of(tmp_path).write_bytes(spoil)
    with RunReader(run) as reader, reader.group_cache("way") as cache:
        assert cache.of("q") is None
        cache.add(group)
    assert kept(run) == group


def test_what_was_kept_stays_when_more_is_added(run: Path, group: CachedGroup):
    with RunReader(run) as reader, reader.group_cache("way") as cache:
        cache.add(CachedGroup("other", "", {}, "", ()))
        assert cache.of("q") == group
    assert kept(run) == group


def test_nothing_is_kept_of_work_that_an_error_ended(run: Path):
    with RunReader(run) as reader, suppress(KeyboardInterrupt), reader.group_cache("way") as cache:
        cache.add(CachedGroup("q", "", {}, "", ()))
        raise KeyboardInterrupt
    assert kept(run) is None


def test_where_nothing_can_be_written_extracts_are_done_without(run: Path, tmp_path: Path):
    (tmp_path / "cache" / "arena-harness").mkdir(parents=True, exist_ok=True)
    (tmp_path / "cache" / "arena-harness" / "index").write_bytes(b"")
    with RunReader(run) as reader, reader.group_cache("way") as cache:
        cache.add(CachedGroup("q", "", {}, "", ()))
        cache.add(CachedGroup("r", "", {}, "", ()))
    assert kept(run) is None
