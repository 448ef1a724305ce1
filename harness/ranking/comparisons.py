"""What the fitted estimators share: judged calls as arrays, normal equations, the prior on a judge, a fit's record."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.core.judge_profile import WIDTHS_OF_NOISE
from harness.core.rankings import FIT_VERSION
from harness.ranking.judge_stats.orders import components
from harness.ranking.posteriors import Figures, Posteriors

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]


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
    features: Floats | None = None
    """(n, F): what each entrant has of the features that judges lean to; None where that is not known."""

    @classmethod
    def of(
        cls,
        n: int,
        first: ArrayLike,
        second: ArrayLike,
        score_first: ArrayLike,
        score_second: ArrayLike,
        juror: ArrayLike | None = None,
        features: ArrayLike | None = None,
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
        return cls(n, f, s, a, b, jurors, None if features is None else np.asarray(features, np.float64))

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
    p_value: float | None = None
    """How often rollouts that are all equally good would look at least as different to this judge.

    None where the fit does not tell, and of one rollout.
    """
    among: tuple[Posteriors, int] | None = None
    """Its posterior, and which one it is, where `with_chances` has put those of many fits together."""

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
    def _posterior(self) -> tuple[Posteriors, int]:
        return self.among or (_posteriors([self]), 0)

    @property
    def billionths(self) -> Sequence[int]:
        """The estimates to nine decimals, so that ties are ties, in whole numbers."""
        posteriors, at = self._posterior
        return posteriors.billionths[at]

    @property
    def figures(self) -> Figures:
        """What records hold of the entrants."""
        posteriors, at = self._posterior
        return posteriors.figures[at]

    @property
    def sds(self) -> Floats:
        """How far each entrant's quality relative to the group's mean lies from the estimate, (n,)."""
        posteriors, at = self._posterior
        return posteriors.sds[at]

    @property
    def connected(self) -> bool:
        """Whether calls connect all entrants, so that the data compare every two of them."""
        return len(self.components) == 1

    @property
    def reliability(self) -> float:
        """1 - mean posterior variance / variance of the means; 0 where that is negative or nothing differs."""
        posteriors, at = self._posterior
        return float(posteriors.reliabilities[at])

    def p_above_mean(self) -> Floats:
        """Return each entrant's posterior probability, (n,), of being above the group's mean."""
        posteriors, at = self._posterior
        return posteriors.above_mean[at]

    def p_best(self) -> Floats:
        """Return each entrant's probability of being best, (n,), sum 1, as `Posteriors.best` has it."""
        posteriors, at = self._posterior
        return posteriors.best[at]


def with_chances(fits: Sequence[Fit]) -> list[Fit]:
    """Return fits whose probabilities and figures are made together: that takes half of the time for many of a size."""
    sizes: dict[int, list[Fit]] = {}
    for fit in fits:
        sizes.setdefault(len(fit.estimates), []).append(fit)
    posteriors = {n: (_posteriors(of_size), count()) for n, of_size in sizes.items()}
    of_each = ((fit, *posteriors[len(fit.estimates)]) for fit in fits)
    return [replace(fit, among=(together, next(places))) for fit, together, places in of_each]


def _posteriors(fits: Sequence[Fit]) -> Posteriors:
    """Return the posteriors of fits of one size."""
    return Posteriors(
        estimates=np.stack([fit.estimates for fit in fits]),
        means=np.stack([fit.mean for fit in fits]),
        covariances=np.stack([fit.covariance for fit in fits]),
        dofs=np.array([fit.dof for fit in fits], np.float64),
    )


def projected(covariance: Floats) -> Floats:
    """Return P Sigma P for P = I - 11'/n: the covariance of what is left when the common level is taken away."""
    rows = covariance - covariance.mean(axis=0)
    return rows - rows.mean(axis=1)[:, None]


CEILING_FROM = 0.25
"""Share of scores at the ends of the scale from which intervals are too narrow (docs/estimators.md)."""
_BEGINNING = "ceiling: "
_LOWEST, _HIGHEST = 0.0, 10.0


def covariance_from(root: Sequence[Sequence[float]]) -> Floats:
    """Return the covariance whose lower Cholesky factor a record holds, row i with i + 1 numbers."""
    factor = np.array([[*row, *[0.0] * (len(root) - len(row))] for row in root])
    return factor @ factor.T


def share_at_ends(groups: Sequence[Comparisons]) -> float:
    """Return the share of all scores that lie at an end of the scale, 0 or 10."""
    scores = [part for calls in groups for part in (calls.score_first, calls.score_second)]
    every = np.concatenate(scores) if scores else np.zeros(0)
    return float((np.isclose(every, _LOWEST) | np.isclose(every, _HIGHEST)).mean()) if every.size else 0.0


def ceiling_note(at_ends: float) -> str | None:
    """Return what a ranking by `pooled` says of such a judge; None for another."""
    if at_ends < CEILING_FROM:
        return None
    share = f"{100 * at_ends:.0f} % of the judge's scores stand at an end of the scale"
    return f"{_BEGINNING}{share}, so the intervals of this ranking are too narrow"


def without_ceiling_note(notes: Sequence[str]) -> tuple[str, ...]:
    """Return notes without what an earlier telling of the ranking said of such a judge."""
    return tuple(note for note in notes if not note.startswith(_BEGINNING))


Amount = TypeVar("Amount", float, Floats)


class Parameters(NamedTuple, Generic[Amount]):
    """The model's parameters as the fit moves them: variances by their logarithm. In score points of 0 to 10.

    Of one judge as floats; of P judges at once as arrays (P,).
    """

    log_quality_var: Amount
    log_level_var: Amount
    log_side_var: Amount
    log_preference_noise: Amount
    """Of half the difference of two orders' margins."""
    log_position_noise: Amount
    """Of the mean of two orders' margins."""
    log_level_noise: Amount
    level_share: Amount
    """kappa."""
    level: Amount
    """mu."""
    first_side: Amount
    """beta."""


QUALITY, LEVEL_SHARE = (Parameters._fields.index(name) for name in ("log_quality_var", "level_share"))
"""Where tau and kappa stand among the parameters."""
PRIOR_MEAN = Parameters(
    log_quality_var=math.log(2),
    log_level_var=math.log(0.5),
    log_side_var=math.log(0.25),
    log_preference_noise=math.log(4),
    log_position_noise=math.log(0.7),
    log_level_noise=math.log(1),
    level_share=0.25,
    level=5.0,
    first_side=0.0,
)
"""Weak: eight groups outweigh it. It is what a group alone goes by, which cannot tell how much of a level is real: with
more belief in levels, the rollouts of a judge without any are ranked worse than by `margins` (benchmarks/pooled.py)."""
PRIOR_SD = Parameters(0.8, 1.2, 1.2, 1.3, 1.3, 1.2, 0.3, 3.0, 1.0)
NOISE_WIDTHS: Floats = np.array(WIDTHS_OF_NOISE)
"""(W,)."""
_ENDS: Floats = np.array([0.0, 0.15, 0.4, 0.65, 1.0, 1.4])
"""What each width stands for: all widths between two ends."""
_BELOW_ENDS: Floats = np.array([math.erf(end / 0.5 / math.sqrt(2)) for end in _ENDS])
"""How probable smaller widths are of a judge of whom nothing is known: half of a normal of sd 0.5."""
_CERTAIN = 1e8
_WIDER = 5.0
"""By this factor in the standard deviation, what is believed of rollouts that differ less than is usual."""


class Leanings(NamedTuple):
    """What a judge gives for each feature of an answer beside its worth, and how well that is known: a normal."""

    points: Floats
    """(F,): score points of a margin for each unit by which the two sides differ."""
    covariance: Floats
    """(F, F)."""


@dataclass(frozen=True, eq=False)
class Prior:
    """What is believed of the parameters before the groups are seen: a normal."""

    mean: Floats
    """(9,)."""
    precision: Floats
    """(9, 9)."""
    noise_widths: Floats
    """(W,): how probable it is that noise differs so much from group to group (harness.ranking.juror_weights)."""
    any_kind: bool = True
    """Whether nothing is known of the judge but what kinds there are (harness.ranking.judge_kinds): since version 3."""
    fit_version: int = FIT_VERSION
    """Which version of the fits holds. Since 2 wild calls are told from the others (harness.ranking.wild_calls). Since
    4 a likelihood tells how far jurors see the same (harness.ranking.juror_calls). Since 5 they are taken to where that
    is likelier than not, and a jury's Student t has the variance of what it stands for."""
    leanings: Leanings | None = None
    """What probes show of the judge's leanings (harness.ranking.leanings); None without probes."""

    def without_levels(self) -> "Prior":
        """Return the same belief, but for certain that the level of a mark says nothing of its rollouts."""
        at, mean, precision = LEVEL_SHARE, self.mean.copy(), self.precision.copy()
        mean[at] = precision[at] = precision[:, at] = 0
        precision[at, at] = _CERTAIN
        return replace(self, mean=mean, precision=precision)

    def of_near_equals(self) -> "Prior":
        """Return the same belief, but for hardly any of how far rollouts differ."""
        precision = self.precision.copy()
        precision[QUALITY, QUALITY] /= _WIDER**2
        return replace(self, precision=precision)


WEAK = Prior(np.array(PRIOR_MEAN), np.diag(np.array(PRIOR_SD) ** -2.0), np.diff(_BELOW_ENDS) / _BELOW_ENDS[-1])
