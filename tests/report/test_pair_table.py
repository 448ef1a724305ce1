"""Who beat whom: differences, both orders, flips and circles of wins, against a reading of the matches by hand."""

import json
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.rankings import Match
from harness.report.summary.pair_table import JudgedPair, cycles_sentence, judged_pairs, win_cycles
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import attempt


def match(a: int, b: int, *scores: tuple[int, float, float], repeated: bool = False) -> Match:
    """Return a match; each of `scores` is who stood first, what A scored, and what B scored."""
    means = [sum(score[side] for score in scores) / len(scores) for side in (1, 2)]
    signs = {(x > y) - (x < y) for _, x, y in scores}
    return Match(
        round=1,
        a=a,
        b=b,
        verdicts=tuple(f"{a}{b}{first}" for first, *_ in scores),
        shown_first=tuple(first for first, *_ in scores),
        score_a=means[0],
        score_b=means[1],
        winner=None if means[0] == means[1] else a if means[0] > means[1] else b,
        flipped={1, -1} <= signs,
        inconsistent=0 in signs and len(signs) > 1,
        repeated=repeated,
        scores=tuple((x, y) if first == a else (y, x) for first, x, y in scores),
    )


def pairs_of(*matches: Match) -> dict[tuple[int, int], JudgedPair]:
    return judged_pairs(matches)


def test_a_pair_has_the_mean_difference_both_orders_and_the_flip() -> None:
    pair = pairs_of(match(4, 1, (4, 7.0, 6.0), (1, 5.0, 5.5)))[1, 4]
    assert (pair.difference, pair.flipped) == (-0.25, True)
    assert (pair.led_when_first(1), pair.led_when_first(4)) == (0.5, -1.0)
    assert pair.mirrored.difference == 0.25
    assert (pair.mirrored.led_when_first(4), pair.mirrored.row) == (1.0, 4)


def test_orders_played_as_matches_of_their_own_flip_together_and_a_repetition_counts_once() -> None:
    pairs = pairs_of(match(0, 1, (0, 6.0, 5.0)), match(1, 0, (1, 6.0, 5.5)), match(0, 1, (0, 6.0, 5.0), repeated=True))
    assert pairs[0, 1].flipped
    assert pairs[0, 1].difference == 0.25
    assert pairs[0, 1].matches == (1, 2, 3)
    assert pairs[0, 1].led_when_first(1) == -0.5


@given(st.dictionaries(st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda p: p[0] < p[1]), st.floats(-3, 3)))
def test_circles_of_three_are_all_there_and_every_circle_named_is_one(leads: dict[tuple[int, int], float]) -> None:
    pairs = [JudgedPair(a, b, lead, (), flipped=False, matches=()) for (a, b), lead in leads.items()]
    beats = {(a, b) if lead > 0 else (b, a) for (a, b), lead in leads.items() if lead}
    cycles = win_cycles(pairs)
    threes = {
        (x, y, z) for x, y, z in permutations(range(6), 3) if x == min(x, y, z) and {(x, y), (y, z), (z, x)} <= beats
    }
    assert {cycle for cycle in cycles if len(cycle) == 3} == threes
    for cycle in cycles:
        assert {*zip(cycle, (*cycle[1:], cycle[0]), strict=True)} <= beats
    reach = {*beats}
    for via in range(6):
        reach |= {(x, z) for x, y in reach if y == via for y2, z in reach if y2 == via}
    assert bool(cycles) == any((x, x) in reach for x in range(6))


def test_circles_are_named_in_words_and_only_a_few_of_many() -> None:
    assert cycles_sentence([(1, 4, 6)]) == "wins go in circles: 1 beats 4 beats 6 beats 1"
    assert cycles_sentence([(0, 1, 2)] * 5).endswith("; and 2 more")
    assert cycles_sentence([]) == ""


def test_show_prints_the_table_where_more_than_half_of_the_pairs_met(tmp_path: Path) -> None:
    room = Room.make(tmp_path / "room")

    def harness(*argv: str) -> tuple[int | None, str, str]:
        done = attempt(argv, room.work, room.environ())
        return done.code, done.out_text, done.err_text

    assert harness("run", "Lisp?", "--offline", "-n", "5", "-q", "--no-report", "--topology", "round_robin")[0] == 0
    shown = json.loads(harness("show", "--matrix", "--json")[1])
    (group,) = json.loads(harness("show", "--json")[1])["groups"]
    ranks = {r["index"]: r["rank"] for r in group["rollouts"]}
    assert [ranks[index] for index in shown["rollouts"]] == sorted(ranks.values())
    matches = json.loads(harness("show", "--matches", "--json")[1])
    by_hand = {(m["a"], m["b"]): m["score_a"] - m["score_b"] for m in matches}
    for pair in shown["pairs"]:
        a, b = pair["a"], pair["b"]
        lead = by_hand[a, b] if (a, b) in by_hand else -by_hand[b, a]
        assert pair["difference"] == pytest.approx(lead)
    assert (shown["met"], shown["of"], len(shown["pairs"])) == (10, 10, 10)
    code, text, _ = harness("show", "--matrix")
    assert (code, text.splitlines()[1].split()) == (0, [str(index) for index in shown["rollouts"]])
    assert harness("rescore", "--topology", "anchor", "-q")[0] == 0
    code, text, errors = harness("show", "--matrix")
    assert (code, text) == (2, "")
    assert "4 of 10" in errors
