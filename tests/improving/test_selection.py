"""Which candidate is best, as far as leads tell, and which cross matches come next."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.comparisons import CrossMatch
from harness.improving.selection import CrossLead, candidate_posterior, next_crosses

QUERIES = [f"q{number:02}" for number in range(40)]


def leads_of(
    worth: Sequence[float], pairs: Sequence[tuple[int, int]], *, noise: float = 1.0, particular: float = 0.0, seed=0
) -> list[CrossLead]:
    """Return the leads of these pairs on each query."""
    rng = np.random.default_rng(seed)
    leads: list[CrossLead] = []
    for query in QUERIES:
        own = np.array(worth) + particular * rng.normal(size=len(worth))
        leads += [CrossLead(query, a, b, float(own[b] - own[a] + noise * rng.normal())) for a, b in pairs]
    return leads


def test_a_candidate_that_leads_everywhere_is_the_best_and_the_others_are_dropped():
    found = candidate_posterior(leads_of([0, 0.2, 2.5], [(0, 1), (1, 2), (0, 2)]), 3)
    assert found.best == 2
    assert found.p_best[2] > 0.99
    assert found.dropped == (0, 1)
    assert found.worth[0].value == 0.5
    assert found.worth[0].low == found.worth[0].high == 0.5
    assert 0.9 < found.worth[2].low < found.worth[2].value < found.worth[2].high
    assert found.p_above(2, 0) > 0.99
    assert found.p_above(0, 2) == pytest.approx(1 - found.p_above(2, 0))


def test_nothing_is_dropped_where_nothing_is_known():
    found = candidate_posterior([], 60)
    assert found.dropped == ()
    assert found.front == tuple(range(60))
    assert all(worth.low < 0.1 < 0.9 < worth.high for worth in found.worth[1:])


def test_a_candidate_that_is_best_on_some_queries_alone_stands_in_the_front():
    of_one = [CrossLead(query, 0, 1, 3.0 if query < "q30" else -3.0) for query in QUERIES]
    found = candidate_posterior(of_one, 2)
    assert found.front == (0, 1)
    found = candidate_posterior(leads_of([0, 3], [(0, 1)], noise=0.1), 2)
    assert found.front == (1,)


def test_leads_on_one_query_count_for_less_than_leads_on_many():
    leads = [CrossLead(query, 0, 1, 1.0 + (at % 5) / 2) for at, query in enumerate(QUERIES)]
    on_four = [replace(lead, query=QUERIES[at % 4]) for at, lead in enumerate(leads)]
    assert candidate_posterior(on_four, 2).worth[1].low < candidate_posterior(leads, 2).worth[1].low


def test_the_intervals_hold_what_they_promise_where_rollouts_meet_several_times():
    held = 0
    for seed in range(100):
        rng = np.random.default_rng(5000 + seed)
        worth = [0.0, *(0.5 * rng.normal(size=4))]
        pairs = [(a, b) for b in range(5) for a in range(b)]
        found = candidate_posterior(leads_of(worth, pairs, noise=1.5, particular=1.0, seed=seed), 5)
        lead = found.means - found.means[0]
        spread = np.sqrt(np.diag(found.covariance) + found.covariance[0, 0] - 2 * found.covariance[0])
        held += int((np.abs(lead - worth)[1:] < 1.96 * spread[1:]).sum())
    assert 0.92 < held / 400 < 0.985


@given(st.integers(0, 1000))
def test_neither_order_of_the_leads_nor_their_direction_changes_anything(seed: int):
    leads = leads_of([0, 1, 1.5], [(0, 1), (1, 2)], particular=1.0, seed=seed)[:30]
    turned = [CrossLead(lead.query, lead.right, lead.left, -lead.lead) for lead in leads[::-1]]
    one, other = candidate_posterior(leads, 3), candidate_posterior(turned, 3)
    assert np.allclose(one.means, other.means)
    assert np.allclose(one.covariance, other.covariance)


@pytest.mark.parametrize("lead", [CrossLead("q", 0, 2, 1.0), CrossLead("q", 1, 1, 1.0), CrossLead("q", -1, 1, 1.0)])
def test_a_lead_of_no_candidate_is_refused(lead: CrossLead):
    with pytest.raises(ValueError, match=r"two different candidates out of 0\.\.1"):
        candidate_posterior([lead], 2)


def test_a_match_becomes_the_lead_of_the_candidates_that_met():
    judged = CrossMatch(sides=(0, 1), role="sample", first=0, second=0, score_first=4, score_second=6, winner="second")
    lost = CrossMatch(sides=(0, 1), role="sample", first=0, second=0, forfeit="second")
    still_open = CrossMatch(sides=(0, 1), role="sample", first=0, second=0)
    assert CrossLead.of("q", judged, [3, 7]) == CrossLead("q", 3, 7, 2.0)
    assert CrossLead.of("q", lost, [3, 7]) == CrossLead("q", 3, 7, -1.0, forfeit=True)
    assert CrossLead.of("q", still_open, [3, 7]) is None


def test_a_forfeit_counts_as_a_usual_lead():
    leads = [CrossLead(query, 0, 1, 2.0) for query in QUERIES[:20]]
    forfeits = [CrossLead(query, 0, 1, 1.0, forfeit=True) for query in QUERIES[20:]]
    plain = candidate_posterior([CrossLead(query, 0, 1, 2.0) for query in QUERIES], 2)
    assert np.allclose(candidate_posterior(leads + forfeits, 2).means, plain.means)
    assert candidate_posterior(forfeits, 2).worth[1].value > 0.9


def test_the_next_crosses_let_contenders_meet_and_no_pair_twice_on_a_query():
    leads = leads_of([0, 2, 2.1, 0.1], [(0, 1), (1, 2), (2, 3)], noise=0.7)
    found = candidate_posterior(leads, 4)
    crosses = next_crosses(found, leads, [*QUERIES, "new"], 30)
    assert len({*crosses}) == len(crosses)
    assert all({left, right} <= {0, 1, 2, 3} - {*found.dropped} for _, left, right in crosses)
    assert not {(lead.query, lead.left, lead.right) for lead in leads} & {*crosses}


def test_a_new_candidate_meets_somebody_first():
    leads = leads_of([0, 1], [(0, 1)])
    crosses = next_crosses(candidate_posterior(leads, 3), leads, QUERIES, 5)
    assert all(2 in cross for cross in crosses)


def test_dear_rollouts_are_used_again():
    leads = leads_of([0, 0.1, 0.2], [(0, 1)])[:4]
    leads += [CrossLead(lead.query, 1, 2, 0.3) for lead in leads[:4]]
    found = candidate_posterior(leads, 3)
    used = {lead.query for lead in leads}
    cheap, dear = (next_crosses(found, leads, QUERIES, 3, rollout_cost=cost) for cost in (0.0, 50.0))
    assert {query for query, *_ in dear} <= used
    assert not {query for query, *_ in cheap} & used


def test_the_two_most_probable_ones_go_on_where_all_but_one_are_dropped():
    leads = leads_of([0, 4, 0.5], [(0, 1), (1, 2)])
    found = candidate_posterior(leads, 3)
    assert found.dropped == (0, 2)
    assert {1} < {*next_crosses(found, leads, ["new"], 1)[0][1:]}


def test_no_match_is_left_where_all_have_met():
    leads = [CrossLead("q", 0, 1, 0.1)]
    assert next_crosses(candidate_posterior(leads, 2), leads, ["q"], 5) == []
    assert next_crosses(candidate_posterior([], 1), [], ["q"], 5) == []
