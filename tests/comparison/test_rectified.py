"""What people would say, estimated from verdicts and labels: the estimate, its interval, and what labels are worth."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.comparison.conclusions import compare_queries
from harness.comparison.gate import contradicted, look_by_people
from harness.comparison.intervals import interval_of_share
from harness.comparison.outcomes import Clusters, Pair, PairLabel, PairPlace, side_pairs
from harness.comparison.rectified import LabelledSums, Rectified, drawing_weights, peoples_rate
from harness.core.comparisons import ComparedQuery, Interval, PeoplesRate
from harness.core.gates import InterimAnalysis
from tests.comparisons_by_hand import Writer, a_side
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


def labelled(queries: Sequence[ComparedQuery], said: float, *, every: int = 1) -> dict[PairPlace, PairLabel]:
    """Say the same of all pairs of samples of some queries."""
    matches = [(query.query, match) for query in queries[::every] for match in query.matches if match.role == "sample"]
    return {(query, match.sides, match.first, match.second): PairLabel(said) for query, match in matches}


def test_the_conclusion_of_two_sides_goes_by_people():
    queries = [Writer().query(number, (1.0, 1.0)) for number in range(20)]
    by_judge = compare_queries(queries, [a_side("A"), a_side("B")])
    by_people = compare_queries(queries, [a_side("A"), a_side("B")], labels_of_people=labelled(queries, 0.0))
    assert by_judge.results[0].shown == "better"
    assert by_people.results[0].shown == "worse"
    assert by_people.results[0].deciding_queries is None
    assert "by people, with 40 labelled pairs, in 0 % [0, 17]. Clear winner:" in by_people.sentence
    few = compare_queries(queries, [a_side("A"), a_side("B")], labels_of_people=labelled(queries, 0.0, every=4))
    assert few.results[0].shown == "better"


def test_holms_correction_of_several_sides_takes_peoples_p():
    queries = [Writer().query(number, (1.0, 1.0), sides=3) for number in range(20)]
    said = labelled(queries, 0.0)
    tied = {place: PairLabel(0.5) if place[1] == (0, 1) else label for place, label in said.items()}
    results = compare_queries(queries, [a_side(label) for label in "ABC"], labels_of_people=tied).results
    assert [result.shown for result in results] == [None, "worse", "worse"]
    assert results[0].deciding_p == results[0].p_holm == 1


@pytest.mark.parametrize("every", [1, 2])
def test_strengths_of_several_sides_go_by_people_where_their_labels_tell_of_each_two(every: int):
    queries = [Writer().query(number, (1.0, 1.0), sides=3) for number in range(20)]
    said = labelled(queries, 0.0, every=every)
    sides = [a_side(label) for label in "ABC"]
    by_judge = compare_queries(queries, sides).strengths
    by_people = compare_queries(queries, sides, labels_of_people=said).strengths
    assert [side.strength.value for side in by_people] == pytest.approx([-side.strength.value for side in by_judge])
    assert all(side.strength.low < side.strength.value < side.strength.high for side in by_people)
    of_two = {place: label for place, label in said.items() if place[1] == (0, 1)}
    by_two = compare_queries(queries, sides, labels_of_people=of_two).strengths
    assert [side.strength for side in by_two] == [side.strength for side in by_judge]


def test_intervals_of_strengths_are_as_wide_as_what_the_labels_leave_open():
    rng = np.random.default_rng(0)
    queries = [Writer().query(n, (float(rng.choice([-1, 1])),) * 2, sides=3) for n in range(40)]
    said = {place: PairLabel(float(rng.integers(2))) for place in labelled(queries, 0.0)}
    few = dict([*said.items()][: len(said) // 3])
    sides = [a_side(label) for label in "ABC"]
    of_all, of_few = (compare_queries(queries, sides, labels_of_people=labels).strengths for labels in (said, few))
    widths = [[side.strength.high - side.strength.low for side in strengths] for strengths in (of_all, of_few)]
    assert 1.3 < np.mean(widths[1]) / np.mean(widths[0]) < 2.2  # a third of the labels: sqrt(3)


def test_an_analysis_by_people_takes_its_own_standard_errors_and_counts_open_pairs_against_any_finding():
    def look(queries: Sequence[ComparedQuery], *, alone: bool) -> InterimAnalysis:
        judged = InterimAnalysis(queries=40, critical=2.96, win_rate=1.0, interval=(0.9, 1.0), finding="not worse")
        said = {place: PairLabel(float(at % 3 > 0)) for at, place in enumerate(labelled(queries, 0.0))}
        return look_by_people(judged, side_pairs(queries, (0, 1), labels=said), None, 0.05, alone=alone)

    queries = [Writer().query(number, (1.0,)) for number in range(60)]
    only, one_of_many = look(queries, alone=True), look(queries, alone=False)
    assert (only.labels, only.finding) == (60, "not worse")
    assert one_of_many.interval[0] < only.interval[0]
    with_open = [Writer().query(number, (1.0,), open_pairs=number % 2) for number in range(60)]
    assert look(with_open, alone=True).interval[0] < only.interval[0] - 0.2
    assert look(queries[:5], alone=True).labels is None


def test_a_judge_is_contradicted_only_where_its_agreement_is_surely_below_the_least():
    agreement = Interval(value=0.5, low=0.42, high=0.58)
    people = PeoplesRate(labels=90, clusters=90, rate=agreement, agreement=agreement)
    assert "the judge agrees with people on 50 % [42, 58]" in (contradicted(people, 0.6) or "")
    assert contradicted(people, 0.55) is contradicted(None, 0.6) is None
    assert contradicted(PeoplesRate(labels=3, clusters=3), 0.6) is None


@pytest.mark.parametrize("seed", range(12))
def test_p_is_at_most_five_per_cent_where_the_interval_leaves_out_one_half(seed: int):
    pairs = drawn(120, 30, 0.8, seed)
    lopsided = {at: pair if seed % 3 else [replace(pair[0], said=pair[0].said and 1.0)] for at, pair in pairs.items()}
    estimate = rectified(lopsided)
    interval = estimate.interval()
    assert (estimate.p <= 0.05) == (not interval.low <= 0.5 <= interval.high)
