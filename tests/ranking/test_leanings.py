"""Leanings: learnt from probes, taken out of calls, and how well they are known goes into the intervals."""

from dataclasses import replace

import numpy as np
import pytest

from harness.core.rankings import Match
from harness.ranking.comparisons import WEAK, Comparisons, Floats, Leanings
from harness.ranking.conclusions import collect_calls
from harness.ranking.fixed_pairs import Cyclic
from harness.ranking.leanings import ProbeResult, TakenOut, as_leanings, leanings_record, learn_leanings
from harness.ranking.pooled import fit_by, fit_pooled, learnt_from
from harness.ranking.profile import learn_profile, lent_prior
from harness.ranking.rewards import tau_b

N, GROUPS, LEAN = 6, 12, np.array([3.0, 0.0, 0.0])
FIRST, SECOND = np.array([order for pairing in Cyclic(range(N)).pairings() for order in pairing.orders]).T


def leaning_judge(lean: Floats = LEAN, noise: float = 0.5) -> tuple[Floats, list[Comparisons]]:
    """Return qualities, and the calls of a judge that sees quality and features alike; its level carries half."""
    rng = np.random.default_rng(4)
    quality, features = rng.normal(0, 1, (GROUPS, N)), rng.normal(0, 0.4, (GROUPS, N, 3))
    seen = quality + features @ lean
    levels, leads = (seen[:, FIRST] + seen[:, SECOND]) / 4, (seen[:, FIRST] - seen[:, SECOND]) / 2
    scores = [np.round(5 + levels + way * leads + rng.normal(0, noise, leads.shape), 1) for way in (1, -1)]
    return quality, [
        Comparisons.of(N, FIRST, SECOND, *of, features=x) for *of, x in zip(*scores, features, strict=True)
    ]


def a_match(a: int, b: int, features: tuple[tuple[float, ...], ...] = ()) -> Match:
    return Match(
        round=1,
        a=a,
        b=b,
        verdicts=("v",),
        shown_first=(a,),
        score_a=6.0,
        score_b=5.0,
        winner=a,
        flipped=False,
        inconsistent=False,
        scores=((6.0, 5.0),),
        features=features,
    )


def known(points: Floats, sd: float = 1e-6) -> Leanings:
    return Leanings(points, np.eye(3) * sd**2)


def accuracy(groups: list[Comparisons], quality: Floats, leanings: Leanings | None) -> float:
    fits = fit_pooled(groups, replace(WEAK, leanings=leanings))
    taus = [tau_b(fit.estimates.tolist(), of.tolist()) or 0.0 for fit, of in zip(fits, quality, strict=True)]
    return float(np.mean(taus))


def probes(lean: Floats, noise: float, times: int) -> list[ProbeResult]:
    rng = np.random.default_rng(1)
    differences = np.tile([[0.7, 0.0, 0.0], [1.1, 0.0, 0.0], [0.1, 0.8, 0.0], [0.1, 0.0, 0.6]], (times, 1))
    leads = differences @ lean + rng.normal(0, noise, len(differences))
    return [ProbeResult(*row) for row in zip(differences.tolist(), leads.tolist(), strict=True)]


def test_probes_teach_what_a_judge_gives_for_each_feature_within_the_stated_errors():
    lean = np.array([3.0, -1.0, 0.5])
    learnt = learn_leanings(probes(lean, 0.5, 50))
    assert (np.abs(learnt.points - lean) < 3 * np.sqrt(learnt.covariance.diagonal())).all()
    assert np.sqrt(learnt.covariance.diagonal()).max() < 0.3


def test_without_a_probe_no_side_is_favoured_and_nothing_is_known():
    learnt = learn_leanings([])
    assert learnt.points.tolist() == [0, 0, 0]
    assert (np.sqrt(learnt.covariance.diagonal()) > 1).all()


def test_noise_of_the_probes_of_a_judge_that_does_not_lean_is_hardly_believed():
    learnt = learn_leanings(probes(np.zeros(3), 2.0, 5))
    assert np.abs(learnt.points).max() < 0.5


def test_a_leaning_taken_out_leaves_the_ranking_of_a_judge_without_it():
    quality, groups = leaning_judge()
    _, of_fair_judge = leaning_judge(np.zeros(3))
    assert accuracy(groups, quality, None) < 0.6
    assert accuracy(groups, quality, known(LEAN)) > accuracy(of_fair_judge, quality, None) - 0.02


def test_the_levels_of_marks_carry_the_share_of_a_leaning_that_they_carry_of_quality():
    calls = Comparisons.of(2, [0, 1], [1, 0], [6.0, 5.0], [5.0, 6.0], features=[[1.0, 0, 0], [0.0, 0, 0]])
    at = TakenOut(known(np.array([2.0, 0, 0])), level_share=0.5).of(calls)
    assert (at.score_first - at.score_second).tolist() == [-1, 1]
    assert (at.score_first + at.score_second).tolist() == [11, 11]


def test_the_less_a_leaning_is_known_the_wider_are_the_intervals_of_those_who_differ_in_it():
    _, groups = leaning_judge()
    sure, unsure = (fit_pooled(groups, replace(WEAK, leanings=known(LEAN, sd))) for sd in (1e-6, 1.0))
    for calls, a, b in zip(groups, sure, unsure, strict=True):
        assert calls.features is not None
        away = calls.features - calls.features.mean(axis=0)
        more = (b.covariance - a.covariance).diagonal()
        assert a.estimates == pytest.approx(b.estimates)
        assert (more > 0).all()
        assert more == pytest.approx((away**2).sum(axis=1), rel=0.5, abs=0.02)
        assert (b.p_value or 0) >= (a.p_value or 0)


def test_nothing_changes_without_probes_or_where_no_features_are_known():
    _, groups = leaning_judge()
    bare = [replace(calls, features=None) for calls in groups]
    plain = fit_pooled(bare)
    for fits in (fit_pooled(groups), fit_pooled(bare, replace(WEAK, leanings=known(LEAN)))):
        for a, b in zip(plain, fits, strict=True):
            assert a.estimates.tolist() == b.estimates.tolist()
            assert a.covariance.tolist() == b.covariance.tolist()
            assert (a.p_value, a.dof) == (b.p_value, b.dof)


def test_a_group_is_fitted_the_same_alone_and_among_others_by_a_judge_who_is_learnt_already():
    _, groups = leaning_judge()
    judge = learnt_from(groups, replace(WEAK, leanings=known(LEAN, 0.5)))
    together = fit_by(judge, groups)
    for at in (0, 5):
        (alone,) = fit_by(judge, [groups[at]])
        assert alone.estimates == pytest.approx(together[at].estimates)
        assert alone.covariance == pytest.approx(together[at].covariance)


def test_leanings_are_kept_and_read_as_they_were():
    learnt = learn_leanings(probes(LEAN, 1.0, 5))
    record = leanings_record(learnt, 40)
    read = as_leanings(type(record).model_validate_json(record.model_dump_json()))
    assert read.points == pytest.approx(learnt.points, abs=1e-6)
    assert read.covariance == pytest.approx(learnt.covariance, abs=1e-4)
    assert record.sds == pytest.approx(np.sqrt(learnt.covariance.diagonal()).tolist(), abs=1e-5)


def test_a_profile_lends_its_leanings_unless_others_are_known_of_the_judge():
    _, groups = leaning_judge()
    profile = learn_profile(groups, "j", "r@1 x", 1)
    assert profile is not None
    own, other = (leanings_record(known(LEAN * times, 0.1), 40) for times in (1, 2))
    assert lent_prior(profile).leanings is None
    with_own = profile.model_copy(update={"leanings": own})
    for given, points in ((None, LEAN), (other, LEAN * 2)):
        prior = lent_prior(with_own, leanings=given)
        assert prior.leanings is not None
        assert prior.leanings.points == pytest.approx(points)


def test_matches_hand_on_the_features_of_their_sides_and_who_met_nobody_has_none():
    of_match = ((6.0, 0.5, 0.0), (5.0, 0.0, 1.0))
    features = collect_calls([3, 5, 7], [a_match(7, 3, of_match)]).features
    assert features is not None
    assert features.tolist() == [[5, 0, 1], [0, 0, 0], [6, 0.5, 0]]
    assert collect_calls([3, 5, 7], [a_match(7, 3)]).features is None
