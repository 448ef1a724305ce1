"""Ranking any table of pairwise scores, by the code that runs use."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness
from harness.core.errors import UsageError
from harness.ranking.conclusions import collect_calls
from harness.ranking.margins import fit_margins
from harness.ranking.score_table import RankedScores, rank_scores
from tests.ranking.test_parity import CASES

ESTIMATORS = ["tiers", "wins", "margins", "bt"]
ORDERS = ["both", "balanced", "single"]


def table_of(n: int, seed: int) -> dict[tuple[int, int], tuple[float, float]]:
    rng = random.Random(seed)
    return {(i, j): (rng.randint(30, 90) / 10, rng.randint(30, 90) / 10) for i in range(n) for j in range(n) if i != j}


@pytest.mark.few(8)
@pytest.mark.parametrize("case", CASES)
def test_a_table_is_ranked_as_the_reference_ranks_it(case: Any) -> None:
    table: dict[Any, Any] = {tuple(map(int, pair.split(","))): scores for pair, scores in case["scores"].items()}
    reference, found = case["reference"]["single_elimination"], harness.rank_scores(table, estimator="tiers")
    assert list(found.ranks) == reference["rank0"]
    assert list(found.rewards) == pytest.approx(reference["rewards01"])
    assert list(found.advantages) == pytest.approx(reference["advantage_pop_1e-8"])


@given(st.integers(1, 9), st.integers(0, 999), st.sampled_from(ESTIMATORS), st.sampled_from(ORDERS))
def test_a_function_and_a_mapping_give_the_same_and_give_it_again(
    n: int, seed: int, estimator: str, order: str
) -> None:
    table = table_of(n, seed)
    found = rank_scores(table, "single", estimator, order, 5, n=n)
    assert found == rank_scores(lambda i, j: table[i, j], "single", estimator, order, 5, n=n)
    assert sum(r or 0 for r in found.ranks) == n * (n - 1) / 2
    assert {len(column) for column in (found.ranks, found.rewards, found.advantages, found.uncertainty)} == {n}
    assert RankedScores.model_validate_json(found.model_dump_json()) == found


@given(st.integers(2, 9), st.integers(0, 999))
def test_the_uncertainty_is_that_of_the_margins_over_the_calls_of_the_matches(n: int, seed: int) -> None:
    found = rank_scores(table_of(n, seed), estimator="margins")
    fit = fit_margins(collect_calls(range(n), found.matches))
    assert list(found.uncertainty) == pytest.approx(fit.sds.tolist(), abs=1e-5)
    assert list(found.scores) == pytest.approx(fit.estimates.tolist(), abs=1e-8)
    judged = [m for m in found.matches if not m.repeated]
    assert fit.calls == sum(len(m.scores) for m in judged) == 2 * len(judged)


def test_the_seed_decides_what_a_topology_draws() -> None:
    table = table_of(8, 1)
    first = [{m.a, m.b} for m in rank_scores(table, "single", rng=1).matches[:4]]
    other = [[{m.a, m.b} for m in rank_scores(table, "single", rng=seed).matches[:4]] for seed in range(2, 6)]
    assert any(draw != first for draw in other)
    assert rank_scores(table, "single", rng=random.Random(3)) == rank_scores(table, "single", rng=random.Random(3))


@pytest.mark.parametrize("order", ["balanced", "single"])
def test_one_order_needs_only_the_ways_round_that_are_asked_for(order: str) -> None:
    table, asked = table_of(6, 2), []
    rank_scores(lambda i, j: (asked.append((i, j)), table[i, j])[1], order=order, n=6)
    spare = next(pair for pair in table if pair not in asked and pair[::-1] in asked)
    del table[spare]
    assert rank_scores(table, order=order).ranks == rank_scores(table_of(6, 2), order=order).ranks


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), None, "high"])
def test_a_score_that_is_no_finite_number_is_refused_wherever_it_stands(bad: Any) -> None:
    table: dict[Any, Any] = table_of(8, 3)
    table[6, 7] = (bad, 5.0)
    with pytest.raises(UsageError, match=r"\(6, 7\)"):
        rank_scores(table)
    with pytest.raises(UsageError, match="pair"):
        rank_scores(lambda _i, _j: (5.0, bad), n=3)


@pytest.mark.parametrize("pair", [(0, 1), (1, 0), (5, 6), (7, 2)])
def test_a_missing_pair_is_refused_and_named_whether_or_not_the_tournament_would_come_to_it(pair: Any) -> None:
    table = table_of(8, 4)
    del table[pair]
    with pytest.raises(UsageError, match=f"no scores for {pair[0]} shown before {pair[1]}"):
        rank_scores(table)


@pytest.mark.parametrize(
    ("table", "told", "says"),
    [
        ({}, {}, "nothing to rank"),
        (lambda _i, _j: (1, 2), {}, "give n"),
        ({(0, 0): (1, 2)}, {}, "two different entrants"),
        ({(0, 1): (1, 2), (1, 0): (1, 2)}, {"n": 1}, "two different entrants"),
        ({"0,1": (1, 2)}, {}, "not a pair"),
        ({(0, 1): (1, 2)}, {"n": 2000}, "2000 entrants, but scores of 1 pair: most entrants have none"),
        ({(0, 1): (1, 2, 3), (1, 0): (1, 2)}, {}, "expected two numbers"),
        ({(0, 1): (1, 2), (1, 0): (1, 2)}, {"estimator": "margin"}, "did you mean 'margins'"),
        ({(0, 1): (1, 2), (1, 0): (1, 2)}, {"topology": "arenas"}, "did you mean 'arena'"),
        ({(0, 1): (1, 2), (1, 0): (1, 2)}, {"order": "one"}, "no order 'one'"),
    ],
)
def test_what_cannot_be_ranked_is_refused_in_a_sentence(table: Any, told: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        rank_scores(table, **told)


def test_one_entrant_stands_alone() -> None:
    found = rank_scores({}, n=1)
    assert (found.ranks, found.rewards, found.advantages, found.matches, found.signal) == ((0,), (0,), (0,), (), "none")


def test_a_judge_at_the_ends_of_its_scale_is_noted_as_a_run_notes_it() -> None:
    table = {(0, 1): (10.0, 9.0), (1, 0): (8.0, 10.0), (0, 2): (10.0, 5.0), (2, 0): (0.0, 10.0)}
    (many,), one = harness.rank_many([table]), harness.rank_scores(table, "anchor")
    assert many.notes == one.notes
    assert one.notes[0].startswith("ceiling: 62 % of the judge's scores stand at an end of the scale")
    assert not harness.rank_scores(table, "anchor", "margins").notes
    assert not harness.rank_scores({(0, 1): (7.0, 6.0), (1, 0): (6.0, 8.0)}).notes
    apart = harness.rank_many([{(0, 1): (7.0, 6.0), (2, 3): (6.0, 8.0)}])[0]
    assert apart.notes == ("the matches do not connect all rollouts, so nothing is ranked",)
