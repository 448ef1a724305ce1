"""The fits of rankings that stop early: one for the judging and the places."""

import random
from fractions import Fraction
from typing import Any

import anyio
import pytest

from harness.core.rankings import GroupRanking
from harness.ranking.comparisons import Comparisons
from harness.ranking.conclusions import Rule, collect_calls, conclude
from harness.ranking.margins import EarlyStop, fit_margins
from harness.ranking.pooled import fit_alone
from harness.ranking.topology import count_points
from harness.tournament.group import Rules
from harness.tournament.pairwise import rank_group
from tests.builders import Script, ScriptedJudge, a_group, a_rollout, by_strength
from tests.judging.scripted import a_jury
from tests.judging.test_jury import Juror
from tests.tournament.test_pairwise import by_chance

GROUP = a_group([a_rollout(i) for i in range(6)])
STRENGTHS = by_strength({str(i): 10.0 if i == 4 else 5 + 0.3 * i for i in range(6)})


@pytest.mark.parametrize("strengths", [STRENGTHS, by_strength({str(i): 5 + 0.3 * (i % 4) for i in range(6)})])
def test_the_fit_that_ends_the_judging_says_what_a_fit_of_the_matches_says(strengths: Script):
    rules = Rules(topology="cyclic", estimator="pooled", confidence=0.9)
    found = anyio.run(rank_group, GROUP, a_jury(ScriptedJudge(strengths)), rules, random.Random(0))
    afresh = conclude(count_points(range(6), found.matches), found.matches, rule=Rule("pooled"))
    assert [r.rank for r in found.rollouts] == [afresh.ranked[i].rank for i in range(6)]
    for ranked_rollout in found.rollouts:
        other = afresh.ranked[ranked_rollout.index]
        assert ranked_rollout.score == pytest.approx(other.score, abs=1e-6)
        assert ranked_rollout.p_best == pytest.approx(other.p_best, abs=1e-3)


@pytest.mark.parametrize(("estimator", "fit"), [("tiers", fit_alone), ("margins", fit_margins), ("bt", fit_margins)])
def test_the_fit_that_ends_the_judging_is_sure_of_the_best_and_stands_in_the_record(estimator: Any, fit: Any):
    rules = Rules(topology="cyclic", estimator=estimator, confidence=0.9)
    ranking = anyio.run(rank_group, GROUP, a_jury(ScriptedJudge(STRENGTHS)), rules, random.Random(0))
    sure = fit(collect_calls(range(6), ranking.matches)).p_best()
    assert sure.max() >= 0.9 or not ranking.saved_calls
    if estimator != "bt":
        assert [r.p_best for r in ranking.rollouts] == pytest.approx(sure.tolist(), abs=1e-3)


def test_the_fit_looked_at_last_is_of_the_calls_made():
    made = EarlyStop(range(4), sure=0.9, fit=fit_alone)
    assert made.last_fit is None
    while pairings := made.pairings():
        for pairing in pairings:
            made.record(pairing, Fraction(9 - 2 * pairing.a), Fraction(9 - 2 * pairing.b))
    matches = list(made.matches)
    calls = Comparisons.of(
        4,
        [m.pairing.a for m in matches],
        [m.pairing.b for m in matches],
        [float(m.score_a) for m in matches],
        [float(m.score_b) for m in matches],
    )
    assert made.last_fit
    assert made.last_fit.calls == len(matches)
    assert made.last_fit.estimates == pytest.approx(fit_alone(calls).estimates, abs=1e-6)


@pytest.mark.nightly
def test_a_jury_stops_when_the_fit_that_ranks_is_sure_with_each_juror_learnt_by_itself() -> None:
    rules = Rules(topology="cyclic", estimator="pooled", confidence=0.9)

    def by(seed: int) -> GroupRanking:
        jury = a_jury(Juror("x", STRENGTHS), Juror("y", by_chance(seed)))
        return anyio.run(rank_group, GROUP, jury, rules, random.Random(0))

    early = [ranking for ranking in map(by, range(8)) if ranking.saved_calls]
    assert early
    for ranking in early:
        calls = collect_calls(range(6), ranking.matches)
        assert fit_alone(calls).p_best().max() >= 0.9
        assert [r.p_best for r in ranking.rollouts] == pytest.approx(fit_alone(calls).p_best().tolist(), abs=1e-3)
