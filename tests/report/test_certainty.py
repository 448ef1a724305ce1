"""How sure the first place is, and where the margins see a group otherwise."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.api.best_answer import best_from
from harness.core.rankings import GroupRanking, Match, Ranked
from harness.report.summary.rollouts import certainty, placed_rollouts, places_by_secondary_fit, score_name
from harness.report.text import probability
from tests.builders import a_group, a_rollout

GROUP = a_group([a_rollout(i) for i in range(3)])


def a_ranking(margins: list[float], best: list[float], **changes: Any) -> GroupRanking:
    """Ranked 0, 1, 2 by tiers, whatever the margins say."""
    plain: dict[str, Any] = {
        "query": "q",
        "topology": "arena",
        "estimator": "tiers",
        "status": "complete",
        "signal": "ok",
        "rollouts": tuple(
            Ranked(index=i, rank=i, margin=m, p_best=p) for i, (m, p) in enumerate(zip(margins, best, strict=True))
        ),
    }
    return GroupRanking(**(plain | changes))


def test_places_by_secondary_fit_count_from_one_and_mark_those_that_are_shared() -> None:
    ranked = [Ranked(index=i, margin=m) for i, m in ((0, 0.5), (1, -1.0), (2, 0.5), (3, None))]
    assert places_by_secondary_fit(ranked, ()) == {0: "=1", 2: "=1", 1: "3"}


def test_where_both_agree_only_the_probability_is_told() -> None:
    sentence = certainty(GROUP, a_ranking([1, 0, -1], [0.8, 0.15, 0.05]))
    assert sentence == "rollout 0 (anchor) is the best with a probability of 80 %"


def test_where_they_disagree_the_likelier_rollout_and_the_number_of_places_are_told() -> None:
    sentence = certainty(GROUP, a_ranking([0, 1, -1], [0.3, 0.65, 0.05]))
    assert sentence is not None
    assert "rollout 0 (anchor) is the best with a probability of 30 %; rollout 1 with 65 %" in sentence
    assert "tiers and margins differ on 2 of 3 places" in sentence


def test_of_those_that_share_first_place_the_likelier_is_named_first_and_taken() -> None:
    rows = [
        Ranked(index=i, rank=rank, p_best=p, margin=-rank) for i, rank, p in ((0, 0.5, 0.3), (1, 0.5, 0.4), (2, 2, 0.3))
    ]
    ranking = a_ranking([], [], rollouts=tuple(rows), estimator="pooled")
    assert certainty(GROUP, ranking) == "rollout 1 (sample) is the best with a probability of 40 %"
    assert best_from(GROUP, ranking).index == 1
    assert [p.rollout.index for p in placed_rollouts(GROUP, ranking)] == [1, 0, 2]


@pytest.mark.parametrize(
    "ranking",
    [
        a_ranking([0, 0, 0], [0.3, 0.3, 0.4], signal="none"),
        a_ranking([1, 0, -1], [0.8, 0.15, 0.05], rollouts=tuple(Ranked(index=i, margin=0.1) for i in range(3))),
        a_ranking([1, 0, -1], [0.8, 0.15, 0.05], rollouts=tuple(Ranked(index=i, rank=i) for i in range(3))),
    ],
)
def test_nothing_is_claimed_without_signal_ranks_or_margins(ranking: GroupRanking) -> None:
    assert certainty(GROUP, ranking) is None


@given(st.floats(0, 1))
def test_a_probability_is_never_called_nothing_or_everything(p: float) -> None:
    words = probability(p)
    assert words not in {"0 %", "100 %"}
    assert (words == "> 99 %") == (p > 0.99)
    assert (words == "< 1 %") == (p < 0.01)


@pytest.mark.parametrize(
    ("estimator", "name"),
    [("tiers", "score 0–10"), ("wins", "share of wins"), ("margins", "margin"), ("bt", "logit")],
)
def test_the_heading_of_the_scores_says_what_they_are(estimator: str, name: str) -> None:
    assert score_name(a_ranking([0], [1.0], estimator=estimator)) == name
    assert score_name(a_ranking([0], [1.0], estimator=estimator, verdicts=("key",))) == "score 0–1"


def a_match(a: int, b: int) -> Match:
    plain: dict[str, Any] = {"verdicts": (), "shown_first": (), "scores": (), "score_a": 6, "score_b": 5, "winner": a}
    return Match(round=1, a=a, b=b, flipped=False, inconsistent=False, **plain)


def by_reward(*matches: Match) -> GroupRanking:
    """Rollouts 0 and 1 have reward 1; rollout 2 has none, and the greatest margin of all, inside its own class."""
    rows = [(0.1, 0.6, 1.0), (-0.1, 0.4, 1.0), (2.0, 0.0, 0.0)]
    ranked = [Ranked(index=i, rank=i, margin=m, p_best=p, verified=v) for i, (m, p, v) in enumerate(rows)]
    return a_ranking([], [], rollouts=tuple(ranked), matches=matches)


def test_where_the_reward_ranks_first_margins_order_inside_a_class_only() -> None:
    ranking = by_reward(a_match(0, 1))
    assert places_by_secondary_fit(ranking.rollouts, ranking.matches) == {0: "1", 1: "2", 2: "3"}
    assert "differ" not in (certainty(GROUP, ranking) or "")


def test_where_rollouts_of_several_rewards_met_margins_order_them_all() -> None:
    ranking = by_reward(a_match(0, 1), a_match(1, 2))
    assert places_by_secondary_fit(ranking.rollouts, ranking.matches) == {0: "2", 1: "3", 2: "1"}
