"""Groups that are judged with a noise of their own: how uneven it is, is learnt, and tells such groups with less."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from harness.ranking.comparisons import NOISE_WIDTHS, Comparisons, Fit, Floats
from harness.ranking.pooled import fit_by, learnt_from

PAIRS = [(i, j) if (i + j) % 2 else (j, i) for i in range(6) for j in range(i)]
FIRST, SECOND = np.array(PAIRS).T
EVEN = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
"""How probable each width is of a judge whose noise is the same on all groups."""


def judged(noise: Floats, seed: int) -> tuple[Floats, list[Comparisons]]:
    """Groups of six whose calls' margins have noise of these standard deviations, (G,)."""
    rng = np.random.default_rng(seed)
    quality = 1.5 * rng.standard_normal((len(noise), 6))
    a, b = quality[:, FIRST], quality[:, SECOND]
    margin = a - b + 2.5 * noise[:, None] * rng.standard_normal(a.shape)
    level = 5 + (a + b) / 4 + noise[:, None] * rng.standard_normal(a.shape)
    groups = [Comparisons.of(6, FIRST, SECOND, x + m / 2, x - m / 2) for x, m in zip(level, margin, strict=True)]
    return quality, groups


def scale(fits: list[Fit]) -> float:
    return float(np.sqrt(np.mean([fit.covariance.diagonal() for fit in fits])))


def test_of_a_judge_whose_noise_is_the_same_on_all_groups_nothing_changes() -> None:
    _, groups = judged(np.ones(300), 1)
    judge = learnt_from(groups)
    assert judge.noise_widths[0] > 0.95
    even = fit_by(replace(judge, noise_widths=EVEN), groups)
    for fit, other in zip(fit_by(judge, groups), even, strict=True):
        assert fit.estimates == pytest.approx(other.estimates, abs=0.05)
        assert fit.covariance == pytest.approx(other.covariance, rel=0.1, abs=0.05)


def test_groups_whose_calls_contradict_each_other_more_are_told_with_less_certainty() -> None:
    noise = np.resize([0.6, 1.4], 300)
    quality, groups = judged(noise, 2)
    judge = learnt_from(groups)
    assert judge.noise_widths @ NOISE_WIDTHS > 0.4
    fits, even = fit_by(judge, groups), fit_by(replace(judge, noise_widths=EVEN), groups)
    assert scale(fits[1::2]) > 1.3 * scale(fits[::2])
    assert scale(even[1::2]) == pytest.approx(scale(even[::2]), rel=0.01)
    # intervals of 90 % hold for the quiet groups and for the noisy ones
    away = quality - quality.mean(axis=1, keepdims=True)
    inside = [
        np.abs(fit.mean - q) / np.sqrt(fit.covariance.diagonal()) < stats.t.ppf(0.95, fit.dof)
        for fit, q in zip(fits, away, strict=True)
    ]
    assert np.mean(inside[::2]) == pytest.approx(0.9, abs=0.05)
    assert np.mean(inside[1::2]) == pytest.approx(0.9, abs=0.05)
