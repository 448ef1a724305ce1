"""A ranked group in brief: what is read of its line without the matches is what its whole record says."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.archive.lines import encode, parse
from harness.archive.reader import RunReader
from harness.archive.typed_records import RANKED_QUERY, RankedQuery, read_in_brief
from harness.core.rankings import GroupRanking, Match, Ranked
from harness.core.records import to_json
from tests.archive.making import a_head, a_run

NUMBERS = st.none() | st.floats(-9, 9) | st.sampled_from([1e-9, 1e30, 0.0])
PLACES = st.builds(
    Ranked,
    index=st.integers(0, 99),
    score=NUMBERS,
    rank=st.none() | st.integers(0, 40).map(lambda halves: halves / 2),
    reward=NUMBERS,
    margin=NUMBERS,
    verified=NUMBERS,
)
WORDS = st.text(max_size=9) | st.sampled_from(['],"rollouts":[', '{"index":1,"rank":0.0', "q1"])


def a_match(verdicts: tuple[str, ...]) -> Match:
    return Match(
        round=1,
        a=0,
        b=1,
        verdicts=verdicts,
        shown_first=(0,) * len(verdicts),
        scores=((1.5, 2.0),) * len(verdicts),
        score_a=1.5,
        score_b=2.0,
        winner=1,
        flipped=False,
        inconsistent=False,
    )


def a_ranking(query: str, rollouts: tuple[Ranked, ...], **others: Any) -> GroupRanking:
    whole: dict[str, Any] = {"topology": "arena", "estimator": "tiers", "status": "complete", "signal": "ok"}
    return GroupRanking(query=query, rollouts=rollouts, **whole | others)


@given(WORDS, st.lists(PLACES, max_size=4), st.sampled_from(["complete", "incomplete"]), st.booleans(), WORDS)
def test_a_line_in_brief_says_what_its_record_says(
    query: str, places: list[Ranked], status: str, provisional: bool, word: str
) -> None:
    more: Any = {"matches": (a_match((word, word)),), "notes": (word,), "failed_verdicts": (word,)}
    ranking = a_ranking(query, tuple(places), status=status, provisional=provisional, **more)
    line = encode("group", to_json(ranking))
    known = RANKED_QUERY.validate(parse(line))
    assert (brief := read_in_brief(line)) == known or brief is None
    assert known.ranks == [(r.index, r.rank) for r in places if r.rank is not None]


def test_a_line_as_mostly_written_is_read_in_brief() -> None:
    places = tuple(Ranked(index=at, rank=rank, score=1.25e-7) for at, rank in enumerate([1.5, 0.0, None, 1.5]))
    line = encode("group", to_json(a_ranking("q 1", places, matches=(a_match(("k",)),), provisional=True)))
    assert read_in_brief(line) == RankedQuery(
        "q 1", is_open=False, provisional=True, ranks=[(0, 1.5), (1, 0.0), (3, 1.5)]
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"cut":false', b'"cut":false,"more":[],"rollouts":[],"failed_verdicts":[]'),
        (b'"explanation":null', b'"explanation":"so"'),
        (b'"explanation":null', b'"explanation":null,"more":{"index":1,"score":null,"rank":0.0,"x":1}'),
        (b'"rank":0.0', b'"rank":NaN'),
        (b'"query":"q"', b'"query":"\\u0071"'),
    ],
)
def test_a_line_that_is_not_as_written_is_not_read_in_brief(old: bytes, new: bytes) -> None:
    line = encode("group", to_json(a_ranking("q", (Ranked(index=0, rank=0.0),), matches=(a_match(("k",)),))))
    assert old in line
    assert read_in_brief(line)
    assert read_in_brief(line.replace(old, new, 1)) is None


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
    assert ranking.ranks_in("a") == {index: rank for index, rank in ranks.items() if rank is not None}
    assert (ranking.ranks_in("b"), ranking.ranks_in("c"), list(ranking.queries)) == ({}, {}, ["a", "b"])
