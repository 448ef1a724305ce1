"""What the fitted estimators share: judged calls as arrays, their normal equations, and the record of a fit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.ranking.best_draws import chances_of_best
from harness.ranking.components import components
from harness.ranking.student import probabilities_above_zero

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]

_FEWEST_DOF = 2
"""Up to here a Student t has no standard deviation, and its scale is given."""


class Chances(NamedTuple):
    """Posterior probabilities of n entrants, each (n,)."""

    best: Floats
    above_mean: Floats


@dataclass(frozen=True, eq=False)
class Comparisons:
    """K judged calls among `n` entrants, numbered from 0: who stood first, who second, what each scored. All (K,)."""

    n: int
    first: Ints
    second: Ints
    score_first: Floats
    score_second: Floats
    juror: Ints | None = None
    """Which juror of a jury made each call; None for a single judge."""

    @classmethod
    def of(
        cls,
        n: int,
        first: ArrayLike,
        second: ArrayLike,
        score_first: ArrayLike,
        score_second: ArrayLike,
        juror: ArrayLike | None = None,
    ) -> "Comparisons":
        """Check and convert.

        Raises ValueError for unequal lengths, no such entrant, one against itself, a score that is no finite number.
        """
        f, s = np.asarray(first, np.int64), np.asarray(second, np.int64)
        a, b = np.asarray(score_first, np.float64), np.asarray(score_second, np.float64)
        if n < 1 or not f.shape == s.shape == a.shape == b.shape == (f.size,):
            shapes = f"{f.shape}, {s.shape}, {a.shape}, {b.shape}"
            raise ValueError(f"calls need n >= 1 and four flat arrays of one length, got n={n} and {shapes}")
        if f.size and not (min(f.min(), s.min()) >= 0 and max(f.max(), s.max()) < n and (f != s).all()):
            raise ValueError(f"every call needs two different entrants out of 0..{n - 1}")
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            raise ValueError("scores must be finite numbers")
        jurors = None if juror is None else np.asarray(juror, np.int64)
        if jurors is not None and jurors.shape != f.shape:
            raise ValueError(f"calls need as many jurors as scores, got {jurors.shape} and {f.shape}")
        return cls(n, f, s, a, b, jurors)

    def information(self, weights: Floats | None = None) -> Floats:
        """Return X'WX, (n+1, n+1), for rows x = e_first - e_second, and 1 in the last place for the first side."""
        n = self.n
        at = np.bincount(self.first * n + self.second, weights, n * n).astype(np.float64).reshape(n, n)
        pairs, matrix = at + at.T, np.empty((n + 1, n + 1))
        matrix[:n, :n] = -pairs
        matrix[range(n), range(n)] += pairs.sum(axis=1)
        matrix[n, :n] = matrix[:n, n] = at.sum(axis=1) - at.sum(axis=0)
        matrix[n, n] = at.sum()
        return matrix

    def collect(self, values: Floats) -> Floats:
        """Return X'v, (n+1,), for one value a call."""
        vector = np.empty(self.n + 1)
        vector[:-1] = np.bincount(self.first, values, self.n) - np.bincount(self.second, values, self.n)
        vector[-1] = values.sum()
        return vector

    def predict(self, at: Floats) -> Floats:
        """Return Xb, (K,): quality of the first minus the second, plus the first-side effect."""
        return at[self.first] - at[self.second] + at[-1]

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """The entrants in groups that calls connect, each sorted, by smallest member."""
        return components(self.n, zip(self.first.tolist(), self.second.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit of judged calls among n entrants. Estimates have mean 0: the common level is not identified."""

    estimates: Floats
    """(n,) posterior mode; in score points for `margins`, in logits for `bt`."""
    covariance: Floats
    """(n, n) posterior covariance of the estimates about their mean, P Sigma P with P = I - 11'/n."""
    first_side: float
    """What standing first is worth, in the units of the estimates."""
    first_side_sd: float
    sigma: float | None
    """Noise of one call's margin in score points; None for `bt`, whose noise is the model's own."""
    of: Comparisons
    """The calls that the fit rests on."""
    converged: bool
    """Whether the solver reached the mode; always so for `margins`, which is solved directly."""
    dof: float = math.inf
    """Degrees of freedom of the posterior, a multivariate Student t with the covariance as its scale; inf: a normal."""
    center: Floats | None = None
    """(n,) the posterior's mean where that is not the estimates."""
    chances: Chances | None = None
    """The probabilities, where `with_chances` has computed them for many fits at once."""

    @property
    def calls(self) -> int:
        """How many calls the fit rests on."""
        return len(self.of.first)

    @property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """Groups of entrants that calls connect. Two groups are compared by the prior alone."""
        return self.of.components

    @property
    def mean(self) -> Floats:
        """The posterior's mean, (n,): probabilities are about it."""
        return self.estimates if self.center is None else self.center

    @cached_property
    def sds(self) -> Floats:
        """How far each entrant's quality relative to the group's mean lies from the estimate, (n,).

        The root of the posterior's mean square: its standard deviation, where its mean is the estimate.
        """
        return np.sqrt(self._variances + (self.mean - self.estimates) ** 2)

    @cached_property
    def _variances(self) -> Floats:
        widening = self.dof / (self.dof - 2) if _FEWEST_DOF < self.dof < math.inf else 1.0
        return np.maximum(self.covariance.diagonal() * widening, 0)

    @property
    def connected(self) -> bool:
        """Whether calls connect all entrants, so that the data compare every two of them."""
        return len(self.components) == 1

    @cached_property
    def reliability(self) -> float:
        """1 - mean posterior variance / variance of the means; 0 where that is negative or nothing differs."""
        spread, unsure = float(self.mean @ self.mean), float(self._variances.sum())
        return max(0.0, 1 - unsure / spread) if spread > 0 else 0.0

    def p_above_mean(self) -> Floats:
        """Return each entrant's posterior probability, (n,), of being above the group's mean."""
        return self.chances.above_mean if self.chances else _above_mean([self])[0]

    def p_best(self) -> Floats:
        """Return each entrant's probability of being best, (n,), sum 1, under the joint posterior.

        Monte Carlo over 4096 fixed draws: the same input gives the same output; standard error at most 0.008.
        """
        return self.chances.best if self.chances else _best([self])[0]


def with_chances(fits: Sequence[Fit]) -> list[Fit]:
    """Return fits with their probabilities, which takes half of the time for many of one size at once."""
    sizes: dict[int, list[int]] = {}
    for at, fit in enumerate(fits):
        sizes.setdefault(len(fit.estimates), []).append(at)
    of = {
        at: chances
        for places in sizes.values()
        for at, chances in zip(places, _chances([fits[at] for at in places]), strict=True)
    }
    return [replace(fit, chances=of[at]) for at, fit in enumerate(fits)]


def _chances(fits: Sequence[Fit]) -> list[Chances]:
    """Return the probabilities of fits of one size."""
    return [Chances(*both) for both in zip(_best(fits), _above_mean(fits), strict=True)]


def _best(fits: Sequence[Fit]) -> Floats:
    return chances_of_best(_means(fits), np.stack([fit.covariance for fit in fits]), [fit.dof for fit in fits])


def _above_mean(fits: Sequence[Fit]) -> Floats:
    scales = np.sqrt(np.maximum(np.stack([fit.covariance.diagonal() for fit in fits]), 0))
    z = _means(fits) / np.where(scales > 0, scales, 1.0)
    return probabilities_above_zero(z, np.array([[fit.dof] for fit in fits]))


def _means(fits: Sequence[Fit]) -> Floats:
    return np.stack([fit.mean for fit in fits])


def projected(covariance: Floats) -> Floats:
    """Return P Sigma P for P = I - 11'/n: the covariance of what is left when the common level is taken away."""
    rows = covariance - covariance.mean(axis=0)
    return rows - rows.mean(axis=1)[:, None]
