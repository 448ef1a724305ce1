"""For `pooled`: a jury as one judge, each juror by how much its scores say; and noise that differs between groups.

A juror k sees the qualities as tau_k (sqrt(rho) z + sqrt(1 - rho) t_k): z is what all jurors see, t_k is its own taste.
The level of its marks, what standing first is worth to it, tau_k and its noise are learnt from its own calls, as those
of any judge. With margins of the variance v_k, and o_k of them to a rollout, the sum that says most of z weighs it by

    tau_k / (v_k / o_k + (1 - rho) tau_k^2)

(the inverse of the variance, as Bates and Granger 1969 combine forecasts whose errors are independent); so for levels,
with kappa_k tau_k in the place of tau_k. What is put together counts as the calls of one judge, who is learnt in turn:
where jurors err alike, the noise that is left says so, and no interval is too narrow for it. What tastes add to the
qualities as the jury sees them is no part of z, and makes intervals wider. Jurors with the same parameters weigh the
same, as in a plain mean. A juror all of whose scores are those of another says nothing more, and is not heard.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from harness.ranking.comparisons import NOISE_WIDTHS, Comparisons, Floats, Ints, Parameters
from harness.ranking.juror_calls import LearntJuror, by_seat, spread_of
from harness.ranking.pooled_model import LEAST_NOISE, about_their_mean, posterior, prior_vars, squares
from harness.ranking.pooled_sums import PoolSums

_LEAST_LEVEL_SHARE = 0.05
_LEAST_HEARD = 0.1
"""Of a call whose other jurors failed, no mark is blown up to more than so many times its share in the jury."""


class Voice(NamedTuple):
    """How the marks of one juror are read."""

    level: float
    first_side: float
    spread: float
    """tau."""
    margin_weight: float
    level_weight: float

    @property
    def part(self) -> float:
        """How much of what the jury says of differences is this juror's, beside the parts of the others."""
        return self.margin_weight * self.spread


@dataclass(frozen=True)
class JuryVoices:
    """How the marks of a jury become those of one judge."""

    voices: Mapping[int, Voice]
    """By the juror's seat."""
    alike: float
    """rho as intervals go by it; 1 where one juror alone is heard."""
    echoes: frozenset[int] = frozenset()
    """The seats of jurors all of whose scores are those of another."""

    @cached_property
    def shared(self) -> float:
        """Of the variance of the qualities as the whole jury sees them, the share that all jurors see."""
        return self._shared([voice.part for voice in self.voices.values()])

    def shared_in(self, calls: Comparisons) -> float:
        """Return the same of a group by its calls: the fewer jurors judged it, the more is their own taste."""
        if calls.juror is None:
            return self.shared
        seats, made = np.unique(calls.juror[~np.isin(calls.juror, list(self.echoes))], return_counts=True)
        voices = [self.voices.get(seat, self.mean) for seat in seats.tolist()]
        return self._shared(made * [voice.part for voice in voices])

    def _shared(self, parts: Floats | Sequence[float]) -> float:
        of_tastes = float(np.square(parts).sum() / np.sum(parts) ** 2)
        return self.alike / (self.alike + (1 - self.alike) * of_tastes)

    @cached_property
    def mean(self) -> Voice:
        """How the whole is read; also a juror of whom nothing was learnt."""
        return Voice(*(float(np.mean(part)) for part in zip(*self.voices.values(), strict=True)))

    def as_one(self, calls: Comparisons) -> Comparisons:
        """Return the jurors' calls of a group put together: one for each order of each pair that was judged."""
        if calls.juror is None:
            return calls
        n, mean, every = calls.n, self.mean, self.voices.values()
        margins = _Sum(n * n, _LEAST_HEARD * sum(voice.part for voice in every))
        levels = _Sum(n * n, _LEAST_HEARD * sum(voice.level_weight * voice.spread for voice in every))
        for seat, own in by_seat(calls):
            if seat in self.echoes:
                continue
            voice, at = self.voices.get(seat, mean), own.first * n + own.second
            margin, level = own.score_first - own.score_second, (own.score_first + own.score_second) / 2
            margins.add(at, margin - voice.first_side, voice.margin_weight, voice.spread)
            levels.add(at, level - voice.level, voice.level_weight, voice.spread)
        orders = np.unique(calls.first * n + calls.second)
        margin = mean.first_side + mean.spread * margins.at(orders)
        level = mean.level + mean.spread * levels.at(orders)
        return Comparisons(n, orders // n, orders % n, level + margin / 2, level - margin / 2)


class _Sum:
    """A weighted mean of jurors' values in units of their spreads, for each place of a table."""

    def __init__(self, places: int, least: float) -> None:
        self._values, self._weights, self._least = np.zeros(places), np.zeros(places), least

    def add(self, at: Ints, values: Floats, weight: float, spread: float) -> None:
        """Add a juror's values at their places; of several at one place the mean counts."""
        places = len(self._values)
        times = np.bincount(at, minlength=places)
        self._values += weight * np.bincount(at, values, places) / np.maximum(times, 1)
        self._weights += weight * spread * (times > 0)

    def at(self, places: Ints) -> Floats:
        """Return the means."""
        return self._values[places] / np.maximum(self._weights[places], self._least)


def learn_voice(juror: LearntJuror, alike: float) -> Voice:
    """Return how a juror is read by the mean of rho and what was learnt of it."""
    at, spread = juror.parameters, spread_of(juror.parameters)
    in_one = sum(float(sums.single.number[sums.design].sum()) for sums in juror.pool)
    in_both = sum(float(sums.halves.number[sums.design].sum()) for sums in juror.pool)
    rollouts = sum(sums.n * len(sums.design) for sums in juror.pool)
    each = max(1.0, 2 * (in_one + in_both) / rollouts)
    of_position = np.exp(at.log_position_noise) * in_one / max(1.0, in_one + in_both)
    level_gain = max(at.level_share, _LEAST_LEVEL_SHARE) * spread
    return Voice(
        level=at.level,
        first_side=at.first_side,
        spread=spread,
        margin_weight=_weight(spread, float(np.exp(at.log_preference_noise) + of_position) / each, alike),
        level_weight=_weight(level_gain, float(np.exp(at.log_level_noise)) / each, alike),
    )


def _weight(gain: float, noise: float, alike: float) -> float:
    return gain / (max(noise, LEAST_NOISE) + (1 - alike) * gain * gain)


STEPS: Floats = np.linspace(-1.8, 1.8, 9)
"""(S,): logarithms of a group's noise variance over the judge's, over which a group's fit is averaged."""
_PRECISIONS: Floats = np.exp(-STEPS)
_JUDGES_OWN = len(STEPS) // 2
_LEAST_VARIANCE, _LEAST_LOG, _LEAST_WIDTH = 1e-12, -500.0, 1e-3


class OnGroups(NamedTuple):
    """What a noise of their own changes in the fits of G groups of n rollouts."""

    moved: Floats
    """(G, n + 1): how far the means of the qualities, and of what standing first is worth, move."""
    between: Floats
    """(G, n + 1, n + 1): the covariance of the means over the steps."""
    wider: Floats
    """(G, n + 1): by how much standard deviations grow."""
    log_scale_var: Floats
    """(G,): the variance of the logarithm of the posterior's scale."""
    of_steps: Floats
    """(G, S): how probable each step of noise is."""


class _Turned(NamedTuple):
    """Groups of n rollouts in the basis of their design, B, with m = n + 2 coordinates.

    At a step of noise with the precision r their posterior has the covariance B diag(shrunk) B', and the mean
    B diag(shrunk) r c.
    """

    basis: Floats
    """(D, m, m)."""
    shrunk: Floats
    """(S, D, m)."""
    collected: Floats
    """c, (G, m)."""
    logs: Floats
    """(G, S): the logarithms of how probable the group's calls are, up to a constant."""


_WIDTH_LOGS: Floats = -((STEPS / np.maximum(NOISE_WIDTHS[:, None], _LEAST_WIDTH)) ** 2) / 2 - STEPS / 2
_UNSCALED: Floats = np.exp(_WIDTH_LOGS - _WIDTH_LOGS.max(axis=1, keepdims=True))
SHARES: Floats = _UNSCALED / _UNSCALED.sum(axis=1, keepdims=True)
"""How probable each step is for each width, (W, S): a noise variance is the judge's own on the average."""


def learnt_widths(pool: Sequence[PoolSums], at: Parameters[float], believed: Floats) -> Floats:
    """Return how probable each width is, (W,), after what the groups show, and `believed` before."""
    logs = np.log(believed)
    for sums in pool:
        logs += np.log(_likelihoods(_turned(sums, at)) @ SHARES.T).sum(axis=0)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def on_groups(sums: PoolSums, at: Parameters[float], widths: Floats) -> OnGroups:
    """Return what the groups' own noises change."""
    turned, of, n = _turned(sums, at), sums.design, sums.n
    of_width = _likelihoods(turned)[:, None, :] * SHARES
    of_width /= of_width.sum(axis=-1, keepdims=True)
    weights = widths @ of_width
    basis = about_their_mean(turned.basis[:, : n + 1].swapaxes(-1, -2), n)
    gains = _PRECISIONS[:, None, None] * turned.shrunk
    away = ((gains - gains[_JUDGES_OWN])[:, of] * turned.collected).swapaxes(0, 1) @ basis[of]
    moved = (weights[:, None, :] @ away)[:, 0]
    variances = np.maximum(turned.shrunk.swapaxes(0, 1) @ basis**2, _LEAST_VARIANCE)[of]
    logs = np.log(variances[..., :n].sum(axis=-1))
    return OnGroups(
        moved=moved,
        between=(away * weights[:, :, None]).swapaxes(1, 2) @ away - moved[:, :, None] * moved[:, None, :],
        wider=np.sqrt((weights[:, None, :] @ variances)[:, 0] / variances[:, _JUDGES_OWN]),
        log_scale_var=(weights * logs**2).sum(axis=1) - (weights * logs).sum(axis=1) ** 2,
        of_steps=weights,
    )


def _turned(sums: PoolSums, at: Parameters[float]) -> _Turned:
    here, variances, of = posterior(sums, at), prior_vars(at, sums.n), sums.design
    scales = np.sqrt(variances)
    information = here.precision - np.diag(1 / variances)
    values, vectors = np.linalg.eigh(information * np.outer(scales, scales))
    basis, grown = scales[:, None] * vectors, 1 + _PRECISIONS[:, None, None] * np.maximum(values, 0)
    collected = (here.collected[:, None, :] @ basis[of])[:, 0]
    observed = sum(block.number for block in (sums.single, sums.halves, sums.sides, sums.levels))
    fitted = _PRECISIONS[:, None] ** 2 * ((collected**2)[:, None, :] / grown.swapaxes(0, 1)[of]).sum(axis=-1).T
    grown_logs = np.log(grown).sum(axis=-1) + np.outer(STEPS, observed)
    logs = fitted - _PRECISIONS[:, None] * squares(sums, at) - grown_logs[:, of]
    return _Turned(basis, 1 / grown, collected, logs.T / 2)


def _likelihoods(turned: _Turned) -> Floats:
    """Return how probable the calls of each group are at each step, (G, S); 1 at the most probable step, never 0."""
    return np.exp(np.maximum(turned.logs - turned.logs.max(axis=1, keepdims=True), _LEAST_LOG))
