"""A run that was ranked before is ranked again from what is kept of its groups, with the same result."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.archive import index_file
from harness.archive.reader import RunReader
from harness.core.group_cache import cached_group
from harness.report.summary.ranking import summarize
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import attempt

FREE = ("--free", "--no-report")
INCOMPLETE = ["--topology", "round_robin"], ["--exclude", "0"]
"""Such a ranking needs verdicts that the run does not hold."""
SETTINGS = (
    [],
    ["--topology", "anchor", "--estimator", "bt"],
    ["--estimator", "pooled"],
    *INCOMPLETE,
)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr(index_file, "WORTH_KEEPING", 0)
    return Room.make(tmp_path / "room")


def rescored(room: Room, run: Path, *options: str) -> dict[str, Any]:
    outcome = attempt(["rescore", run.name, *FREE, "--json", *options], room.work, room.environ())
    assert outcome.faults() == []
    printed: dict[str, Any] = json.loads(outcome.out)
    return {name: value for name, value in printed.items() if name not in {"ranking", "against"}}


@pytest.mark.parametrize("options", SETTINGS, ids=" ".join)
def test_a_warm_rescoring_says_what_a_cold_one_says(room: Room, options: list[str]):
    run = room.add_run("offline-arena")
    cold = rescored(room, run, *options)
    is_ranked = '"rank": 0' in json.dumps(cold)
    assert is_ranked == (options not in INCOMPLETE)
    (kept,) = (room.home / "cache" / "arena-harness" / "index").iterdir()
    before = kept.read_bytes()
    assert rescored(room, run, *options) == cold
    assert kept.read_bytes() == before, "nothing had to be made anew"


def test_extracts_that_are_kept_are_those_of_the_records(room: Room):
    run = room.add_run("offline-arena")
    rescored(room, run)
    with RunReader(run) as reader:
        ranking = reader.ranking()
        plain = summarize(reader, ranking)
        groups = [(query, ranking.of(query)) for query in reader.queries()]
        made = [cached_group(reader.group(query), ranked, reader.pair_scores) for query, ranked in groups if ranked]
    assert [line.runs for line in plain.lines] == [len(extract.rollouts) for extract in made]
    assert all(extract.holds(ranked) for extract, (_, ranked) in zip(made, groups, strict=True) if ranked)


def test_what_people_read_of_a_warm_rescoring_is_that_of_a_cold_one(room: Room):
    run = room.add_run("offline-arena")
    argv = ["rescore", run.name, *FREE]
    cold, warm = (attempt(argv, room.work, room.environ()).out.decode().splitlines() for _ in range(2))
    assert [line for line in warm if "against" not in line] == [line for line in cold if "against" not in line]
