"""The fits of rankings that stop early: one for the judging and the places, and an older version for older rankings."""

import random
from dataclasses import replace
from fractions import Fraction

import anyio
import pytest

from harness.archive.store import MemoryStore
from harness.core.rankings import FIT_VERSION, GroupRanking
from harness.core.settings import Settings
from harness.judging.jury import PairJury
from harness.pipeline.validation import recorded_jury
from harness.ranking.comparisons import Comparisons
from harness.ranking.conclusions import Rule, comparisons_of, conclude
from harness.ranking.cyclic import Cyclic
from harness.ranking.early_stop import EarlyStop
from harness.ranking.fit_versions import MARGINS
from harness.ranking.pooled import fit_alone
from harness.ranking.topology import standings_of
from harness.tournament.group import Rules
from harness.tournament.pairwise import rank_group
from tests.builders import Script, ScriptedJudge, a_group, a_rollout, by_strength
from tests.judging.scripted import a_jury
from tests.judging.test_jury import Juror
from tests.tournament.test_pairwise import by_chance

GROUP = a_group([a_rollout(i) for i in range(6)])
STRENGTHS = by_strength({str(i): 10.0 if i == 4 else 5 + 0.3 * i for i in range(6)})


def ranked(jury: PairJury, version: int) -> GroupRanking:
    rules = Rules(topology="cyclic", estimator="margins", sure=0.9, fit_version=version)
    return anyio.run(rank_group, GROUP, jury, rules, random.Random(0))


def test_the_first_version_stopped_earlier_and_its_verdicts_are_enough_for_itself_alone():
    store = MemoryStore()
    then = ranked(a_jury(ScriptedJudge(STRENGTHS), store=store), 1)
    now = ranked(a_jury(ScriptedJudge(STRENGTHS)), FIT_VERSION)
    assert then.saved_calls > now.saved_calls
    bought = [v for m in then.matches for key in m.verdicts if (v := store.verdict(key))]
    again = ranked(recorded_jury(bought, Settings()), 1)
    assert (again.status, again.saved_calls, again.rollouts) == ("complete", then.saved_calls, then.rollouts)
    assert ranked(recorded_jury(bought, Settings()), FIT_VERSION).status == "incomplete"


def test_all_versions_give_the_same_scores_and_the_first_one_narrower_intervals():
    calls = Comparisons.of(4, [0, 1, 2, 3], [1, 2, 3, 0], [7.0, 6.5, 4.0, 5.0], [5.0, 6.0, 6.0, 8.0])
    first, now = (MARGINS[version](calls) for version in (1, FIT_VERSION))
    assert first.estimates == pytest.approx(now.estimates)
    assert first.first_side == pytest.approx(now.first_side)
    assert (first.sds < now.sds).all()


@pytest.mark.parametrize("strengths", [STRENGTHS, by_strength({str(i): 5 + 0.3 * (i % 4) for i in range(6)})])
def test_the_fit_that_ends_the_judging_says_what_a_fit_of_the_matches_says(strengths: Script):
    rules = Rules(topology="cyclic", estimator="pooled", sure=0.9)
    found = anyio.run(rank_group, GROUP, a_jury(ScriptedJudge(strengths)), rules, random.Random(0))
    afresh = conclude(standings_of(range(6), found.matches), found.matches, rule=Rule("pooled"))
    assert [r.rank for r in found.rollouts] == [afresh.ranked[i].rank for i in range(6)]
    for ranked_rollout in found.rollouts:
        other = afresh.ranked[ranked_rollout.index]
        assert ranked_rollout.score == pytest.approx(other.score, abs=1e-6)
        assert ranked_rollout.p_best == pytest.approx(other.p_best, abs=1e-3)


def test_beside_tiers_the_version_decides_which_fit_ends_the_judging_and_says_who_is_best():
    def by(version: int) -> GroupRanking:
        rules = Rules(topology="cyclic", estimator="tiers", sure=0.9, fit_version=version)
        return anyio.run(rank_group, GROUP, a_jury(ScriptedJudge(STRENGTHS)), rules, random.Random(0))

    for version, fit in ((1, MARGINS[1]), (2, MARGINS[2]), (3, fit_alone)):
        ranking = by(version)
        calls = comparisons_of(range(6), ranking.matches)
        assert fit(calls).p_best().max() >= 0.9 or not ranking.saved_calls
        assert ranking.secondary_fit == ("pooled" if version == 3 else "margins")
    assert [r.p_best for r in ranking.rollouts] == pytest.approx(fit_alone(calls).p_best().tolist(), abs=1e-3)


def test_the_fit_looked_at_last_is_of_the_calls_made():
    made = EarlyStop(Cyclic(range(4)), range(4), 0.9, fit_alone)
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


def test_a_jury_stops_when_the_fit_that_ranks_is_sure_with_each_juror_learnt_by_itself() -> None:
    rules = Rules(topology="cyclic", estimator="pooled", sure=0.9)

    def by(version: int, seed: int) -> GroupRanking:
        jury = a_jury(Juror("x", STRENGTHS), Juror("y", by_chance(seed)))
        return anyio.run(rank_group, GROUP, jury, replace(rules, fit_version=version), random.Random(0))

    now = [by(FIT_VERSION, seed) for seed in range(8)]
    early = [ranking for ranking in now if ranking.saved_calls]
    assert early
    assert all(max(r.p_best or 0 for r in ranking.rollouts) >= 0.9 for ranking in early)
    before = [by(4, seed) for seed in range(8)]
    assert [r.saved_calls for r in before] != [r.saved_calls for r in now], "it went by the mean of the jurors' scores"
