"""Few queries go by kinds of judges: they are told apart nearly as in a pool, and more queries go by what they show."""

from dataclasses import replace

import numpy as np
import pytest

from harness.ranking.comparisons import WEAK, Comparisons, Floats, Prior
from harness.ranking.conclusions import MOST_OF_EQUALS
from harness.ranking.fixed_pairs import Cyclic
from harness.ranking.judge_kinds import KINDS, learn_of_any_kind, prior_of
from harness.ranking.pooled import fit_alone, fit_pooled, learnt_from
from harness.ranking.pooled_judge import FEW
from harness.ranking.profile import lent_prior, profile_of_kind

N = 4
FIRST, SECOND = np.array([order for pairing in Cyclic(range(N)).pairings() for order in pairing.orders]).T
UNKNOWN = replace(WEAK, any_kind=False)


def judged(kind: str, groups: int, *, spread: float = 1.4) -> tuple[Floats, list[Comparisons]]:
    """Return qualities (G, N) with this standard deviation, and all pairs in one order by a judge of a kind."""
    rng, of = np.random.default_rng(7), KINDS[kind]
    quality = rng.normal(0, spread, (groups, N))
    shape = (groups, len(FIRST))
    noise = np.sqrt(np.exp(of.log_preference_noise) + np.exp(of.log_position_noise))
    margin = quality[:, FIRST] - quality[:, SECOND] + rng.normal(0, noise, shape)
    level = 5 + of.level_share * (quality[:, FIRST] + quality[:, SECOND]) / 2
    level += rng.normal(0, np.exp(of.log_level_noise / 2), shape)
    sides = zip(np.clip(level + margin / 2, 0, 10), np.clip(level - margin / 2, 0, 10), strict=True)
    return quality, [Comparisons.of(N, FIRST, SECOND, np.round(a, 1), np.round(b, 1)) for a, b in sides]


def clear(groups: list[Comparisons], prior: Prior) -> int:
    """Return how many of the groups, each ranked alone, show a difference among their rollouts."""
    return sum((fit_alone(calls, prior).p_value or 0) <= MOST_OF_EQUALS for calls in groups)


def test_more_queries_of_a_sharp_judge_are_told_apart_alone_and_equals_are_not():
    _, groups = judged("sharp", 20)
    _, equals = judged("sharp", 10, spread=0.0)
    of_kind = lent_prior(profile_of_kind("sharp", "a", "b", 1))
    assert clear(groups, UNKNOWN) + 4 <= clear(groups, WEAK) <= clear(groups, of_kind)
    assert clear(equals, WEAK) <= 1
    assert clear(equals, of_kind) <= 1


@pytest.mark.parametrize("kind", ["sharp", "noisy"])
def test_the_calls_of_a_few_queries_tell_a_sharp_judge_from_a_noisy_one(kind: str):
    _, groups = judged(kind, FEW)
    noise = learn_of_any_kind(groups).parameters.log_level_noise
    assert min(("sharp", "noisy"), key=lambda name: abs(KINDS[name].log_level_noise - noise)) == kind


def test_more_than_a_few_queries_go_by_what_they_show_bit_for_bit():
    _, groups = judged("sharp", FEW + 1)
    for a, b in zip(fit_pooled(groups), fit_pooled(groups, UNKNOWN), strict=True):
        assert a.estimates.tolist() == b.estimates.tolist()
        assert a.covariance.tolist() == b.covariance.tolist()
    assert learnt_from(groups[:FEW]).parameters != learnt_from(groups[:FEW], UNKNOWN).parameters


def test_a_query_without_calls_does_not_count_among_the_few():
    _, groups = judged("usual", FEW)
    nothing = Comparisons.of(N, [], [], [], [])
    with_it, without = fit_pooled([*groups, nothing]), fit_pooled(groups)
    assert with_it[0].estimates == pytest.approx(without[0].estimates, abs=1e-4)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_rankings_of_an_earlier_version_of_the_fits_are_followed_as_they_were_made(version: int):
    prior = lent_prior(None, version)
    assert (prior.fit_version, prior.any_kind) == (version, version > 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_lent_by_name_is_that_kind_a_little_wider_and_no_other(kind: str):
    lent, own = lent_prior(profile_of_kind(kind, "a", "b", 1)), prior_of(kind)
    assert lent.mean.tolist() == own.mean.tolist()
    assert (np.linalg.inv(lent.precision).diagonal() >= np.linalg.inv(own.precision).diagonal()).all()
    assert not lent.any_kind


def test_equals_are_no_clearer_in_a_pool_of_equals_and_others_go_by_the_usual_difference():
    _, equals = judged("sharp", 32, spread=0.0)
    held, free = (learnt_from(equals, prior).parameters for prior in (UNKNOWN, WEAK))
    assert free.log_quality_var < held.log_quality_var - 0.3
    assert free.log_preference_noise > held.log_preference_noise
    assert sum((fit.p_value or 0) <= MOST_OF_EQUALS for fit in fit_pooled(equals)) <= 3
    _, usual = judged("noisy", 8)
    assert learnt_from(usual).parameters == learnt_from(usual, UNKNOWN).parameters
