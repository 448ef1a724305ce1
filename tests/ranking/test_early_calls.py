"""Calls that are sure before all entrants are known: asked for by every tournament that may come of it."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.settings import OrderPolicy, TopologyName
from harness.ranking.topologies import TOPOLOGIES, Entry, make_topology, sure_calls

ORDERS = st.sampled_from([None, "both", "balanced", "single"])
FATES = st.lists(st.sampled_from(["in", "out", "pending, in", "pending, out"]), min_size=2, max_size=9)


@given(st.sampled_from(sorted(TOPOLOGIES)), ORDERS, st.none() | st.integers(1, 40), FATES, st.booleans())
def test_every_sure_call_is_asked_for_at_the_beginning_whoever_of_the_pending_enters(
    name: TopologyName, order: OrderPolicy | None, budget: int | None, fates: list[str], anchored: bool
):
    there = [k for k, fate in enumerate(fates) if fate == "in"]
    pending = [k for k, fate in enumerate(fates) if fate.startswith("pending")]
    entrants = [k for k, fate in enumerate(fates) if fate.endswith("in")]
    anchor = 0 if anchored else None
    sure = sure_calls(name, Entry(there, anchor if 0 in there else None, order, Random(1), budget), pending)
    if not entrants:
        assert sure == set()
        return
    entry = Entry(entrants, anchor if 0 in entrants else None, order, Random(1), budget)
    asked = {call for pairing in make_topology(name, entry).pairings() for call in pairing.orders}
    assert sure <= asked


def sure_of(name: TopologyName, there: list[int], pending: list[int], **options: Any) -> set[tuple[int, int]]:
    entry = Entry(there, 0 if 0 in there else None, options.pop("order", None), Random(0), **options)
    return set(sure_calls(name, entry, pending))


@pytest.mark.parametrize("name", ["arena", "anchor"])
def test_all_who_are_there_surely_meet_the_anchor_in_both_orders(name: TopologyName):
    assert sure_of(name, [0, 2, 5], [1, 3, 4, 6, 7]) == {(2, 0), (0, 2), (5, 0), (0, 5)}
    assert sure_of(name, [1, 2, 3], [0]) == set()


def test_all_pairs_of_those_who_are_there_surely_meet_in_a_round_robin():
    assert len(sure_of("round_robin", [0, 2, 5, 7], [1, 3, 4, 6])) == 12


def test_most_pairs_of_cyclic_are_sure_once_one_rollout_is_left():
    assert len(sure_of("cyclic", [0, 1, 2, 3, 4, 5, 6], [7])) >= 15
    assert sure_of("cyclic", [0, 1], [2, 3, 4, 5, 6, 7]) == set()


@pytest.mark.parametrize("name", ["single", "double", "swiss", "none"])
def test_nothing_is_sure_where_chance_decides_or_nobody_meets(name: TopologyName):
    assert sure_of(name, [0, 1, 2, 3], [4]) == set()
