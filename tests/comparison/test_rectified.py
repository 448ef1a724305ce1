"""What people would say, estimated from verdicts and labels: the estimate, its interval, and what labels are worth."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.comparison.intervals import interval_of_share
from harness.comparison.outcomes import Clusters, Pair
from harness.comparison.rectified import LabelledSums, Rectified, drawing_weights, peoples_rate
from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from labels import CASES, Case, play


def pairs_of(judge: Sequence[float], people: Sequence[float | None]) -> dict[str, list[Pair]]:
    """A pair a query."""
    both = enumerate(zip(judge, people, strict=True))
    return {f"{at:04}": [Pair(outcome=outcome, said=said)] for at, (outcome, said) in both}


def drawn(count: int, labels: int, right: float, seed: int = 0) -> dict[str, list[Pair]]:
    """Pairs of which people prefer one half, with a judge that is right so often, and so many labels."""
    rng = np.random.default_rng(seed)
    people = rng.random(count) < 0.5
    judge = people ^ (rng.random(count) >= right)
    return pairs_of([*map(float, judge)], [float(said) if at < labels else None for at, said in enumerate(people)])


def rectified(pairs: Mapping[str, Sequence[Pair]], clusters: Mapping[str, str] | None = None) -> Rectified:
    return Rectified(LabelledSums.of(pairs, clusters))


def test_labels_of_all_pairs_give_what_people_said_and_the_interval_of_their_mean():
    pairs = drawn(24, 24, 0.7)
    people = {query: listed[0].said or 0.0 for query, listed in pairs.items()}
    alone = Rectified(LabelledSums.of(pairs), power_tuned=False).interval()
    by_t = interval_of_share(Clusters.of(people), 0)
    assert (alone.value, alone.low, alone.high) == pytest.approx((by_t.value, by_t.low, by_t.high))
    assert rectified(pairs).value == pytest.approx(by_t.value)


def test_the_interval_of_clusters_that_differ_in_size_is_that_of_a_comparison():
    pairs, clusters = drawn(24, 24, 0.7), {f"{at:04}": "large" for at in range(5)}
    people = {query: listed[0].said or 0.0 for query, listed in pairs.items()}
    alone = Rectified(LabelledSums.of(pairs, clusters), power_tuned=False).interval()
    by_t = interval_of_share(Clusters.of(people, clusters), 0)
    assert (alone.value, alone.low, alone.high) == pytest.approx((by_t.value, by_t.low, by_t.high))


def test_a_good_judge_is_trusted_and_saves_labels():
    estimate = rectified(drawn(400, 60, 0.95))
    assert estimate.trust > 0.8
    assert estimate.effective_labels > 150


def test_a_judge_that_says_nothing_costs_hardly_a_label():
    people = [float(at % 2) for at in range(60)] + [None] * 340
    estimate = rectified(pairs_of([0.0] * 400, people))
    assert (estimate.trust, estimate.value) == (0, pytest.approx(0.5))
    assert estimate.effective_labels == pytest.approx(60)


def test_a_judge_that_is_wrong_everywhere_by_the_same_leaves_the_estimate_with_people():
    judge = [1.0] * 350 + [0.0] * 50  # prefers B where people are divided
    people = [float(at % 2) if at % 5 == 0 else None for at in range(400)]
    rate = rectified(pairs_of(judge, people)).interval()
    assert rate.low < 0.5 < rate.high < sum(judge) / 400


def test_a_judge_that_never_erred_so_far_is_not_taken_for_one_that_never_errs():
    rate = rectified(drawn(400, 10, 1.0)).interval()
    assert rate.high - rate.low > 0.25


def test_pairs_that_a_failure_decided_count_as_they_are_and_nobody_is_asked_of_them():
    pairs = drawn(40, 40, 1.0)
    lost = {f"lost {at}": [Pair(outcome=0.0, forfeit="second", said=1.0)] for at in range(40)}
    assert rectified({**pairs, **lost}).value == pytest.approx(rectified(pairs).value / 2)
    assert LabelledSums.of({**pairs, **lost}).labels == 40


def test_labels_that_were_drawn_more_often_weigh_less():
    """Of pairs that B wins nine in ten are labelled, of the others one in ten: still one half is B's."""
    pairs = pairs_of([0.5] * 400, [1.0] * 180 + [None] * 20 + [0.0] * 20 + [None] * 180)
    weighed = {
        query: [replace(pair, weight=1.0 if pair.said else 9.0) for pair in listed] for query, listed in pairs.items()
    }
    assert rectified(pairs).value == pytest.approx(0.9)
    assert rectified(weighed).value == pytest.approx(0.5)


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=30), st.integers(0, 50))
def test_drawing_weights_stand_for_all_pairs_in_proportion_to_what_was_stored(weights: list[float], others: int):
    pairs = len(weights) + others
    made = drawing_weights(weights, pairs)
    assert made.sum() == pytest.approx(pairs)
    assert (made >= 1).all()
    assert (np.argsort(made, kind="stable") == np.argsort(np.maximum(made, 1), kind="stable")).all()


def test_more_labels_are_none_once_the_interval_is_narrow_and_unknown_where_all_pairs_would_not_do():
    estimate = rectified(drawn(2000, 100, 0.8))
    needed = estimate.more_labels(0.05)
    assert needed is not None
    assert 50 < needed < 500
    assert estimate.more_labels(0.2) == 0
    assert estimate.more_labels(0.01) is None


def test_fewer_than_six_labelled_clusters_give_no_rate():
    few = peoples_rate(drawn(40, 5, 0.8), None, 0)
    assert few
    assert (few.labels, few.clusters, few.rate) == (5, 5, None)
    one_document = peoples_rate(drawn(40, 12, 0.8), {f"{at:04}": "document" for at in range(12)}, 0)
    assert one_document
    assert (one_document.clusters, one_document.rate) == (1, None)
    assert peoples_rate(drawn(40, 0, 0.8), None, 0) is None


def test_agreement_counts_a_tie_of_one_of_them_as_one_half():
    said = peoples_rate(pairs_of([1.0, 0.5, 0.0] * 4, [1.0, 1.0, 1.0] * 4), None, 0)
    assert said
    assert said.agreement
    assert said.agreement.value == pytest.approx(0.5)


def test_the_order_of_the_queries_changes_nothing():
    pairs = drawn(60, 20, 0.8)
    assert peoples_rate(pairs, None, 0) == peoples_rate(dict(reversed(pairs.items())), None, 0)


@pytest.mark.parametrize("case", CASES[1:4:2], ids=lambda case: case.shape)
def test_intervals_hold_what_people_would_say_about_as_often_as_they_say(case: Case):
    assert play(case, 300).covered == pytest.approx(0.95, abs=0.04)


def test_a_judge_that_is_right_in_four_of_five_saves_three_labels_in_ten():
    assert play(CASES[-1], 100).saved == pytest.approx(0.3, abs=0.03)
