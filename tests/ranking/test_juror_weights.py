"""A jury in `pooled`: each juror is learnt by itself, counts by how much it says, and shares what it sees or not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.ranking.comparisons import WEAK, Comparisons, Floats, Prior
from harness.ranking.juror_weights import JuryVoices, Voice
from harness.ranking.pooled import fit_alone, fit_by, fit_pooled, learnt_from

N = 5
ORDERS = np.array(list(permutations(range(N), 2))[::2])
SIDES = ("score_first", "score_second")


@dataclass(frozen=True)
class Juror:
    """One of a simulated jury: the noise of its margins, how much of its quality is its own taste, its scale."""

    noise: float = 1.0
    taste: float = 0.0
    first_side: float = 0.0
    level: float = 5.0
    stretch: float = 1.0


def judged(jurors: Sequence[Juror], groups: int, seed: int) -> tuple[Floats, list[Comparisons]]:
    """Return what all jurors see, (groups, N), and their calls."""
    rng = np.random.default_rng(seed)
    quality, calls = rng.standard_normal((groups, N)), list[Comparisons]()
    first, second = ORDERS.T
    for seen in quality:
        scores = list[Floats]()
        for juror in jurors:
            own = np.sqrt(1 - juror.taste) * seen + np.sqrt(juror.taste) * rng.standard_normal(N)
            margin = own[first] - own[second] + juror.first_side + juror.noise * rng.standard_normal(len(first))
            level = 0.3 * rng.standard_normal(len(first))
            scores.append(juror.level + juror.stretch * np.array([level + margin / 2, level - margin / 2]))
        a, b = np.concatenate(scores, axis=1)
        seats = np.repeat(np.arange(len(jurors)), len(first))
        calls.append(Comparisons.of(N, np.tile(first, len(jurors)), np.tile(second, len(jurors)), a, b, seats))
    return quality, calls


def as_one(calls: Sequence[Comparisons]) -> list[Comparisons]:
    """The same calls as of one judge with the mean of the jurors' scores."""
    return [replace(of, juror=None) for of in calls]


def rho(quality: Floats, calls: Sequence[Comparisons]) -> float:
    estimates = np.array([fit.estimates for fit in fit_pooled(calls)])
    return float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(estimates, quality, strict=True)]))


def test_a_sharp_juror_counts_more_than_a_noisy_one_and_the_ranks_are_better_for_it() -> None:
    quality, calls = judged([Juror(noise=0.5), Juror(noise=4.0)], 60, 1)
    jury = learnt_from(calls).jury
    assert jury
    assert jury.voices[0].margin_weight > 4 * jury.voices[1].margin_weight
    assert rho(quality, calls) > rho(quality, as_one(calls)) + 0.05


def test_jurors_on_other_scales_count_the_same_and_each_has_a_first_side_and_a_level_of_its_own() -> None:
    quality, calls = judged([Juror(first_side=1.0, level=7.0), Juror(first_side=-1.0, level=2.0, stretch=0.25)], 60, 2)
    jury = learnt_from(calls).jury
    assert jury
    wide, narrow = jury.voices[0], jury.voices[1]
    assert (wide.first_side, narrow.first_side) == (pytest.approx(1.0, abs=0.2), pytest.approx(-0.25, abs=0.1))
    assert (wide.level, narrow.level) == (pytest.approx(7.0, abs=0.3), pytest.approx(2.0, abs=0.3))
    assert wide.spread * wide.margin_weight == pytest.approx(narrow.spread * narrow.margin_weight, rel=0.5)
    assert rho(quality, calls) > rho(quality, as_one(calls))


def test_what_is_a_juror_s_own_taste_is_no_certainty_of_the_best() -> None:
    of_one_mind, of_two = ([Juror(noise=0.3, taste=taste)] * 2 for taste in (0.0, 0.5))
    sure = {taste: share_right(*judged(jurors, 150, 3)) for taste, jurors in ((0.0, of_one_mind), (0.5, of_two))}
    assert sure[0.0].claims > 50
    assert sure[0.0].right > 0.93
    assert sure[0.5].claims < sure[0.0].claims / 3
    quality, calls = judged(of_two, 150, 3)
    assert share_right(quality, as_one(calls)).right < 0.8, "taken for one judge, they are sure and wrong"


@dataclass(frozen=True)
class Claims:
    """How many groups have a rollout that is the best with 95 %, and in which share of them it is."""

    claims: int
    right: float


def share_right(quality: Floats, calls: Sequence[Comparisons]) -> Claims:
    best = np.array([fit.p_best() for fit in fit_pooled(calls)])
    sure = best.max(axis=1) >= 0.95
    right = best.argmax(axis=1)[sure] == quality.argmax(axis=1)[sure]
    return Claims(int(sure.sum()), float(right.mean()) if sure.any() else 1.0)


@given(st.integers(0, 999))
@settings(max_examples=2, deadline=None)
def test_seats_have_no_order_and_rollouts_no_numbers(seed: int) -> None:
    _, calls = judged([Juror(noise=0.5), Juror(noise=2.0, taste=0.2), Juror(level=3.0)], 6, seed)
    plain, rng = fit_pooled(calls), np.random.default_rng(seed)
    seats, numbers = rng.permutation(3), rng.permutation(N)
    other_seats = [replace(c, juror=seats[c.juror]) for c in calls]
    renumbered = [replace(c, first=numbers[c.first], second=numbers[c.second]) for c in calls]
    for fit, by_seats, by_numbers in zip(plain, fit_pooled(other_seats), fit_pooled(renumbered), strict=True):
        assert by_seats.estimates == pytest.approx(fit.estimates, abs=1e-6)
        assert by_numbers.estimates[numbers] == pytest.approx(fit.estimates, abs=1e-6)
        assert by_numbers.sds[numbers] == pytest.approx(fit.sds, abs=1e-6)


@given(st.integers(0, 999))
@settings(max_examples=2, deadline=None)
def test_sides_swapped_and_scores_turned_round_say_the_same(seed: int) -> None:
    _, calls = judged([Juror(noise=0.5), Juror(noise=2.0, first_side=0.7)], 6, seed)
    swapped = [
        replace(c, first=c.second, second=c.first, score_first=c.score_second, score_second=c.score_first)
        for c in calls
    ]
    for fit, other in zip(fit_pooled(calls), fit_pooled(swapped), strict=True):
        assert other.estimates == pytest.approx(fit.estimates, abs=1e-5)
        assert other.first_side == pytest.approx(-fit.first_side, abs=1e-5)


def test_jurors_who_are_alike_weigh_as_in_a_plain_mean() -> None:
    _, (calls,) = judged([Juror(), Juror(noise=3.0)], 1, 4)
    voice = Voice(level=5.0, first_side=0.3, spread=1.2, margin_weight=0.8, level_weight=0.4)
    one = JuryVoices({0: voice, 1: voice}, 1.0).as_one(calls)
    half = len(ORDERS)
    for together, apart in ((one.score_first, calls.score_first), (one.score_second, calls.score_second)):
        place = np.lexsort((calls.second[:half], calls.first[:half]))
        assert together == pytest.approx(((apart[:half] + apart[half:]) / 2)[place])


def test_where_a_juror_failed_the_others_stand_and_are_read_on_their_own_scale() -> None:
    _, calls = judged([Juror(level=7.0), Juror(level=2.0, stretch=0.5)], 40, 5)
    some = [replace_calls(c, (c.juror == 1) | (c.first > 0)) for c in calls]
    for whole, part in zip(fit_pooled(calls), fit_pooled(some), strict=True):
        assert np.corrcoef(whole.estimates, part.estimates)[0, 1] > 0.6
        assert float(np.abs(whole.estimates - part.estimates).max()) < 2


def replace_calls(calls: Comparisons, kept: Any) -> Comparisons:
    columns = (calls.first, calls.second, calls.score_first, calls.score_second, calls.juror)
    return Comparisons.of(calls.n, *(column[kept] for column in columns if column is not None))


def test_a_juror_who_says_nothing_or_was_never_heard_before_breaks_nothing() -> None:
    _, calls = judged([Juror(), Juror(stretch=0.0)], 8, 6)
    assert all(np.isfinite(fit.estimates).all() and np.isfinite(fit.sds).all() for fit in fit_pooled(calls))
    judge = learnt_from(calls)
    assert judge.jury
    stranger = replace(calls[0], juror=np.full(len(calls[0].first), 7))
    (fit,) = fit_by(judge, [stranger])
    assert np.isfinite(fit.estimates).all()


def test_a_group_alone_is_ranked_by_its_jurors_and_one_juror_is_a_judge() -> None:
    _, (calls,) = judged([Juror(), Juror()], 1, 7)
    assert np.isfinite(fit_alone(calls).estimates).all()
    only = replace_calls(calls, calls.juror == 1)
    single = replace(only, juror=None)
    assert fit_alone(only).estimates.tolist() == fit_alone(single).estimates.tolist()
    assert learnt_from([only]).jury is None


@pytest.mark.parametrize("mute", [Juror(stretch=0.0), Juror(noise=30.0)])
def test_a_juror_who_always_says_the_same_or_nothing_but_noise_does_not_take_the_others_certainty(mute: Juror) -> None:
    _, calls = judged([Juror(noise=0.5), mute], 60, 1)
    judge, alone = learnt_from(calls), [replace_calls(c, c.juror == 0) for c in calls]
    assert judge.jury
    assert judge.jury.shared > 0.85
    sure, sure_alone = (np.mean([fit.p_best().max() for fit in fit_pooled(some)]) for some in (calls, alone))
    assert sure > 0.8 * sure_alone


@given(st.integers(0, 99), st.sampled_from([1e-4, 0.02, 50.0, 1e4]))
@settings(max_examples=5, deadline=None)
def test_how_wide_a_juror_s_scale_is_moves_no_value_put_together_but_by_one_factor(seed: int, factor: float) -> None:
    _, (calls,) = judged([Juror(), Juror(noise=2.0)], 1, seed)
    calls = replace_calls(calls, (calls.juror == 1) | (calls.first > 0))
    wide = replace(calls, **{side: getattr(calls, side) * np.where(calls.juror == 0, factor, 1.0) for side in SIDES})
    voice = Voice(level=0.0, first_side=0.0, spread=1.2, margin_weight=0.8, level_weight=0.4)
    scaled = Voice(0.0, 0.0, 1.2 * factor, 0.8 / factor, 0.4 / factor)
    one, other = (
        np.concatenate([getattr(JuryVoices(voices, 1.0).as_one(c), side) for side in SIDES])
        for voices, c in (({0: voice, 1: voice}, calls), ({0: scaled, 1: voice}, wide))
    )
    assert other == pytest.approx(one * (1 + factor) / 2)


def test_where_a_juror_judged_nothing_the_others_taste_is_more_of_what_they_see() -> None:
    quality, calls = judged([Juror(noise=0.5, taste=0.4)] * 2, 200, 9)
    some = [replace_calls(c, (c.juror == 1) | (number < 100)) for number, c in enumerate(calls)]
    judge = learnt_from(some)
    assert judge.jury
    assert judge.jury.shared_in(some[0]) == pytest.approx(judge.jury.shared)
    assert judge.jury.shared_in(some[-1]) == pytest.approx(judge.jury.alike)
    assert judge.jury.alike == pytest.approx(0.6, abs=0.15)
    scale = np.sqrt(judge.jury.shared) * np.exp(judge.parameters.log_quality_var / 2)
    away = quality - quality.mean(axis=1, keepdims=True)
    within = [
        np.abs(scale * true - fit.estimates) <= 1.645 * fit.sds
        for true, fit in zip(away, fit_pooled(some), strict=True)
    ]
    assert np.mean(within[:100]) > 0.86
    assert np.mean(within[100:]) > 0.86


@settings(max_examples=4)
@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([0.2, 0.6, 1.0]), st.booleans())
def test_a_juror_who_says_what_another_says_changes_nothing(seed: int, groups: int, noise: float, third: bool) -> None:
    jurors = [Juror(noise=noise)] + [Juror(noise=0.5, first_side=0.3)] * third
    _, calls = judged(jurors, groups, seed)
    echoed = [with_echo(of) for of in calls]
    judge, one = learnt_from(echoed), learnt_from(calls)
    assert judge.parameters == pytest.approx(one.parameters, abs=1e-4)
    assert judge.jury
    assert judge.jury.shared == pytest.approx(one.jury.shared if one.jury else 1.0)
    for fit, alone in zip(fit_by(judge, echoed), fit_by(one, calls), strict=True):
        assert fit.p_best() == pytest.approx(alone.p_best(), abs=0.002)


def with_echo(calls: Comparisons) -> Comparisons:
    """Return a jury's calls with one juror more, who gives each score that the first one gives."""
    first, seats = calls.juror == 0, calls.juror
    assert seats is not None
    sides = [np.r_[c, c[first]] for c in (calls.first, calls.second)]
    a, b = (np.r_[c, c[first]] for c in (calls.score_first, calls.score_second))
    return Comparisons.of(calls.n, sides[0], sides[1], a, b, np.r_[seats, np.full(first.sum(), 9)])


RULES = {"now": WEAK, "4": replace(WEAK, fit_version=4), "until 3": replace(WEAK, fit_version=3)}


@pytest.mark.few(5)
@pytest.mark.parametrize("prior", RULES.values(), ids=RULES)
@pytest.mark.parametrize(("noise", "taste"), [(0.3, 0.0), (0.3, 0.3), (1.0, 0.0)])
def test_how_far_jurors_see_the_same_is_learnt_within_a_tenth_by_a_pool(noise: float, taste: float, prior: Prior):
    _, calls = judged([Juror(noise=noise, taste=taste), Juror(taste=taste)], 60, seed=3)
    jury = learnt_from(calls, prior).jury
    assert jury
    assert jury.alike == pytest.approx(1 - taste, abs=0.1)


def test_jurors_who_see_the_same_are_seen_to_by_a_few_groups_and_their_intervals_are_no_wider_for_tastes():
    pools = [judged([Juror(noise=0.3), Juror(noise=0.3)], 8, seed) for seed in range(6)]
    voices = [jury for _, calls in pools if (jury := learnt_from(calls).jury)]
    assert len(voices) == len(pools)
    assert np.mean([jury.alike for jury in voices]) > 0.97


@pytest.mark.nightly
@pytest.mark.parametrize("taste", [0.0, 0.3])
def test_intervals_under_a_sharp_and_a_noisy_juror_hold_about_what_they_say(taste: float):
    within = list[bool]()
    for seed in range(60):
        quality, calls = judged([Juror(noise=0.5, taste=taste), Juror(noise=2.5, taste=taste)], 8, seed)
        for seen, fit in zip(np.sqrt(1 - taste) * quality, fit_pooled(calls), strict=True):
            within.extend(np.abs(seen - seen.mean() - fit.estimates) <= 1.645 * fit.sds)
    assert 0.86 < np.mean(within) < 0.95


def test_a_jurys_student_has_the_variance_of_what_it_stands_for_and_that_of_few_groups_is_wider():
    _, calls = judged([Juror(noise=0.3), Juror(noise=0.3)], 8, 1)
    judge, few = learnt_from(calls), learnt_from(calls[:2])
    assert judge.jury
    assert judge.jury.alike == 1
    assert [judge.by_variance, few.by_variance, learnt_from(calls, RULES["4"]).by_variance] == [True, False, False]
    for fit, wider in zip(fit_by(judge, calls), fit_by(replace(judge, by_variance=False), calls), strict=True):
        assert fit.covariance == pytest.approx(wider.covariance * (1 - 2 / fit.dof))


@pytest.mark.parametrize("groups", [1, 8])
def test_a_juror_who_says_nearly_what_another_says_lowers_no_certainty_by_more_than_two_points(groups: int) -> None:
    _, calls = judged([Juror(noise=0.2)], 8, 3)
    rng = np.random.default_rng(1)
    for some in (calls[at : at + groups] for at in range(0, len(calls), max(2, groups))):
        echoed = [with_echo(of) for of in some]
        for of in echoed:
            of.score_first[of.juror == 9] += rng.choice([-0.05, 0.0, 0.05], (of.juror == 9).sum())
        for fit, alone in zip(fit_pooled(echoed), fit_pooled(some), strict=True):
            best = int(np.argmax(alone.p_best()))
            assert alone.p_best()[best] < 0.9 or fit.p_best()[best] > alone.p_best()[best] - 0.02
