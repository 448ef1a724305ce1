"""The index of a large run is kept in the user's folder of caches, and is never more than a cache."""

import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.archive import index, index_file
from harness.archive.index import Index
from harness.archive.index_file import RolloutPlace, RunCounts
from harness.archive.lines import RecordPlace, encode
from harness.archive.reader import RunReader
from harness.archive.store import RunStore
from harness.core.cost import Cost
from harness.core.errors import ArchiveDamaged
from harness.core.records import Query
from tests.archive.making import a_run, lines_of, segment
from tests.builders import AT, a_judged, a_rollout

Q = Query(id="q", text="?")
ENDLESS = "with recursive n(i) as (select 0 union all select i + 1 from n) select i"

MANY_ROLLOUTS = """
insert into rollouts(query, number, file, offset, status, started)
with recursive n(i) as (select 9 union all select i + 1 from n where i < 100000)
select 'q', n.i, r.file, r.offset, 'ok', r.started from n, rollouts r where r.at = 1
"""


@pytest.fixture(autouse=True)
def every_run_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "WORTH_KEEPING", 0)


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "arena-harness"


@pytest.fixture
def run(tmp_path: Path, caches: Path) -> Path:
    with a_run(tmp_path) as store:
        store.add_query(Q)
        store.add_rollout(a_rollout(0))
        store.add_rollout(a_rollout(1, failed="api", price_usd=0.5))
        store.add_verdict(a_judged("k", price_usd=0.25))
    shutil.rmtree(caches, ignore_errors=True)
    return store.folder


@pytest.fixture
def kept(run: Path, caches: Path) -> Path:
    """The file of the run's index."""
    found(run)
    (path,) = (caches / "index").iterdir()
    return path


class Found(NamedTuple):
    """All that an index tells."""

    queries: dict[str, RecordPlace]
    rollouts: dict[str, dict[int, RolloutPlace]]
    verdicts: dict[str, RecordPlace]
    spent: Cost


def found_by(index: Index) -> Found:
    rollouts = {query: dict(places) for query, places in index.rollouts.items()}
    return Found(dict(index.queries), rollouts, dict(index.verdicts), index.spent)


def found(folder: Path) -> Found:
    """Return what a run's index tells, the kept one as far as it goes."""
    with RunReader(folder) as reader:
        return found_by(reader.index)


def true_index(folder: Path) -> Index:
    """Return a run's index, read from its segments alone."""
    return Index(folder)


def truth(folder: Path) -> Found:
    return found_by(true_index(folder))


def tampered(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as base, base:
        base.executescript("; ".join(statements))


def test_the_kept_index_is_the_one_that_was_built(run: Path):
    built = found(run)
    assert found(run) == built == truth(run)
    assert (built.spent, built.rollouts["q"][1].kind, built.rollouts["q"][1].cost) == (Cost(0.25), "api", Cost(0.5))


def test_the_index_is_the_users_own_and_not_in_the_run(run: Path, kept: Path, caches: Path):
    assert [path.stat().st_mode & 0o777 for path in (caches, kept.parent, kept)] == [0o700, 0o700, 0o600]
    assert sorted(path.name for path in run.iterdir()) == ["queries", "rollouts", "run.json", "run.lock", "verdicts"]


def test_an_index_in_the_run_is_not_read(run: Path, kept: Path):
    shutil.move(kept, run / "index.sqlite")
    tampered(run / "index.sqlite", "update rollouts set status = 'ok'")
    before = (run / "index.sqlite").read_bytes()
    assert found(run) == truth(run)
    assert (run / "index.sqlite").read_bytes() == before


def test_what_was_written_since_is_found(run: Path):
    found(run)
    with RunStore(run, AT + timedelta(hours=1)) as store:
        store.add_rollout(a_rollout(1, "later"))
        store.add_verdict(a_judged("l"))
    with RunReader(run) as reader:
        assert reader.group(Q).rollouts[1].trajectory.answer == "later"
        assert reader.verdict("l")
        assert found(run) == found_by(reader.index)


@pytest.mark.parametrize("spoil", [b"", b"no database at all" * 99, b"SQLite format 3\0" + bytes(5000)])
def test_an_index_that_cannot_be_read_is_made_anew(run: Path, kept: Path, spoil: bytes):
    kept.write_bytes(spoil)
    assert found(run) == truth(run)
    assert kept.read_bytes() != spoil


CRAFTED = {
    "an endless view for a table": ("drop table rollouts", f"create view rollouts as {ENDLESS} as at from n"),
    "an endless view for the sums": ("drop table sums", f"create view sums as {ENDLESS} from n"),
    "a view that calls what fails": ("drop table files", "create view files as select load_extension('x')"),
    "a trigger": ("create trigger t after insert on sums begin delete from queries; end",),
    "another column": ("alter table rollouts add column more text",),
    "a missing column": ("drop table queries", "create table queries(at integer primary key, id text)"),
    "a missing table": ("drop table verdicts",),
    "one table more": ("create table sqlite(x)",),
    "no sums": ("delete from sums",),
    "a missing query": ("delete from queries",),
    "a missing rollout": ("delete from rollouts where number = 1",),
    "missing verdicts": ("delete from verdicts",),
    "missing files": ("delete from files",),
    "a path outside": ("update files set name = '../../../etc/passwd' where id = 1",),
    "a path to another segment": ("update rollouts set file = (select file from queries)",),
    "an absolute path": ("update files set name = '/etc/passwd' where id = 1",),
    "a file that is not there": ("update verdicts set file = 99",),
    "a negative offset": ("update rollouts set offset = -1",),
    "an offset beyond the end": ("update rollouts set offset = 1 << 60",),
    "an offset within a record": ("update rollouts set offset = offset + 1",),
    "an offset of another record": ("update rollouts set offset = (select max(offset) from rollouts)",),
    "a verdict's offset of the header": ("update verdicts set offset = 0",),
    "a text for an offset": ("update queries set offset = 'nine'",),
    "a blob for a text": ("update rollouts set query = x'ff00'",),
    "a text that is no UTF-8": ("update rollouts set query = cast(x'ff00' as text)",),
    "nothing for a text": ("update queries set id = null",),
    "another query's rollouts": ("update rollouts set query = 'other'",),
    "a number for a text": ("update rollouts set started = 5",),
    "no time": ("update rollouts set started = 'never'",),
    "another status": ("update rollouts set status = 'fine'",),
    "a negative index": ("update rollouts set number = -1 where number = 0",),
    "another rollout's index": ("update rollouts set number = 7 where number = 0",),
    "an endless price": ("update rollouts set price = 9e999",),
    "an endless sum": ("update sums set spent = 9e999",),
    "another query's name": ("update queries set id = 'other'",),
    "a name of a megabyte": ("update queries set id = printf('%.*c', 2000000, 'x')",),
    "read further than the file is": ("update files set seen = seen + 1",),
    "read less far": ("update files set seen = 5",),
    "another file's ends": ("update files set tail = tail + 1",),
    "a hundred thousand rollouts": (MANY_ROLLOUTS,),
}


@pytest.mark.few(20)
@pytest.mark.parametrize("what", CRAFTED)
def test_a_crafted_index_is_made_anew(run: Path, kept: Path, what: str):
    tampered(kept, *CRAFTED[what])
    with RunReader(run) as reader:
        assert list(reader.queries()) == [Q]
        assert [r.index for r in reader.group(Q).rollouts] == [0, 1]
        assert reader.verdict("k") == a_judged("k", price_usd=0.25)
        assert reader.verdict("other") is None
    assert found(run) == truth(run)


def test_an_index_that_gives_a_verdict_another_key_is_made_anew_when_that_is_asked_for(run: Path, kept: Path):
    tampered(kept, "update verdicts set key = 'other'")
    with RunReader(run) as reader:
        assert reader.verdict("other") is None
        assert reader.verdict("k") == a_judged("k", price_usd=0.25)
    assert found(run) == truth(run)


def test_an_index_that_names_a_page_as_its_own_child_ends(run: Path, kept: Path):
    """A tree whose inner pages all lead to one page has more rows than anybody could read."""
    tampered(
        kept,
        "insert into queries(id, file, offset) with recursive n(i) as (select 0 union all select i + 1 from n where "
        "i < 20000) select 'x' || i, file, offset from n, queries",
    )
    with closing(sqlite3.connect(kept)) as base:
        size = int(base.execute("pragma page_size").fetchone()[0])
        (root,) = base.execute("select rootpage from sqlite_master where name = 'queries'").fetchone()
    data = bytearray(kept.read_bytes())
    page = memoryview(data)[(root - 1) * size : root * size]
    assert page[0] == 5  # an inner page of a table
    first_child = bytes(page[8:12])
    for cell in range(int.from_bytes(page[3:5])):
        at = int.from_bytes(page[12 + 2 * cell : 14 + 2 * cell])
        page[at : at + 4] = root.to_bytes(4) if cell else first_child
    del page
    kept.write_bytes(data)
    assert found(run) == truth(run)


def counted(folder: Path) -> RunCounts:
    with RunReader(folder) as reader:
        return reader.index.counts()


def test_the_counts_that_are_kept_are_those_of_the_records(run: Path, kept: Path):
    counts = true_index(run).counts()
    assert (counts.queries, counts.rollouts, counts.failed, counts.kinds) == (1, 2, 1, {"api"})
    assert counted(run) == counts
    tampered(kept, "delete from rollouts")
    assert counted(run) == counts, "no place is read"
    with RunStore(run, AT + timedelta(hours=1)) as store:
        store.add_rollout(a_rollout(1, "later"))
    assert counted(run) == true_index(run).counts() != counts


@pytest.mark.parametrize(
    "statement",
    [
        "update sums set counts = replace(counts, '[1, 2, 1,', '[1, 2, 3,')",
        "update sums set counts = replace(counts, '[1, 2, 1,', '[1, 2, -1,')",
        "update sums set counts = replace(counts, 'false', '7')",
        "update sums set counts = replace(counts, '[\"api\"]', 'null')",
        "update sums set counts = replace(counts, '0.75', '9e999')",
        "update sums set counts = '[' || counts",
        "update sums set counts = null",
        "update files set id = id + 9 where name like 'rollouts%'",
        "update sums set counts = replace(counts, ']]', '000000000]]')",
        "delete from sums",
        "update files set tail = tail + 1",
    ],
)
def test_counts_that_were_crafted_are_not_believed(run: Path, kept: Path, statement: str):
    tampered(kept, statement)
    assert counted(run) == true_index(run).counts()


def test_an_index_of_another_run_is_made_anew(run: Path, kept: Path, tmp_path: Path):
    with a_run(tmp_path / "others", "run-2") as store:
        store.add_query(Query(id="r", text="?"))
    found(store.folder)
    (other,) = (path for path in kept.parent.iterdir() if path != kept)
    shutil.copy(other, kept)
    assert found(run) == truth(run)


def copy_with(run: Path, name: str, index: int, answer: str) -> Path:
    """Copy a run, and give one rollout another answer of the same length, checksums included."""
    copy = Path(shutil.copytree(run, run.parent / name))
    path = segment(copy, "rollouts")
    lines = lines_of(path)
    lines[index + 1] = encode("rollout", a_rollout(index, answer).model_dump_json())
    path.write_bytes(b"".join(lines))
    return copy


def test_copies_of_a_run_share_an_index_only_as_far_as_they_are_the_same(run: Path, kept: Path):
    for answer in ("0", "1", "a longer one"):
        copy = copy_with(run, f"copy-{answer}", 0, answer)
        with RunReader(copy) as reader:
            assert reader.group(Q).rollouts[0].trajectory.answer == answer
        assert found(copy) == truth(copy)
        assert found(run) == truth(run)


def test_damage_that_an_index_passes_over_is_still_damage(run: Path, kept: Path):
    path = segment(run, "rollouts")
    lines = lines_of(path)
    lines[1] = lines[1].replace(b'"status":"ok"', b'"status":"OK"')
    path.write_bytes(b"".join(lines))
    with RunReader(run) as reader, pytest.raises(ArchiveDamaged, match=r"\.jsonl:2: the checksum does not match"):
        reader.group(Q)


def test_a_segment_that_became_shorter_makes_the_index_void(run: Path):
    found(run)
    path = segment(run, "verdicts")
    path.write_bytes(lines_of(path)[0])
    assert len(found(run).verdicts) == 0


def test_an_index_that_turns_out_to_be_unreadable_while_it_is_used_is_done_without(run: Path, kept: Path):
    with RunReader(run) as reader:
        assert len(reader.index.verdicts) == 1
        kept.write_bytes(b"no database any more" * 1000)
        assert reader.verdict("k") == a_judged("k", price_usd=0.25)
        assert reader.verdict("unknown") is None


def test_of_two_verdicts_on_one_key_the_first_counts_also_where_the_index_holds_it(run: Path):
    found(run)
    with RunStore(run, AT + timedelta(hours=1)) as store:
        store.add_verdict(a_judged("k", price_usd=0.5))
    with RunReader(run) as reader:
        assert reader.verdict("k") == a_judged("k", price_usd=0.25)
        assert (len(reader.index.verdicts), reader.index.spent) == (1, Cost(0.75))


@pytest.fixture
def unwritable(kept: Path) -> Iterator[None]:
    """A folder of caches that nobody may write to; who is root may write anywhere, so a file stands in its place."""
    folder = kept.parent
    aside = folder.rename(folder.with_name("aside"))
    folder.write_bytes(b"")
    yield
    folder.unlink()
    aside.rename(folder)


@pytest.mark.usefixtures("unwritable")
def test_where_the_index_cannot_be_written_the_run_is_read_without(run: Path):
    assert found(run) == truth(run)


def test_an_older_index_hides_nothing(run: Path, kept: Path):
    older = kept.read_bytes()
    with RunStore(run, AT + timedelta(hours=1)) as store:
        store.add_rollout(a_rollout(2))
        store.add_verdict(a_judged("l"))
    kept.write_bytes(older)
    with RunReader(run) as reader:
        assert sorted(reader.index.rollouts["q"]) == [0, 1, 2]
        assert reader.verdict("l")


@pytest.mark.parametrize("log", [False, True])
def test_no_part_of_an_index_is_left_behind(run: Path, kept: Path, log: bool):
    if log:
        tampered(kept, "pragma journal_mode = wal")
    with RunStore(run, AT + timedelta(hours=1)) as store:
        store.add_rollout(a_rollout(2))
    assert found(run) == truth(run)
    assert os.listdir(kept.parent) == [kept.name]  # noqa: PTH208 - names only


def test_what_an_index_finds_of_many_verdicts_is_found_in_pages(run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index, "_PAGE", 7)
    with RunStore(run, AT + timedelta(hours=1)) as store:
        for number in range(30):
            store.add_verdict(a_judged(f"more-{number}"))
        found(run)
        for number in range(20):
            store.add_verdict(a_judged(f"and-{number}"))
        assert list(store.reader.index.verdicts) == sorted(store.reader.index.verdicts)
        assert len(list(store.reader.index.verdicts)) == len(store.reader.index.verdicts) == 51
    assert found(run) == truth(run)


def test_where_there_is_no_room_for_a_temporary_file_the_index_stays_in_memory(
    run: Path, monkeypatch: pytest.MonkeyPatch
):
    usual, asked = index_file.private_database, list[bool]()

    def private_database(tables: str, *, in_memory: bool = False) -> sqlite3.Connection:
        asked.append(in_memory)
        base = usual(tables, in_memory=in_memory)
        if not in_memory:
            base.execute("pragma query_only=on")
        return base

    expected = truth(run)
    monkeypatch.setattr(index_file, "private_database", private_database)
    assert truth(run) == expected
    assert asked == [False, True]
    monkeypatch.setattr(index_file, "private_database", usual)
    with RunStore(run, AT + timedelta(hours=1)) as store:
        assert store.verdict("l") is None
        store.reader.index._fresh.execute("pragma query_only=on")  # pyright: ignore[reportPrivateUsage]
        store.add_verdict(a_judged("l"))
        assert store.verdict("l") == a_judged("l")


def test_a_name_that_is_no_text_is_not_found(run: Path):
    for _ in range(2):  # without the kept file, and with it
        with RunReader(run) as reader:
            assert reader.query("\ud800") is None
            assert reader.verdict("\ud800") is None


CHANCE = random.Random(20261123)


def test_an_index_finds_what_dicts_would(tmp_path: Path):
    """Records written in several processes, and the index kept between them, are those of dicts."""
    plain, keys = dict[str, dict[int, str]](), dict[str, float]()
    with a_run(tmp_path) as store:
        folder = store.folder
    for hour in range(4):
        with RunStore(folder, AT + timedelta(hours=hour)) as store:
            for _ in range(60):
                query, number, answer = f"q{CHANCE.randrange(9)}", CHANCE.choice((0, 1, 2, 2**53)), str(CHANCE.random())
                store.add_query(Query(id=query, text=query))
                store.add_rollout(a_rollout(number, answer, query=query))
                plain.setdefault(query, {})[number] = answer
                key, usd = f"k{CHANCE.randrange(150)}", CHANCE.random()
                store.add_verdict(a_judged(key, price_usd=usd))
                keys.setdefault(key, usd)
        with RunReader(folder) as reader:
            assert [query.id for query in reader.queries()] == list(reader.index.queries) == list(plain)
            for query, answers in plain.items():
                group = reader.group(Query(id=query, text=query))
                assert {r.index: r.trajectory.answer for r in group.rollouts} == answers
            prices = {key: verdict.price_usd for key in reader.index.verdicts if (verdict := reader.verdict(key))}
            assert prices == keys
        assert found(folder) == truth(folder)
