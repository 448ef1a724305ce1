"""For `pooled`: each juror's calls, and rho, how far two jurors see the same (harness.ranking.juror_weights has it)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from harness.ranking.comparisons import Comparisons, Floats, Ints, Parameters
from harness.ranking.pooled_model import LEAST_NOISE
from harness.ranking.pooled_sums import PoolSums

_ALIKE: Floats = (np.arange(1, 201)) / 200
_BELIEVED: Floats = np.where(_ALIKE < 1, 2 / 3 * _ALIKE / _ALIKE[:-1].sum(), 1 / 3)
"""What rho may be, and how probable it is before the calls are seen: 1 in a third, else the greater the likelier."""
_TOLD, _UNTOLD = 0.5, 0.9
"""Of the variance believed beforehand the calls take so much away where what they say of rho counts in full. Where they
say nothing it is the latter."""
_BELIEVED_BY_MEAN: Floats = np.where(_ALIKE < 1, _ALIKE**3 / 50, 1.0)
"""The same for the mean: 1 in one half, else about .8."""
_SURELY_SEEN, _LEAST_SHARE = 1e-6, 1e-300
_BELIEVED_UNTIL_3, _BELIEF, _LEAST_ALIKE, _CLOSEST = 0.8, 30.0, 0.05, 1 - 1e-9
"""What versions 1 to 3 believe of rho beforehand, and how many calls by two jurors without noise outweigh it."""


class LearntJuror(NamedTuple):
    """What a juror's own calls show of it."""

    calls: Sequence[Comparisons]
    """Those of each group in which it judged."""
    pool: Sequence[PoolSums]
    """Their sums."""
    parameters: Parameters[float]


def of_jurors(groups: Sequence[Comparisons]) -> dict[int, list[Comparisons]]:
    """Return the calls of each juror by its seat, group by group; none of a group in which it judged nothing."""
    calls: dict[int, list[Comparisons]] = {}
    for group in groups:
        for seat, own in by_seat(group):
            calls.setdefault(seat, []).append(own)
    return dict(sorted(calls.items()))


def echoes_among(calls: Mapping[int, Sequence[Comparisons]]) -> frozenset[int]:
    """Return the seats of jurors who judged the same calls as one before them, each with the same scores."""
    seats: dict[tuple[bytes, ...], int] = {}
    for seat, own in calls.items():
        columns = (column for of in own for column in (of.first, of.second, of.score_first, of.score_second))
        seats.setdefault(tuple(column.tobytes() for column in columns), seat)
    return frozenset(calls.keys() - seats.values())


def by_seat(calls: Comparisons) -> Iterator[tuple[int, Comparisons]]:
    """Yield each juror's seat and its calls of a group; nothing of a single judge."""
    if calls.juror is None:
        return
    for seat in np.unique(calls.juror).tolist():
        own = calls.juror == seat
        scores = calls.score_first[own], calls.score_second[own]
        yield seat, Comparisons(calls.n, calls.first[own], calls.second[own], *scores)


def spread_of(at: Parameters[float]) -> float:
    """Return tau, the standard deviation of the qualities as a juror sees them."""
    return float(np.exp(at.log_quality_var / 2))


class Alike(NamedTuple):
    """Rho after what two jurors say of the same rollouts."""

    mean: float
    """The mean of what is probable of it: what jurors are weighed by."""
    decided: float
    """What intervals go by: 1 where that is likelier than not, else the mean of what else is probable, less half a
    standard deviation. A mean of both makes intervals too wide under jurors of one mind, and too narrow under others.
    As far as the calls tell little of it, as those of a juror who says nothing, it is nearer to .9."""


def learn_alike(groups: Sequence[Comparisons], jurors: Mapping[int, LearntJuror]) -> Alike:
    """Return how far jurors see the same.

    In a basis that the calls of a group's design leave independent, what juror k says of a coordinate has the variance
    tau_k^2 + v_k / (how much is called of it), and with another's the covariance rho tau_k tau_l. A coordinate counts
    by how much of both jurors' margins is quality: of jurors without any it says nothing.
    """
    readings = {seat: _reading(juror) for seat, juror in jurors.items()}
    logs = np.zeros(len(_ALIKE))
    for n, seats, shared, margins in _both_judged(groups, jurors):
        number, (said, said_other) = _coordinates(n, shared, margins)
        (tau, noise, quality), (tau_other, noise_other, quality_other) = (readings[seat] for seat in seats)
        seen, seen_other = tau**2 + noise / number, tau_other**2 + noise_other / number
        both = tau * tau_other * _ALIKE[:, None]
        left = seen * seen_other - both**2
        fitted = (seen_other * said**2 + seen * said_other**2 - 2 * both * said * said_other) / left
        logs -= quality * quality_other / 2 * (np.log(left) + fitted).sum(axis=1)
    likely = np.exp(logs - logs.max())
    by_mean, weights = likely * _BELIEVED_BY_MEAN, likely * _BELIEVED
    mean, variance = _moments(weights[:-1])
    told = float(np.clip((1 - variance / _moments(_BELIEVED[:-1])[1]) / _TOLD, 0, 1))
    below = told * max(_LEAST_ALIKE, mean - math.sqrt(variance) / 2) + (1 - told) * _UNTOLD
    is_one = 2 * weights[-1] > weights.sum()
    return Alike(mean=float(by_mean @ _ALIKE / by_mean.sum()), decided=1.0 if is_one else below)


def _moments(weights: Floats) -> tuple[float, float]:
    """Return mean and variance of rho below 1 by these weights."""
    shares, alike = (weights + _LEAST_SHARE) / (weights + _LEAST_SHARE).sum(), _ALIKE[:-1]
    mean = float(shares @ alike)
    return mean, float(shares @ (alike - mean) ** 2)


def _reading(juror: LearntJuror) -> tuple[float, float, float]:
    """Return a juror's tau, its margins' noise, and which share of the margins' variance the qualities explain.

    Of smaller margins than these would give, as of a juror who always says the same, how small they are: tau is
    believed then, and not seen.
    """
    at, spread = juror.parameters, spread_of(juror.parameters)
    margins = np.concatenate([_margins(own, at)[1] for own in juror.calls])
    noise = float(np.exp([at.log_preference_noise, at.log_position_noise]).sum())
    expected, observed = 2 * spread * spread + noise, float(margins @ margins) / len(margins)
    return spread, max(noise, LEAST_NOISE), min(expected, observed) / max(expected, observed)


def _both_judged(
    groups: Sequence[Comparisons], jurors: Mapping[int, LearntJuror]
) -> Iterator[tuple[int, tuple[int, int], Ints, Floats]]:
    """Yield for each group and two jurors the number of rollouts, the seats, the calls of both, and their margins."""
    for group in groups:
        own = [(s, *_margins(calls, jurors[s].parameters)) for s, calls in by_seat(group) if s in jurors]
        for (seat, at, margins), (other, at_other, margins_other) in combinations(own, 2):
            shared, here, there = np.intersect1d(at, at_other, return_indices=True)
            yield group.n, (seat, other), shared, np.stack([margins[here], margins_other[there]])


def _coordinates(n: int, calls: Ints, margins: Floats) -> tuple[Floats, Floats]:
    """Return how much is called of each coordinate of a group of n, and what two jurors' margins say of it, (2, C).

    The C coordinates are those of the calls' design: of n rollouts that are all compared there are n - 1.
    """
    design = np.eye(n)[calls // n] - np.eye(n)[calls % n]
    number, basis = np.linalg.eigh(design.T @ design)
    seen = number > _SURELY_SEEN
    return number[seen], margins @ ((design @ basis[:, seen]) / number[seen])


def alike_until_3(groups: Sequence[Comparisons], jurors: Mapping[int, LearntJuror]) -> float:
    """Return rho as versions 1 to 3 of the fits have it: by the mean product of two jurors' margins on the same calls.

    A call counts by how much of both margins is quality. Rho is at least their correlation, less a standard error.
    """
    readings: dict[int, tuple[float, float]] = {}
    for seat, juror in jurors.items():
        margins = np.concatenate([_margins(own, juror.parameters)[1] for own in juror.calls])
        spread, seen = spread_of(juror.parameters), float(margins @ margins) / len(margins)
        # Which share of the margins' variance qualities of that spread explain. Of smaller margins than these would
        # give, as of a juror who always says the same, how small they are: the spread is believed then, and not seen.
        expected = 2 * spread * spread
        readings[seat] = spread, min(expected, seen) / max(expected, seen)
    together, calls, least = _BELIEF * _BELIEVED_UNTIL_3, _BELIEF, list[tuple[float, int]]()
    parts: dict[tuple[int, int], list[Floats]] = {}
    for _, seats, _, margins in _both_judged(groups, jurors):
        parts.setdefault(seats, []).append(margins)
    for (seat, other), of_groups in parts.items():
        margins, margins_other = np.concatenate(of_groups, axis=1)
        (spread, quality), (spread_other, quality_other) = readings[seat], readings[other]
        counts = quality * quality_other
        together += counts * float(margins @ margins_other) / (2 * spread * spread_other)
        calls += counts * len(margins)
        least.append((_least_correlation(margins, margins_other), len(margins)))
    shared = sum(number for _, number in least)
    bound = sum(low * number for low, number in least) / shared if shared else 0.0
    return min(1.0, max(_LEAST_ALIKE, together / calls, bound))


def _least_correlation(a: Floats, b: Floats) -> float:
    """Return the correlation of two jurors' margins about 0, less one standard error (Fisher's z)."""
    size = float(np.sqrt((a @ a) * (b @ b)))
    if not size:
        return 0.0
    return float(np.tanh(np.arctanh(np.clip(a @ b / size, -_CLOSEST, _CLOSEST)) - 1 / np.sqrt(len(a))))


def _margins(calls: Comparisons, at: Parameters[float]) -> tuple[Ints, Floats]:
    """Return which order each call is of, and its margin but for what standing first is worth."""
    return calls.first * calls.n + calls.second, calls.score_first - calls.score_second - at.first_side
