"""The index of a large run is kept beside it, and is never more than a cache."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from harness.archive import RunReader, RunStore, index
from harness.archive.verdict_index import VerdictIndex
from harness.core.records import Query
from tests.archive.making import a_run
from tests.builders import AT, a_judged, a_rollout

Q = Query(id="q", text="?")


@pytest.fixture(autouse=True)
def every_run_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "WORTH_KEEPING", 0)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with a_run(tmp_path) as store:
        store.add_query(Q)
        store.add_rollout(a_rollout(0))
        store.add_rollout(a_rollout(1, failed="api", price_usd=0.5))
        store.add_verdict(a_judged("k", price_usd=0.25))
    return store.folder


def told(folder: Path) -> index.Index:
    """Return a run's index, in memory alone."""
    with RunReader(folder) as reader:
        kept = reader.index
        in_memory = VerdictIndex()
        for key, place in kept.verdicts.items():
            in_memory.setdefault(key, place)
        return replace(kept, verdicts=in_memory)


def test_the_kept_index_is_the_one_that_was_built(run: Path):
    built = told(run)
    assert (run / index.CACHE).is_file()
    assert told(run) == built
    assert (built.spent, built.rollouts["q"][1].kind, built.rollouts["q"][1].price) == (0.25, "api", 0.5)


def test_what_was_written_since_is_found(run: Path):
    told(run)
    with RunStore(run, AT + timedelta(hours=1)) as store:
        store.add_rollout(a_rollout(1, "later"))
        store.add_verdict(a_judged("l"))
    with RunReader(run) as reader:
        assert reader.group(Q).rollouts[1].trajectory.answer == "later"
        assert reader.verdict("l")
        assert told(run) == reader.index


@pytest.mark.parametrize("spoil", [b"", b"no database at all" * 99])
def test_a_cache_that_cannot_be_read_is_built_anew(run: Path, spoil: bytes):
    built = told(run)
    (run / index.CACHE).write_bytes(spoil)
    assert told(run) == built


def test_a_segment_that_became_shorter_makes_the_cache_void(run: Path):
    told(run)
    (path,) = (run / "verdicts").glob("*.jsonl")
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    assert len(told(run).verdicts) == 0


def test_a_cache_that_turns_out_to_be_unreadable_while_it_is_used_is_done_without(run: Path):
    told(run)
    with RunReader(run) as reader:
        assert len(reader.index.verdicts) == 1
        (run / index.CACHE).write_bytes(b"no database any more" * 1000)
        assert reader.verdict("k") == a_judged("k", price_usd=0.25)
        assert reader.verdict("unknown") is None


def test_of_two_verdicts_on_one_key_the_first_counts_also_where_the_cache_holds_it(run: Path):
    told(run)
    with RunStore(run, AT + timedelta(hours=1)) as store:
        store.add_verdict(a_judged("k", price_usd=0.5))
    with RunReader(run) as reader:
        assert reader.verdict("k") == a_judged("k", price_usd=0.25)
        assert (len(reader.index.verdicts), reader.index.spent) == (1, 0.75)


def test_where_the_cache_cannot_be_written_an_older_one_hides_nothing(run: Path):
    told(run)
    with RunStore(run, AT + timedelta(hours=1)) as store:
        store.add_rollout(a_rollout(2))
        store.add_verdict(a_judged("l"))
    (run / f".{index.CACHE}").mkdir()  # where the new one would be written
    with RunReader(run) as reader:
        assert sorted(reader.index.rollouts["q"]) == [0, 1, 2]
        assert reader.verdict("l")
