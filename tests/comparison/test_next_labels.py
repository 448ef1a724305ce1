"""Which pairs to label next: the draw, its weights, and that it shortens the interval."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from harness.comparison.next_labels import DrawnPair, pairs_to_label
from harness.comparison.outcomes import PairLabel, side_pairs
from harness.comparison.rectified import LabelledSums, Rectified
from harness.core.comparisons import ComparedQuery
from tests.comparisons_by_hand import Writer, make


def graded(count: int, rng: np.random.Generator) -> tuple[list[ComparedQuery], dict[str, float]]:
    """Queries of a pair each whose judge errs in one half where its lead is least and hardly where it is greatest."""
    people = rng.random(count) < 0.5
    leads = rng.random(count)
    judge = people ^ (rng.random(count) < (1 - leads) / 2)
    writer = Writer()
    margins = [round((1 if won else -1) * (0.01 + 3 * lead), 2) for won, lead in zip(judge, leads, strict=True)]
    queries = [writer.query(number, (margin,)) for number, margin in enumerate(margins)]
    return queries, {query.query: float(said) for query, said in zip(queries, people, strict=True)}


def half_width(
    queries: Sequence[ComparedQuery],
    said: Mapping[str, float],
    drawn: Sequence[DrawnPair],
    clusters: Mapping[str, str] | None = None,
) -> tuple[float, float]:
    labels = {pair.place: PairLabel(said[pair.place[0]], pair.weight) for pair in drawn}
    interval = Rectified(LabelledSums.of(side_pairs(queries, (0, 1), labels=labels), clusters)).interval()
    return interval.value, (interval.high - interval.low) / 2


def test_every_judged_pair_of_samples_is_drawn_once_and_the_same_again():
    queries = [*make(10).queries, Writer().query(99, (0.5, 0.5), failed="timeout", open_pairs=1)]
    drawn = pairs_to_label(queries, 0)
    asked = Counter(pair.place for pair in drawn)
    assert set(asked.values()) == {1}
    judged = [m for query in queries for m in query.matches if m.role == "sample" and m.verdicts]
    assert len(asked) == len(judged)
    assert drawn == pairs_to_label(queries[::-1], 0)
    assert drawn != pairs_to_label(queries, 1)


def test_the_chances_are_those_that_the_weights_say():
    queries, _ = graded(60, np.random.default_rng(0))
    often = Counter(pair.place for seed in range(300) for pair in pairs_to_label(queries, seed)[:12])
    weights = {pair.place: pair.weight for pair in pairs_to_label(queries, 0)}
    for alike in (lambda weight: weight > 1.3, lambda weight: weight < 0.9):
        places = [place for place, weight in weights.items() if alike(weight)]
        expected = np.mean([12 / len(weights) / weights[place] for place in places])
        assert np.mean([often[place] / 300 for place in places]) == pytest.approx(expected, rel=0.08)


def test_no_label_weighs_more_than_about_twice_the_mean():
    queries, _ = graded(200, np.random.default_rng(0))
    assert max(pair.weight for pair in pairs_to_label(queries, 0)) < 2.2


def test_no_cluster_is_asked_of_twice_before_nearly_all_were_asked_of():
    queries, _ = graded(60, np.random.default_rng(0))
    clusters = {query.query: str(number // 6) for number, query in enumerate(queries)}
    first = [clusters[pair.place[0]] for pair in pairs_to_label(queries, 0, clusters)[:10]]
    assert len(set(first)) >= 8


def test_labels_so_drawn_shorten_the_interval_of_clusters_and_leave_the_estimate_right():
    rng, values, halves = np.random.default_rng(0), list[float](), list[tuple[float, float]]()
    made = [graded(240, rng) for _ in range(8)]
    for number in range(24):
        queries, said = made[number % 8]
        clusters = {query.query: str(at // 6) for at, query in enumerate(queries)}
        alike = {name: said[queries[6 * int(cluster)].query] for name, cluster in clusters.items()}
        said = {name: alike[name] if rng.random() < 0.6 else own for name, own in said.items()}
        drawn = pairs_to_label(queries, number, clusters)
        even = [replace(pair, weight=1.0) for pair in sorted(drawn, key=lambda _: rng.random())]
        (value, ours), (_, evenly) = (half_width(queries, said, pairs[:40], clusters) for pairs in (drawn, even))
        values.append(value)
        halves.append((ours, evenly))
    ours, evenly = np.mean(np.array(halves) ** 2, axis=0)
    assert ours < 0.9 * evenly
    assert np.mean(values) == pytest.approx(0.5, abs=0.04)
