"""Parity with ArenaRL's own code: `anchor` with `tiers`, `round_robin` with `wins`."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from harness.core.rankings import Match
from harness.ranking.estimators import tiers, win_shares
from harness.ranking.fixed_pairs import Anchor, RoundRobin
from harness.ranking.rewards import place
from harness.ranking.topology import Pairing, Played, Topology, exact

VECTORS = Path(__file__).parents[1] / "data" / "vectors"
SOUND = {"matches": [], "order": False}


def _cases(topology: str) -> list[Any]:
    found: list[Any] = []
    for file in sorted(VECTORS.glob("n*.json")):
        cases = json.loads(file.read_text("utf-8"))["cases"]
        found += [pytest.param(c, id=c["id"]) for c in cases if c["reference"][topology]["float_hazards"] == SOUND]
    return found


def _play(case: Any, topology: Topology) -> None:
    for pairing in topology.pairings():
        topology.record(pairing, *_means(case, pairing))


def _means(case: Any, pairing: Pairing) -> tuple[Fraction, Fraction]:
    a, b = pairing.a, pairing.b
    (own, other), (other_first, own_second) = case["scores"][f"{a},{b}"], case["scores"][f"{b},{a}"]
    return (exact(own) + exact(own_second)) / 2, (exact(other) + exact(other_first)) / 2


def _match(played: Played) -> Match:
    a, b = played.score_a, played.score_b
    winner = None if a == b else played.pairing.a if a > b else played.pairing.b
    return Match(
        round=1,
        a=played.pairing.a,
        b=played.pairing.b,
        verdicts=(),
        shown_first=(),
        scores=(),
        score_a=float(a),
        score_b=float(b),
        winner=winner,
        flipped=False,
        inconsistent=False,
    )


def _agree(reference: Any, keys: Any, n: int) -> None:
    """The reference gives tied entrants the smallest rank, from 1; we the average, from 0: same order, same ties."""
    places = place(keys)
    ours, theirs = [places[i].rank for i in range(n)], reference["rank1_min"]
    assert [sum(r < own for r in ours) + 1 for own in ours] == theirs
    if len(set(theirs)) == n:
        assert [places[i].reward for i in range(n)] == pytest.approx(reference["rewards01"], abs=1e-12)
        found = [places[i].advantage for i in range(n)]
        assert found == pytest.approx(reference["advantage_pop_1e-8"], abs=1e-9)


@pytest.mark.parametrize("topology", ["anchor", "round_robin"])
def test_every_size_of_the_vectors_has_cases_of_each_topology(topology: str) -> None:
    assert {case.values[0]["n"] for case in _cases(topology)} == {2, 3, 4, 8}


@pytest.mark.parametrize("case", _cases("anchor"))
def test_the_anchor_ranks_as_the_reference_does(case: Any) -> None:
    anchor, reference = Anchor(range(case["n"]), 0), case["reference"]["anchor"]
    _play(case, anchor)
    assert len(anchor.matches) == reference["n_matches"]
    _agree(reference, tiers(anchor.standings()), case["n"])


@pytest.mark.parametrize("case", _cases("round_robin"))
def test_the_round_robin_ranks_by_wins_as_the_reference_does(case: Any) -> None:
    everyone, reference = RoundRobin(range(case["n"])), case["reference"]["round_robin"]
    _play(case, everyone)
    assert len(everyone.matches) == reference["n_matches"]
    _agree(reference, win_shares(range(case["n"]), [_match(p) for p in everyone.matches]), case["n"])
