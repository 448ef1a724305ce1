"""What a gate says of simulated agents: equal ones, worse ones, and judges that tell nothing."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.comparison.gate import _beside, forecast_sentences, lead_by_length, noise, orders_of, pass_forecast
from harness.comparison.interim import FEWEST_QUERIES, InterimPlan, finding
from harness.comparison.outcomes import Pair
from harness.comparison.side_results import summarize_pairs
from harness.core.comparisons import ComparedQuery
from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from gate import MARGIN, Case, play
from judge_noise import refused
from simulated_gate import NOISY, SHARP, repeats
from simulated_judge import Regime


@pytest.mark.parametrize(
    ("interval", "says"),
    [
        ((0.46, 0.58), "not worse"),
        ((0.46, 0.49), "not worse"),
        ((0.45, 0.58), "cannot tell"),
        ((0.40, 0.50), "cannot tell"),
        ((0.30, 0.49), "worse"),
    ],
)
def test_an_interval_says_not_worse_worse_or_that_nobody_can_tell(interval: tuple[float, float], says: str):
    assert finding(interval, 0.05) == says


@given(st.integers(0, 300), st.integers(1, 8), st.integers(1, 12), st.integers(0, 3))
def test_the_parts_of_a_gate_hold_each_query_once_and_no_cluster_twice(count: int, looks: int, size: int, seed: int):
    queries = [f"q{i}" for i in range(count)]
    clusters = {query: str(i // size) for i, query in enumerate(queries)}
    parts = InterimPlan.of(queries, looks, MARGIN, clusters, seed).parts
    assert sorted(query for part in parts for query in part) == sorted(queries)
    assert sum(len({clusters[query] for query in part}) for part in parts) == len(set(clusters.values()))
    assert len(parts) <= looks
    assert parts == InterimPlan.of(queries[::-1], looks, MARGIN, clusters, seed).parts
    if len(parts) > 1:
        assert len(parts[0]) >= FEWEST_QUERIES
        assert all(parts)


@pytest.mark.parametrize(
    ("end", "limit", "text"),
    [(0.453, 0.45, "45.3"), (0.4502, 0.45, "45.02"), (0.45, 0.45, "45"), (0.496, 0.5, "49.6"), (0.82, 0.5, "82")],
)
def test_an_end_of_the_interval_never_reads_like_the_limit_that_it_keeps(end: float, limit: float, text: str):
    assert _beside(end, limit) == text


def test_looks_that_are_not_possible_are_counted():
    two_looks = pass_forecast(24, 0.05, None, shares=(0.9, 1.0))
    assert forecast_sentences(two_looks, looks=4)[-1] == "note: 2 of 4 looks are possible with 24 queries."
    assert forecast_sentences(two_looks, looks=2) == forecast_sentences(two_looks)
    assert len(forecast_sentences(two_looks, looks=2, concluded=True)) == 1


PLUS_TWO = replace(SHARP, name="sharp, first +2", b=2.0)


@pytest.mark.parametrize("regime", [SHARP, NOISY, PLUS_TWO, None], ids=lambda regime: regime.name if regime else "coin")
@pytest.mark.parametrize("worse_by", [0.0, 1.0])
def test_judges_that_see_something_are_seldom_refused_at_50_queries_and_coins_nearly_always(
    regime: Regime | None, worse_by: float
):
    share = refused(regime, 50, 400, worse_by=worse_by)
    assert share >= 0.95 if regime is None else share <= 0.06


@pytest.mark.nightly
def test_equal_agents_pass_about_as_often_as_foretold_and_are_seldom_called_worse():
    outcome = play(Case("equal", SHARP, 200, 4), 60)
    assert outcome.share("not worse") == pytest.approx(outcome.foretold, abs=0.15)
    assert outcome.share("worse") <= 0.05


def test_a_worse_agent_never_passes_and_is_found_early():
    outcome = play(Case("worse", SHARP, 200, 4, 1.0), 20)
    assert outcome.findings == {"worse": 20}
    assert outcome.judged < 0.8


def test_a_judge_that_likes_the_first_side_gives_one_half_and_is_noise():
    (repeat,) = repeats(None, 1, 60, np.random.default_rng(0))
    judged = {query.query: query for query in repeat.queries}
    (look,) = InterimPlan.of(list(judged), 1, MARGIN).analyses(judged)
    assert look.win_rate == 0.5
    assert "correlate by 0.00 [-0.18, 0.18]" in (noise(orders_of(repeat.queries)) or "")


def test_a_judge_that_gives_equal_scores_to_different_texts_tells_nothing_apart():
    tied = [settled(query, winner="tie", scores=((5.0, 5.0), (5.0, 5.0))) for query in a_sharp_repeat()]
    assert "in none of 80 pairs" in (noise(orders_of(tied)) or "")
    alike = [
        query.model_copy(
            update={
                "rollouts": tuple(
                    tuple(rollout.model_copy(update={"transcript": "same"}) for rollout in side)
                    for side in query.rollouts
                )
            }
        )
        for query in tied
    ]
    assert noise(orders_of(alike)) is None, "equal texts are equally good"


def test_open_pairs_count_against_every_finding():
    judged = {query.query: query for query in a_sharp_repeat()}
    plan = InterimPlan.of(list(judged), 1, MARGIN)
    (whole,) = plan.analyses(judged)
    name, query = next(iter(judged.items()))
    judged[name] = settled(query, winner=None, flipped=False)
    (look,) = plan.analyses(judged)
    assert look.interval[0] < whole.interval[0]
    assert look.interval[1] > whole.interval[1]


def test_a_look_waits_for_all_of_its_queries():
    judged = {query.query: query for query in a_sharp_repeat(80)}
    plan = InterimPlan.of(list(judged), 4, 0.001)
    assert len(plan.analyses(judged)) == 4
    missing = plan.parts[2][0]
    assert len(plan.analyses({name: query for name, query in judged.items() if name != missing})) == 2


def a_sharp_repeat(queries: int = 40) -> list[ComparedQuery]:
    (repeat,) = repeats(SHARP, 1, queries, np.random.default_rng(1))
    return repeat.queries


def settled(query: ComparedQuery, **changes: object) -> ComparedQuery:
    matches = tuple(match.model_copy(update={"inconsistent": False, **changes}) for match in query.matches)
    return query.model_copy(update={"matches": matches})


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([Pair(1.0, lengths=(100, 300 + i)) for i in range(40)], "perhaps by length"),  # always longer, always better
        ([Pair(float(i % 2), lengths=(100, 300) if i % 2 else (300, 100)) for i in range(40)], "perhaps by length"),
        ([Pair(float(i % 9 > 2), lengths=(100, 90 + 20 * (i % 9))) for i in range(40)] * 2, "perhaps by length"),
        ([Pair(float(i % 9 > 2 or i == 9), lengths=(100, 90 + 20 * (i % 9))) for i in range(40)], "by length alone"),
        ([Pair(1.0, lengths=(100, 100))] * 40, None),
        ([Pair(1.0, lengths=(100, 300))] * 36 + [Pair(1.0, lengths=(100, 104))] * 4, None),
        ([Pair(1.0, lengths=(100, 300))] * 38 + [Pair(1.0, lengths=(100, 90))] * 2, "perhaps by length"),  # too few
        ([Pair(1.0, lengths=(100, 300))] * 36 + [Pair(1.0, forfeit="first")] * 4, None),
    ],
)
def test_a_lead_is_not_lengths_only_where_pairs_without_it_show_that(pairs: list[Pair], said: str | None):
    of_queries = {f"{i}": [pair] for i, pair in enumerate(pairs)}
    result = summarize_pairs(of_queries, ("a", "b"), clusters=None, floor=None, seed=0)
    assert lead_by_length(result, of_queries) == said
