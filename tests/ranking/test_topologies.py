"""What holds of every topology, by name: it ends, within what it says, and depends on no chance but its rng."""

import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.core.settings import OrderPolicy, TopologyName
from harness.core.settings_sources import load
from harness.ranking.estimators import tiers
from harness.ranking.fixed_pairs import Cyclic, RoundRobin
from harness.ranking.rewards import place
from harness.ranking.topologies import NEED_ANCHOR, TOPOLOGIES, Entry, calls_bounds, make_topology
from harness.ranking.topology import Exact, Pairing, Topology, exact, in_units, standings_in_units
from tests.ranking.playing import Field, InOrder, Table, arenas, play

NAMES: tuple[TopologyName, ...] = get_args(TopologyName)
COMPLETE: dict[str, type[RoundRobin] | type[Cyclic]] = {"round_robin": RoundRobin, "cyclic": Cyclic}
names = st.sampled_from(NAMES)


def made(name: TopologyName, field: Field, order: OrderPolicy | None = None, budget: int | None = None) -> Topology:
    return make_topology(name, Entry(field.entrants, field.anchor, order, random.Random(7), budget))


orders: st.SearchStrategy[OrderPolicy | None] = st.sampled_from([None, "both", "balanced", "single"])


@given(names, arenas(), orders)
def test_every_topology_ends_within_its_stated_numbers_of_matches_and_calls(
    name: TopologyName, field: Field, order: OrderPolicy | None
) -> None:
    judged = play(made(name, field, order), field.table, field.replies)
    n = len(field.entrants)
    fewest, most = TOPOLOGIES[name].matches(n, order, None)
    assert fewest <= len(judged) <= most
    low, high = calls_bounds(name, n, order)
    assert low <= sum(len(p.orders) for p in judged) <= high


@given(arenas(), orders, st.integers(1, 1200))
def test_a_budget_is_kept_and_used_up_as_far_as_there_is_something_to_judge(
    field: Field, order: OrderPolicy | None, budget: int
) -> None:
    calls = sum(len(p.orders) for p in play(made("cyclic", field, order, budget), field.table, field.replies))
    n = len(field.entrants)
    all_there_is = n * (n - 1) if order in {None, "both"} else n * (n - 1) // 2
    assert calls == min(budget - budget % 2 if order == "both" else budget, all_there_is)
    assert calls_bounds("cyclic", n, order, budget) == (calls, calls)


@given(names, arenas(), orders, st.sampled_from([0, 1, 4, 6]), st.integers(0, 10**6))
def test_whole_units_give_the_places_and_means_that_fractions_of_points_give(
    name: TopologyName, field: Field, order: OrderPolicy | None, places: int, seed: int
) -> None:
    def scores(a: int, b: int) -> list[float]:
        rng = random.Random(f"{seed}/{min(a, b)}/{max(a, b)}")
        of = {entrant: round(rng.uniform(4, 6), places) for entrant in sorted((a, b))}
        return [of[a], of[b]]

    def told_in(number: Callable[[float], Exact]) -> Topology:
        topology = made(name, field, order)
        play(topology, lambda a, b: (number(scores(a, b)[0]), number(scores(a, b)[1])))
        return topology

    points, units = told_in(exact), told_in(in_units)
    assert place(tiers(units.standings())) == place(tiers(points.standings()))
    assert [s.mean for s in standings_in_units(units)] == [s.mean for s in points.standings()]


@given(names, arenas(), orders, st.none() | st.integers(1, 1200))
def test_no_pair_is_asked_twice_in_the_same_order(
    name: TopologyName, field: Field, order: OrderPolicy | None, budget: int | None
) -> None:
    asked = Counter(o for p in play(made(name, field, order, budget), field.table, field.replies) for o in p.orders)
    assert set(asked.values()) <= {1}
    assert all(first != second for first, second in asked)


@given(names, arenas())
def test_a_repeated_match_has_the_scores_of_the_first_meeting(name: TopologyName, field: Field) -> None:
    topology = made(name, field)
    play(topology, field.table, field.replies)
    before: dict[frozenset[int], dict[int, Exact]] = {}
    for played in topology.matches:
        a, b = played.pairing.a, played.pairing.b
        scores = {a: played.score_a, b: played.score_b}
        assert played.repeated == (frozenset((a, b)) in before)
        assert before.setdefault(frozenset((a, b)), scores) == scores


@given(names, arenas(), orders, st.none() | st.integers(1, 1200))
def test_the_outcome_of_a_topology_does_not_depend_on_the_order_of_the_replies(
    name: TopologyName, field: Field, order: OrderPolicy | None, budget: int | None
) -> None:
    one, other = made(name, field, order, budget), made(name, field, order, budget)
    play(one, field.table, field.replies)
    play(other, field.table)
    assert (one.matches, one.standings()) == (other.matches, other.standings())


@given(names, arenas())
def test_every_entrant_has_a_standing_with_a_point_for_each_of_its_matches(name: TopologyName, field: Field) -> None:
    topology = made(name, field)
    play(topology, field.table, field.replies)
    standings = topology.standings()
    assert [s.entrant for s in standings] == sorted(field.entrants)
    if name not in NEED_ANCHOR:
        counts = Counter(e for p in topology.matches for e in (p.pairing.a, p.pairing.b))
        assert {s.entrant: len(s.points) for s in standings} == {e: counts[e] for e in field.entrants}
    assert name == "none" or len(field.entrants) == 1 or all(s.points for s in standings)


@given(names, arenas())
def test_advantages_have_mean_0_and_population_std_1_unless_all_are_level(name: TopologyName, field: Field) -> None:
    topology = made(name, field)
    play(topology, field.table, field.replies)
    found = [p.advantage for p in place(tiers(topology.standings())).values()]
    mean = sum(found) / len(found)
    deviation = (sum((a - mean) ** 2 for a in found) / len(found)) ** 0.5
    assert mean == pytest.approx(0, abs=1e-9)
    assert deviation == pytest.approx(1, abs=1e-6) or set(found) == {0.0}


@given(st.sampled_from(sorted(COMPLETE)), arenas(), st.randoms(use_true_random=False))
def test_a_judge_who_knows_puts_the_stronger_above_the_weaker_where_all_meet(
    name: str, field: Field, rng: random.Random
) -> None:
    n = len(field.entrants)
    strength = dict(zip(field.entrants, rng.sample(range(n), n), strict=True))
    topology = Cyclic(field.entrants, budget=n * (n - 1) // 2) if name == "cyclic" else RoundRobin(field.entrants)
    play(topology, lambda a, b: (Fraction(strength[a] > strength[b]), Fraction(strength[b] > strength[a])))
    places = place(tiers(topology.standings()))
    assert sorted(field.entrants, key=lambda e: places[e].rank) == sorted(field.entrants, key=lambda e: -strength[e])


ANY_ORDER = {"round_robin", "cyclic", "none"}
"""The order in which the entrants of these are named does not matter; of others it is relabelled like the entrants."""


@given(names, arenas(16), st.randoms(use_true_random=False))
def test_relabelling_the_entrants_relabels_the_result(name: TopologyName, field: Field, rng: random.Random) -> None:
    """Seeds are relabelled as well; where the topology finds them itself, only where they differ. Complete designs."""
    entrants = list(field.entrants)
    other = dict(zip(entrants, rng.sample(entrants, len(entrants)), strict=True))
    back = {new: old for old, new in other.items()}

    def make(label: dict[int, int]) -> Topology:
        named = entrants if name in NEED_ANCHOR or name in ANY_ORDER else [label[e] for e in entrants]
        budget = len(entrants) * (len(entrants) - 1) // 2 or None
        order = "both" if name != "cyclic" else None
        return make_topology(name, Entry(named, label[field.anchor], order, InOrder(), budget))

    def points(topology: Topology) -> dict[int, tuple[float, ...]]:
        return dict(tiers(topology.standings()))

    one, relabelled = make({e: e for e in entrants}), make(other)
    play(one, field.table)
    seeds = [s.seed_score for s in one.standings()]
    assume(name not in NEED_ANCHOR or len(set(seeds)) == len(seeds))
    play(relabelled, lambda a, b: field.table(back[a], back[b]))
    assert {other[e]: key for e, key in points(one).items()} == points(relabelled)


@given(names, arenas(9))
def test_every_topology_refuses_a_pairing_that_is_not_open(name: TopologyName, field: Field) -> None:
    topology = made(name, field)
    for pairing in [*play(topology, field.table), Pairing(98, 99, 1, ((98, 99),))]:
        with pytest.raises(ValueError, match="no open match"):
            topology.record(pairing, Fraction(1), Fraction(0))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("entrants", [(), (1, 1)])
def test_every_topology_needs_distinct_entrants(name: TopologyName, entrants: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"distinct|anchor"):
        make_topology(name, Entry(entrants, 1, None, random.Random(0)))


@pytest.mark.parametrize("name", sorted(NEED_ANCHOR))
def test_what_needs_an_anchor_and_has_none_plays_single_elimination(name: TopologyName) -> None:
    assert make_topology(name, Entry(range(5), None, None, random.Random(0))).name == "single"


@pytest.mark.parametrize("name", sorted(set(NAMES) - NEED_ANCHOR))
def test_what_needs_no_anchor_goes_on_without_one(name: TopologyName) -> None:
    assert make_topology(name, Entry(range(1, 5), None, None, random.Random(0))).name == name


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_no_score(score: float) -> None:
    with pytest.raises(ValueError, match=r"nan|inf"):
        exact(score)


def _drawn(rng: random.Random) -> Table:
    return lambda a, b: (Fraction(rng.randint(0, 100), 10), Fraction(rng.randint(0, 100), 10))


@pytest.mark.few(16)
@pytest.mark.parametrize("n", [63, 64, 65, 127, 128, 129, 200, 255, 256])
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"round_robin"}))
def test_large_groups_end_as_small_ones_do(name: TopologyName, n: int) -> None:
    rng = random.Random(n)
    topology, table, judged = make_topology(name, Entry(range(n), 0, None, rng)), _drawn(rng), 0
    while pairings := topology.pairings():
        for pairing in pairings:
            topology.record(pairing, *table(pairing.a, pairing.b))
        judged += len(pairings)
    fewest, most = TOPOLOGIES[name].matches(n, None, None)
    assert fewest <= judged <= most


def test_a_round_robin_of_256_has_every_pair_once() -> None:
    pairings = RoundRobin(range(256)).pairings()
    assert len({frozenset((p.a, p.b)) for p in pairings}) == len(pairings) == 256 * 255 // 2


@pytest.mark.parametrize("order", [None, *get_args(OrderPolicy)])
def test_auto_asks_for_as_many_calls_as_arena_at_most(order: OrderPolicy | None) -> None:
    for n in range(2, 33):
        auto = load({"topology": "auto", "n": n, "order": order})
        assert calls_bounds(auto.tournament, n, order, auto.budget)[1] == calls_bounds("arena", n, order)[1]


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("arena", (22, 26)),
        ("anchor", (14, 14)),
        ("single", (14, 14)),
        ("double", (22, 28)),
        ("swiss", (24, 24)),
        ("round_robin", (56, 56)),
        ("cyclic", (28, 28)),
        ("none", (0, 0)),
    ],
)
def test_the_calls_for_eight_rollouts_are_those_of_the_docs(name: TopologyName, calls: tuple[int, int]) -> None:
    assert calls_bounds(name, 8) == calls
