"""What pairs of scores say: win rate, interval, and the words for it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

import harness
from harness import compare_scores
from harness.comparison.conclusions import sentence

Scores = dict[str, list[tuple[float, float]]]


def drawn(queries: int, pairs: int = 2, lead: float = 0.0, seed: int = 0) -> Scores:
    """Return scores of which B's are `lead` higher in the mean."""
    rng = np.random.default_rng(seed)
    return {
        f"q{i}": [
            (float(a), float(b)) for a, b in np.round(rng.normal(6, 1, (pairs, 2)) + rng.normal(0, 0.5) + [0, lead])
        ]
        for i in range(queries)
    }


def swapped(scores: Scores) -> Scores:
    return {query: [(b, a) for a, b in pairs] for query, pairs in reversed(scores.items())}


def query_means(scores: Scores) -> list[float]:
    return [float(np.mean([(b > a) + (a == b) / 2 for a, b in pairs])) for pairs in scores.values()]


@pytest.mark.parametrize("queries", [1, 2, 8, 29, 30, 60])
def test_b_against_a_mirrors_a_against_b(queries: int):
    scores = drawn(queries, lead=0.4)
    clusters = {f"q{i}": f"c{i // 3}" for i in range(0, queries, 2)} if queries == 60 else None
    ours, theirs = compare_scores(scores, clusters), compare_scores(swapped(scores), clusters)
    assert theirs.win_rate == pytest.approx(1 - ours.win_rate, abs=1e-12)
    assert theirs.interval == pytest.approx([1 - ours.interval[1], 1 - ours.interval[0]], abs=1e-12)
    assert (theirs.better, theirs.worse, theirs.tied) == (ours.worse, ours.better, ours.tied)
    assert theirs.p == ours.p
    assert theirs.enough_queries == ours.enough_queries


@settings(max_examples=20, deadline=None)
@given(
    st.dictionaries(st.text(max_size=3), st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=3)),
    st.dictionaries(st.text(max_size=1), st.sampled_from("xyz")),
)
def test_whatever_is_compared_the_interval_holds_the_win_rate_and_lies_between_0_and_1(pairs: Any, clusters: Any):
    assume(any(pairs.values()))
    result = compare_scores(pairs, {query: cluster for query, cluster in clusters.items() if query in pairs})
    low, high = result.interval
    assert 0 <= low <= result.win_rate + 1e-12
    assert result.win_rate - 1e-12 <= high <= 1
    assert high - low > 0.01
    assert 0 < result.p <= 1
    assert result.better + result.worse + result.tied == result.queries >= result.clusters
    assert sentence(result)


def test_below_thirty_clusters_the_interval_is_scipys_t_interval():
    scores = drawn(20)
    result = compare_scores(scores)
    expected = stats.ttest_1samp(query_means(scores), 0.5).confidence_interval()
    assert result.method == "t"
    assert result.interval == pytest.approx([expected.low, expected.high])


def test_nothing_is_certain_where_all_queries_say_the_same():
    for scores, value in (((1.0, 1.0), 0.5), ((1.0, 2.0), 1.0), ((2.0, 1.0), 0.0)):
        for queries in (1, 2, 5, 20, 40):
            result = compare_scores({str(i): [scores] for i in range(queries)})
            low, high = result.interval
            assert result.win_rate == value
            assert high - low > 0.08
            assert (result.shown is None) == (value == 0.5 or queries < 6)
    assert compare_scores({"only": [(1, 2)]}).interval == (0, 1)


def test_the_sentence_says_what_is_shown_and_what_it_would_take():
    assert sentence(compare_scores({str(i): [(1, 2)] for i in range(40)})) == (
        "B beats A on 40 of 40 queries, loses on 0, ties on 0: preferred in 100 % [91, 100]. Clear winner: B."
    )
    assert sentence(compare_scores({str(i): [(2, 1)] for i in range(40)})).endswith("Clear winner: A.")
    assert sentence(compare_scores({str(i): [(1, 2)] for i in range(5)})).endswith(
        "ties on 0: preferred in 100 % [48, 100]. No clear winner: fewer than 6 queries decide nothing."
    )
    assert sentence(compare_scores({str(i): [(1, 1)] for i in range(20)})).endswith(
        "preferred in 50 % [42, 58]. No clear winner; about 130 queries would decide."
    )
    unsure = {str(i): [(1.0, 2.0) if i < 11 else (2.0, 1.0) if i < 17 else (1.0, 1.0)] for i in range(20)}
    assert sentence(compare_scores(unsure)) == (
        "B beats A on 11 of 20 queries, loses on 6, ties on 3: preferred in 63 % [41, 84]. "
        "No clear winner; about 110 queries would decide."
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({},), "no pair of scores: give"),
        (({"q": []},), "no pair of scores: give"),
        (({"q": [(1,)]},), "query 'q': .* is not a pair of scores"),
        (({"q": [("a", 1)]},), "query 'q': .* is not a pair of scores"),
        (({"q": [(10**400, 1)]},), "query 'q': .* is not a pair of scores"),
        (({"q": 7},), "query 'q': 7 is not a list of pairs"),
        (({"q": [(float("nan"), 1)]},), "query 'q': .* not a finite number"),
        (({"q": [(1e308, -1e308)]},), "query 'q': .* not a finite number"),
        (([(1, 2)],), "pairs=.*: give {query: "),
        (({1: [(1, 0)], "1": [(0, 1)]},), "pairs: 1 and '1' are one query: name them apart"),
        (({"q": [(1, 2)]}, {1: "x", "1": "y"}), "clusters: 1 and '1' are one query"),
        (({"query": [(1, 2)]}, {"qeury": "x"}), "clusters: `pairs` has no query 'qeury'; did you mean 'query'?"),
        (({"q": [(1, 2)]}, {"": "x"}), "clusters: `pairs` has no query ''"),
        (({"q": [(1, 2)]}, ["q"]), "clusters=.*: give {query: cluster}"),
        (({"q": [(1, 2)]}, None, -1), "seed=-1: give a whole number from 0"),
        (({"q": [(1, 2)]}, None, True), "seed=True: give a whole number from 0"),
    ],
)
def test_scores_that_cannot_be_compared_are_named(arguments: tuple[Any, ...], message: str):
    with pytest.raises(harness.UsageError, match=message):
        compare_scores(*arguments)


def test_scores_of_any_size_are_compared():
    assert compare_scores({i: [(-1e300, 1e300)] for i in range(40)}).win_rate == 1  # pyright: ignore[reportArgumentType]
    assert compare_scores({f"{i}": [(i * 1e150, -i * 1e150)] for i in range(40)}).worse == 39
