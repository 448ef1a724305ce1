"""What a large run's records are found and checked by is packed, and holds what dicts and sets would."""

import random
from pathlib import Path

import pytest

from harness.archive.lines import RecordPlace
from harness.archive.packed_names import KeyedPlaces, NamePlaces, NameSet
from harness.archive.packed_places import QueryPlaces, RolloutPlace, RolloutPlaces
from harness.archive.reader import RunReader
from harness.core.rankings import GroupRanking, Ranked
from tests.archive.making import a_head, a_run

CHANCE = random.Random(20261123)
FILES = [Path(f"rollouts/{number}.jsonl") for number in range(300)]
TIMES = (
    *("2026-07-21T14:03:20+00:00", "2026-07-21T14:03:20.123456+00:00", "9999-12-31T23:59:59.999999+00:00"),
    *("2026-07-21T14:03:20", "2026-07-21T14:03:20.123456+05:30:15.000001", "1969-12-31T23:59:59+00:00"),
)


def a_place() -> RolloutPlace:
    return RolloutPlace(
        RecordPlace(CHANCE.choice(FILES), CHANCE.randrange(2**40)),
        CHANCE.choice(("ok", "failed")),
        CHANCE.choice((None, "api", f"kind {CHANCE.randrange(100_000)}")),
        CHANCE.choice(TIMES),
        CHANCE.choice((None, 0.0, CHANCE.random())),
    )


def test_packed_rollouts_are_those_of_a_dict():
    packed, plain = RolloutPlaces(), dict[str, dict[int, RolloutPlace]]()
    for _ in range(3000):
        query, index, place = f"q{CHANCE.randrange(200)}", CHANCE.choice((0, 1, 2, 3, 2**53)), a_place()
        packed.note(query, index, place)
        plain.setdefault(query, {})[index] = place
    assert packed == plain
    assert [list(of) for of in packed.values()] == [list(of) for of in plain.values()]
    assert packed.get("unknown", {}) == {}
    assert "unknown" not in packed


def test_packed_queries_are_those_of_a_dict():
    packed, plain = QueryPlaces(), dict[str, RecordPlace]()
    for _ in range(500):
        query, place = f"q{CHANCE.randrange(200)}", a_place().place
        if CHANCE.random() < 0.5:
            assert packed.setdefault(query, place) == plain.setdefault(query, place)
        else:
            packed[query] = plain[query] = place
    assert packed == plain
    assert list(packed) == list(plain)
    assert "unknown" not in packed
    first = next(iter(plain))
    del packed[first]
    with pytest.raises(KeyError):
        packed[first]


def test_a_set_of_names_tells_which_were_added():
    names, there = NameSet(), {f"name {CHANCE.getrandbits(64)} \ud800" for _ in range(20_000)}
    for name in (*there, *sorted(there)[:99]):
        names.add(name)
    assert len(names) == len(there)
    assert all(name in names for name in there)
    assert not any(f"{name} " in names for name in there)


def test_packed_names_have_the_first_place_that_was_noted():
    packed, plain = NamePlaces(), dict[str, RecordPlace]()
    for _ in range(20_000):
        name, place = f"{CHANCE.randrange(9000):064x}", a_place().place
        packed.setdefault(name, place)
        plain.setdefault(name, place)
    assert all(packed.get(name) == place for name, place in plain.items())
    assert packed.get("unknown") is None
    assert "unknown" not in packed


def test_packed_keys_have_the_first_place_that_was_noted_in_the_order_in_which_they_came():
    packed, plain = KeyedPlaces(), dict[str, RecordPlace]()
    for _ in range(20_000):
        key = CHANCE.choice((f"{CHANCE.randrange(9000):064x}", f"key {CHANCE.randrange(9)}", f"{'A':0>64}", ""))
        place = a_place().place
        packed.setdefault(key, place)
        plain.setdefault(key, place)
    assert list(packed.items()) == list(plain.items())
    assert len(packed) == len(plain)
    assert all(packed.get(key) == place for key, place in plain.items())
    assert packed.get("unknown") is None


def _ranked(query: str, *places: Ranked) -> GroupRanking:
    design = {"topology": "arena", "estimator": "tiers", "status": "complete", "signal": "ok"}
    return GroupRanking(query=query, rollouts=places, **design)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "ranks", [{}, {0: 0.0, 7: 1.5, 255: 127.5}, {0: 128.0}, {256: 0.0}, {-1: 0.5}, {0: 1 / 3, 1: None}, {2: -0.5}]
)
def test_the_ranks_that_are_kept_of_a_file_are_those_of_its_last_lines(ranks: dict[int, float | None], tmp_path: Path):
    places = tuple(Ranked(index=index, rank=rank) for index, rank in ranks.items())
    with a_run(tmp_path) as store:
        writer = store.open_ranking(a_head())
        for ranked in (_ranked("a"), _ranked("b"), _ranked("a", *places)):
            writer.add(ranked)
        writer.close()
        ranking = RunReader(store.folder).ranking()
    assert ranking.ranks_of("a") == {index: rank for index, rank in ranks.items() if rank is not None}
    assert (ranking.ranks_of("b"), ranking.ranks_of("c"), list(ranking.queries)) == ({}, {}, ["a", "b"])
