"""What is said of a group: ranks by each estimator, the signal, rewards, and the second opinion of a fit."""

import math
import random
import statistics
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.rankings import Match
from harness.ranking.comparisons import WEAK
from harness.ranking.conclusions import WEAK_BELOW, Conclusion, Rule, collect_calls, conclude
from harness.ranking.estimators import fit_bt, win_shares
from harness.ranking.margins import fit_margins
from harness.ranking.pooled import fit_alone
from harness.ranking.score_table import rank_scores
from harness.ranking.topology import Standing

FITTED, COUNTED = ["margins", "bt"], ["tiers", "wins"]


def a_match(a: int, b: int, *scores: tuple[float, float], repeated: bool = False) -> Match:
    """A judged match, `a` first and then, with a second pair of scores, `b` first; scores as shown."""
    own, other = [scores[0][0], *(s[1] for s in scores[1:])], [scores[0][1], *(s[0] for s in scores[1:])]
    x, y = sum(own) / len(own), sum(other) / len(other)
    return Match(
        round=0,
        a=a,
        b=b,
        verdicts=(),
        shown_first=(a, b)[: len(scores)],
        scores=scores,
        score_a=x,
        score_b=y,
        winner=None if x == y else a if x > y else b,
        flipped=False,
        inconsistent=False,
        repeated=repeated,
    )


def standings_of(n: int, *matches: Match) -> list[Standing]:
    points = {
        i: [*(m.score_a for m in matches if m.a == i), *(m.score_b for m in matches if m.b == i)] for i in range(n)
    }
    return [Standing(i, 0, tuple(Fraction(str(p)) for p in points[i]), None) for i in range(n)]


def concluded(n: int, *matches: Match, **told: Any) -> Conclusion:
    return conclude(standings_of(n, *matches), matches, **told)


def ranks(found: Conclusion) -> list[float | None]:
    return [found.ranked[i].rank for i in sorted(found.ranked)]


@pytest.mark.parametrize("estimator", [*FITTED, "pooled"])
def test_rollouts_of_one_text_share_a_place_whatever_befell_them(estimator: Any):
    met = [
        (a_match(0, 1, (7.0, 5.0), (5.0, 8.0)), ("known", "back")),
        (a_match(2, 1, (7.0, 5.0), (5.0, 6.0)), ("known", "other")),  # the key says that 2 has the text of 0
        (a_match(3, 1, (6.0, 5.0), (5.0, 6.0)), ("x", "y")),
        (a_match(4, 3, (6.0, 5.0), (6.0, 5.0)), ("same", "same")),
        (a_match(4, 0, (5.0, 8.0), (8.0, 5.0)), ("v", "w")),
    ]
    matches = [match.model_copy(update={"verdicts": keys}) for match, keys in met]
    found = concluded(5, *matches, rule=Rule(estimator, "score"))
    assert ranks(found) == [0.5, 4, 0.5, 2.5, 2.5]
    assert all(found.ranked[a].reward == found.ranked[b].reward == found.ranked[a].score for a, b in ((0, 2), (3, 4)))
    before = concluded(5, *matches, rule=Rule(estimator, "score", replace(WEAK, fit_version=5)))
    assert before.ranked[0].score != before.ranked[2].score, "a ranking of an earlier version is followed as it was"


CHAIN = (a_match(0, 1, (7.0, 5.0), (5.0, 7.0)), a_match(1, 2, (8.0, 5.0), (5.5, 8.0)))


@pytest.mark.parametrize("estimator", [*COUNTED, *FITTED])
def test_every_estimator_puts_the_winner_first_and_the_loser_last(estimator: Any) -> None:
    matches = (*CHAIN, a_match(0, 2, (8.0, 4.0), (4.0, 8.0)))
    found = concluded(3, *matches, rule=Rule(estimator))
    assert ranks(found) == [0, 1, 2]
    assert [found.ranked[i].reward for i in range(3)] == [1, 0.5, 0]


def test_wins_count_a_win_one_and_a_tie_half_as_a_share_of_the_matches_played() -> None:
    matches = [a_match(0, 1, (7.0, 5.0)), a_match(0, 2, (6.0, 6.0)), a_match(1, 2, (5.0, 6.0))]
    assert win_shares(range(4), matches) == {0: Fraction(3, 4), 1: 0, 2: Fraction(3, 4), 3: 0}
    found = concluded(3, *matches, rule=Rule("wins"))
    assert ranks(found) == [0.5, 2, 0.5]
    assert found.ranked[0].score == 0.75


def test_each_call_counts_once_with_the_side_that_stood_first() -> None:
    again = a_match(0, 1, (7.0, 5.0), (5.0, 7.0), repeated=True)
    calls = collect_calls([4, 2, 0, 1], [*CHAIN, again])
    assert calls.first.tolist() == [2, 3, 3, 1]
    assert calls.second.tolist() == [3, 2, 1, 3]
    assert calls.score_first.tolist() == [7, 5, 8, 5.5]
    assert calls.score_second.tolist() == [5, 7, 5, 8]


@pytest.mark.parametrize("estimator", [*COUNTED, *FITTED])
def test_every_ranking_holds_a_secondary_fit_of_the_same_calls(estimator: Any) -> None:
    found = concluded(3, *CHAIN, rule=Rule(estimator))
    margins, bt, pooled = (fit(collect_calls(range(3), CHAIN)) for fit in (fit_margins, fit_bt, fit_alone))
    beside = pooled if estimator in COUNTED else margins
    own = bt if estimator == "bt" else beside
    for i in range(3):
        row = found.ranked[i]
        assert row.margin == pytest.approx(beside.estimates[i], abs=1e-8)
        assert row.uncertainty == pytest.approx(own.sds[i], abs=1e-5)
        assert row.p_best == pytest.approx(own.p_best()[i], abs=1e-4)
        assert row.p_above_mean == pytest.approx(own.p_above_mean()[i], abs=1e-4)
    assert found.fit
    assert found.fit.first_side == beside.first_side


# ---- Incomplete groups


@pytest.mark.parametrize("estimator", COUNTED)
def test_tiers_and_wins_do_not_rank_what_was_not_played_to_the_end(estimator: Any) -> None:
    found = concluded(3, *CHAIN, rule=Rule(estimator), finished=False)
    assert ranks(found) == [None] * 3
    assert found.ranked[1].score is not None
    assert found.ranked[1].margin is not None


@pytest.mark.parametrize("estimator", FITTED)
def test_margins_and_bt_rank_an_unfinished_group_whose_matches_connect_all(estimator: Any) -> None:
    assert ranks(concluded(3, *CHAIN, rule=Rule(estimator), finished=False)) == [0, 1, 2]


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("estimator", FITTED)
def test_margins_and_bt_do_not_rank_across_parts_that_never_met(estimator: Any, finished: bool) -> None:
    found = concluded(4, *CHAIN, rule=Rule(estimator), finished=finished)
    assert ranks(found) == [None] * 4
    assert (found.note is not None) == finished


def test_where_none_of_several_was_judged_there_are_no_ranks() -> None:
    for estimator in (*COUNTED, *FITTED):
        assert ranks(concluded(3, rule=Rule(estimator))) == [None] * 3  # type: ignore[arg-type]


# ---- Signal


def test_no_two_scores_that_differ_are_no_signal_one_rank_and_no_odds() -> None:
    for estimator in (*COUNTED, *FITTED):
        found = concluded(
            3,
            *(a_match(i, j, (8.0, 6.0), (8.0, 6.0)) for i, j in ((0, 1), (0, 2), (1, 2))),
            rule=Rule(estimator),  # type: ignore[arg-type]
        )
        assert found.signal == "none"
        assert {(r.rank, r.advantage, r.p_best) for r in found.ranked.values()} == {(1, 0, None)}


def test_the_signal_is_weak_where_chance_explains_the_spread_and_ok_where_it_does_not() -> None:
    pairs = [(i, j) for i in range(6) for j in range(i)]
    noise = random.Random(3)
    for real, gap in ((True, 1.0), (False, 0.0)):
        matches = [a_match(i, j, (5 + gap * i + noise.gauss(0, 1), 5 + gap * j)) for i, j in pairs]
        found = concluded(6, *matches)
        assert found.fit
        assert found.signal == ("ok" if real else "weak")
        assert (found.fit.reliability >= WEAK_BELOW) == real


@pytest.mark.nightly
def test_of_groups_of_equals_fewer_than_one_in_seven_pass_for_a_signal() -> None:
    """The cut-off's justification, in small: 8 equally good rollouts, every pair once, noise alone."""
    passed, noise = 0, random.Random(11)
    for _ in range(200):
        table = {(i, j): (6 + noise.gauss(0, 1), 6 + noise.gauss(0, 1)) for i in range(8) for j in range(8) if i != j}
        passed += rank_scores(table).signal == "ok"
    assert passed < 200 / 7


def test_a_failure_ranked_last_is_a_signal_but_not_without_anyone_above_it() -> None:
    tied = a_match(0, 1, (6.0, 6.0))
    assert concluded(2, tied, failed_last=[5]).signal == "ok"
    assert concluded(1, failed_last=[5]).signal == "ok"
    assert concluded(0, failed_last=[5, 6]).signal == "none"


# ---- Rewards from the score


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=8), st.booleans())
def test_with_rewards_from_the_score_the_reward_is_the_estimate_and_advantages_are_standardized(
    strengths: list[int], fails: bool
) -> None:
    n, last = len(strengths), [20] if fails else []
    matches = [
        a_match(i, j, (5 + strengths[i] / 20, 5 + strengths[j] / 20), (5 + strengths[j] / 20, 5 + strengths[i] / 20))
        for i in range(n)
        for j in range(i)
    ]
    for estimator in (*COUNTED, *FITTED):
        rule = Rule(estimator, "score", provisional=True)  # type: ignore[arg-type] - `margins` beside it, which is quick
        by_score = concluded(n, *matches, rule=rule, failed_last=last)
        by_rank = concluded(n, *matches, rule=replace(rule, reward="rank"), failed_last=last)
        assert ranks(by_score) == ranks(by_rank)
        rewards = {i: r.reward for i, r in by_score.ranked.items()}
        scores = {i: by_score.ranked[i].score for i in range(n)}
        assert {i: rewards[i] for i in range(n)} == pytest.approx(scores)
        if fails:
            assert rewards[20] == pytest.approx(min(s for s in scores.values() if s is not None) - 1)
        advantages = [r.advantage or 0.0 for r in by_score.ranked.values()]
        if len(set(rewards.values())) > 1:
            assert math.isclose(statistics.fmean(advantages), 0, abs_tol=1e-6)
            assert math.isclose(statistics.pstdev(advantages), 1, abs_tol=1e-4)
        else:
            assert set(advantages) == {0.0}


@pytest.mark.parametrize("estimator", FITTED)
@pytest.mark.parametrize("n", [16, 32])
def test_a_swiss_tournament_of_equal_scores_ranks_all_alike_though_its_matches_connect_few(
    estimator: str, n: int
) -> None:
    ranked = rank_scores(lambda i, j: (5.0, 5.0), "swiss", estimator, n=n)
    assert set(ranked.ranks) == {(n - 1) / 2}
    assert (set(ranked.advantages), ranked.signal) == ({0.0}, "none")
