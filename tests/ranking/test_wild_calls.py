"""Wild calls: told from the others where there are any, and nothing changes where there are none."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.core.rankings import FIT_VERSION
from harness.ranking.comparisons import WEAK, Comparisons, Floats
from harness.ranking.fixed_pairs import Cyclic
from harness.ranking.pooled import fit_by, fit_pooled, learnt_from
from harness.ranking.pooled_judge import learn_judge
from harness.ranking.pooled_sums import pool_sums
from harness.ranking.profile import lent_prior
from harness.ranking.rewards import tau_b
from harness.ranking.wild_calls import learn_sound_judge, wild_calls

N, GROUPS = 8, 10
FIRST, SECOND = np.array([order for pairing in Cyclic(range(N)).pairings() for order in pairing.orders]).T


def pool(share: float, noise: float, seed: int = 3) -> tuple[Floats, list[Comparisons], NDArray[np.bool_]]:
    """Return the qualities (G, N), the calls of a judge of whom such a share is wild, and which are (G, K)."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(0, 1.2, (GROUPS, N))
    wild = rng.random((GROUPS, len(FIRST))) < share
    sides = [5.5 + quality[:, side] / 2 - quality[:, other] / 2 for side, other in ((FIRST, SECOND), (SECOND, FIRST))]
    sides = [side + rng.normal(0, noise, side.shape) for side in sides]
    scores = [np.round(np.clip(np.where(wild, rng.uniform(0, 10, wild.shape), side), 0, 10), 1) for side in sides]
    return quality, [Comparisons.of(N, FIRST, SECOND, a, b) for a, b in zip(*scores, strict=True)], wild


def accuracy(quality: Floats, groups: list[Comparisons], *, tells_wild: bool) -> float:
    fits = fit_pooled(groups, replace(WEAK, fit_version=FIT_VERSION if tells_wild else 1))
    taus = [tau_b(fit.estimates.tolist(), true.tolist()) for fit, true in zip(fits, quality, strict=True)]
    return float(np.mean([tau for tau in taus if tau is not None]))


def test_the_wild_calls_of_a_sharp_judge_are_found_and_its_groups_ranked_better():
    quality, groups, wild = pool(0.15, 0.4)
    judge = learn_sound_judge(groups)
    dropped = ~np.array(wild_calls(groups, judge).heard)
    assert 0.06 < judge.wild < 0.2
    assert (dropped & wild).sum() > 0.6 * wild.sum()
    assert (dropped & ~wild).sum() < 0.02 * dropped.size
    assert accuracy(quality, groups, tells_wild=True) > accuracy(quality, groups, tells_wild=False) + 0.1


def test_a_judge_without_wild_calls_is_learnt_and_ranks_as_if_nobody_looked_for_any():
    _, groups, _ = pool(0.0, 0.4)
    sound, plain = learn_sound_judge(groups), learn_judge(pool_sums(groups))
    assert (sound.parameters, sound.wild) == (plain.parameters, 0.0)
    looked, blind = (fit_pooled(groups, replace(WEAK, fit_version=version)) for version in (FIT_VERSION, 1))
    assert all(a.estimates.tolist() == b.estimates.tolist() for a, b in zip(looked, blind, strict=True))


def test_no_call_is_dropped_without_which_two_that_met_would_no_longer_be_connected():
    _, groups, _ = pool(0.15, 0.4)
    alone = Comparisons.of(3, [0, 1], [1, 2], [9.9, 0.1], [0.1, 9.9])
    heard = wild_calls([*groups, alone], learn_sound_judge(groups)).heard
    assert heard[-1].all()
    assert not all(of.all() for of in heard[:-1])


def test_a_group_is_ranked_the_same_beside_others_and_alone_by_a_judge_with_wild_calls():
    _, groups, _ = pool(0.15, 0.4)
    judge = learnt_from(groups)
    assert judge.wild_left > 0
    for together, group in zip(fit_by(judge, groups), groups, strict=True):
        (alone,) = fit_by(judge, [group])
        assert alone.estimates == pytest.approx(together.estimates, abs=1e-9)
        assert alone.covariance == pytest.approx(together.covariance, abs=1e-9)


@pytest.mark.parametrize(("version", "tells"), [(1, False), (2, True)])
def test_rankings_of_the_first_version_of_the_fits_are_followed_without_telling_any(version: int, tells: bool):
    _, groups, _ = pool(0.15, 0.4)
    judge = learn_sound_judge(groups, lent_prior(None, version))
    assert (judge.wild > 0) is tells
    assert all(of.all() for of in wild_calls(groups, judge).heard) is not tells
