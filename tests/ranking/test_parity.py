"""Parity with ArenaRL's own code, where tests/data/vectors/README.md says that there is parity."""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from harness.ranking.estimators import tiers
from harness.ranking.knockout import Arena
from harness.ranking.rewards import place
from harness.ranking.topology import Pairing, exact

VECTORS = Path(__file__).parents[1] / "data" / "vectors"


def _cases() -> list[Any]:
    found: list[Any] = []
    for n in (2, 4, 8):
        for case in json.loads((VECTORS / f"n{n:02}.json").read_text("utf-8"))["cases"]:
            reference = case["reference"]["single_elimination"]
            if reference["n_tied_matches"] == 0 and reference["float_hazards"] == {"matches": [], "order": False}:
                found.append(pytest.param(case, id=case["id"]))
    return found


CASES = _cases()


def _played(case: Any) -> Arena:
    arena = Arena(range(case["n"]), 0)
    while pairings := arena.pairings():
        for pairing in pairings:
            arena.record(pairing, *_means(case, pairing))
    return arena


def _means(case: Any, pairing: Pairing) -> tuple[Fraction, Fraction]:
    """Each side's mean over the two orders."""
    a, b = pairing.a, pairing.b
    (own, other), (other_first, own_second) = case["scores"][f"{a},{b}"], case["scores"][f"{b},{a}"]
    return (exact(own) + exact(own_second)) / 2, (exact(other) + exact(other_first)) / 2


def _rounds(n: int, matches: list[Any]) -> list[set[frozenset[int]]]:
    """The reference's flat list of matches, cut into its rounds: n-1 of seeding, then n/2, n/4, ... 1."""
    sizes, rounds = [n - 1], []
    while n > 1:
        n //= 2
        sizes.append(n)
    for size in sizes:
        rounds.append({frozenset((m["p1"], m["p2"])) for m in matches[:size]})
        matches = matches[size:]
    return rounds


def test_there_are_parity_cases_of_every_size_that_the_readme_names() -> None:
    assert {c.values[0]["n"] for c in CASES} == {2, 4, 8}


@pytest.mark.parametrize("case", CASES)
def test_the_arena_plays_the_reference_s_matches_round_by_round(case: Any) -> None:
    reference, arena = case["reference"]["single_elimination"]["matches"], _played(case)
    ours: list[set[frozenset[int]]] = [set() for _ in range(1 + (case["n"] - 1).bit_length())]
    for played in arena.matches:
        ours[played.pairing.round].add(frozenset((played.pairing.a, played.pairing.b)))
    assert ours == _rounds(case["n"], reference)


@pytest.mark.parametrize("case", CASES)
def test_the_arena_s_scores_are_half_of_the_reference_s_sums(case: Any) -> None:
    reference, arena = case["reference"]["single_elimination"], _played(case)
    sums = {frozenset([(m["p1"], round(m["s1"], 6)), (m["p2"], round(m["s2"], 6))]) for m in reference["matches"]}
    ours = {
        frozenset([(p.pairing.a, round(float(2 * p.score_a), 6)), (p.pairing.b, round(float(2 * p.score_b), 6))])
        for p in arena.matches
    }
    assert ours == sums
    for standing in arena.standings():
        assert math.isclose(2 * standing.mean, reference["avg_point"][str(standing.entrant)])


@pytest.mark.parametrize("case", CASES)
def test_the_arena_gives_the_reference_s_ranks_rewards_and_advantages(case: Any) -> None:
    reference = case["reference"]["single_elimination"]
    placed = place(tiers(_played(case).standings()))
    found = [placed[i] for i in range(case["n"])]
    assert [p.rank for p in found] == reference["rank0"]
    assert [p.reward for p in found] == pytest.approx(reference["rewards01"], abs=1e-12)
    assert [p.advantage for p in found] == pytest.approx(reference["advantage_pop_1e-8"], abs=1e-9)
