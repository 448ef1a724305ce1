"""Shards of the queries: each query is in one of them, the same one wherever that is asked."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

import harness
from harness.core.errors import UsageError
from harness.core.records import Query
from harness.core.setting import Shard
from harness.core.settings import Settings, as_written
from harness.core.settings_sources import load
from harness.formats.queries import PackedQueries, in_shard
from tests.fuzz.attempts import attempt

QUERIES = [Query(id=f"q{number}", text=f"What is {number}?") for number in range(800)]


def test_each_query_is_in_one_shard_and_shards_are_about_alike_in_size():
    shards = [in_shard(QUERIES, f"{k}/8") for k in range(1, 9)]
    assert Counter(query.id for shard in shards for query in shard) == Counter(query.id for query in QUERIES)
    assert all(60 <= len(list(shard)) <= 140 for shard in shards)
    assert in_shard(QUERIES, None) is QUERIES


def test_a_query_falls_into_the_same_shard_on_every_machine_and_in_every_version():
    of_eight = [next(k for k in range(1, 9) if Shard(k, 8).holds(name)) for name in ("q0", "q1", "q2", "q3", "q4")]
    assert of_eight == [8, 3, 4, 8, 4]


def test_a_stream_of_queries_stays_a_stream():
    asked: list[str] = []

    def stream():
        for query in QUERIES:
            asked.append(query.id)
            yield query

    first = next(iter(in_shard(stream(), "2/8")))
    assert asked[-1] == first.id
    assert len(asked) < len(QUERIES)


def test_a_command_packs_each_query_of_its_shard_once_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    packed: list[Query] = []
    as_ever = PackedQueries.__init__

    def pack(self: PackedQueries, queries: Iterable[Query]) -> None:
        kept = list(queries)
        packed.extend(kept)
        as_ever(self, kept)

    monkeypatch.setattr(PackedQueries, "__init__", pack)
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"id": query.id, "query": query.text}) for query in QUERIES[:40]]
    (tmp_path / "q.jsonl").write_text("\n".join(lines))
    attempt(("run", "--offline", "--queries", "q.jsonl", "--shard", "2/8", "--dry-run"), tmp_path, {})
    assert [query.id for query in packed] == [query.id for query in in_shard(QUERIES[:40], "2/8")]


@pytest.mark.parametrize("word", ["9/8", "0/8", "3", "3/", "a/b", "-1/8", "1/0", "3/8/9", "1/100001", "³/8"])
def test_what_is_no_shard_is_refused(word: str):
    with pytest.raises(UsageError, match=r"--shard .*expected K/N, part K of N"):
        load({"shard": word})


def test_a_run_without_shards_is_written_down_as_before_there_were_any():
    assert "shard" not in as_written(Settings())
    assert as_written(load({"shard": "03/8"}))["shard"] == "3/8"


@pytest.mark.anyio
async def test_python_runs_and_plans_a_shard_and_refuses_one_without_queries(tmp_path):
    asked = [query.text for query in QUERIES[:6]]
    plans = [await harness.plan("search", asked, shard=f"{k}/2", offline=True) for k in (1, 2)]
    assert sum(plan.queries for plan in plans) == 6
    with pytest.raises(UsageError, match=r"no query falls into shard='5/100000'"):
        await harness.run("search", asked, shard="5/100000", offline=True, runs_dir=tmp_path)
    assert not list(tmp_path.iterdir())
