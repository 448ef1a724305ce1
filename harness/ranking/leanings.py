"""A judge's leanings: learnt from probes, and taken out of its calls.

A judge that leans sees in a rollout, beside its quality, so many points a unit of a feature (AnswerFeatures). Its marks
carry what it sees as they carry quality: margins all of it, levels the share of the level that is real. A run does not
tell the two apart, since long answers may be good ones. Probes do: pairs that differ in nothing but features.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from harness.core.judge_profile import JudgeLeanings
from harness.ranking.comparisons import Comparisons, Floats, Leanings, covariance_from

_FREE_SD, _LEANS_SD = np.array([0.3, 0.2, 0.2]), np.array([3.0, 1.5, 1.5])
"""Of the points for length, formatting and talk of itself: of a judge that hardly leans to a feature, and of one that
does. Before any probe one is as probable as the other, for each feature."""
_PRIOR_NOISE_VAR, _PRIOR_PROBES = 2.0, 2.0
"""Of a probe's lead: what is believed of its variance, and how many probes that is worth."""
_ROUNDS = 50


class ProbeResult(NamedTuple):
    """A probe, judged."""

    differences: Sequence[float]
    """The features of its first text less those of its second."""
    lead: float
    """What the first got more than the second, in score points: the mean over both orders."""


def learn_leanings(probes: Sequence[ProbeResult]) -> Leanings:
    """Return the leanings that probes show: a linear regression of the leads, with noise learnt from the probes.

    The prior of each feature is a mixture of a narrow and a wide normal (George and McCulloch 1993, JASA 88), so that
    the noise of probes adds little to the ranking of a judge that does not lean. The noise is the mode by expectation
    and maximization (Dempster, Laird and Rubin 1977). Without a probe the result is what is believed of any judge.
    """
    leads = np.array([probe.lead for probe in probes], np.float64)
    rows = np.array([probe.differences for probe in probes], np.float64).reshape(len(leads), len(_FREE_SD))
    noise, leanings = _PRIOR_NOISE_VAR, Leanings(np.zeros(len(_FREE_SD)), np.diag(_LEANS_SD**2))
    for _ in range(_ROUNDS):
        leanings = _given_noise(rows, leads, noise)
        squares = ((leads - rows @ leanings.points) ** 2).sum() + np.trace(rows @ leanings.covariance @ rows.T)
        noise = (_PRIOR_PROBES * _PRIOR_NOISE_VAR + float(squares)) / (_PRIOR_PROBES + len(leads))
    return leanings


def _given_noise(rows: Floats, leads: Floats, noise: float) -> Leanings:
    """Return mean and covariance of the posterior, a mixture of a normal for each choice of widths."""
    logs, means, covariances = list[float](), list[Floats](), list[Floats]()
    for sds in product(*zip(_FREE_SD.tolist(), _LEANS_SD.tolist(), strict=True)):
        prior = np.diag(np.square(sds))
        of_leads = rows @ prior @ rows.T + noise * np.eye(len(leads))
        gain = np.linalg.solve(of_leads, rows @ prior).T
        logs.append(-float(np.linalg.slogdet(of_leads)[1] + leads @ np.linalg.solve(of_leads, leads)) / 2)
        means.append(gain @ leads)
        covariances.append(prior - gain @ rows @ prior)
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    points = weights @ np.array(means)
    away = np.array(means) - points
    covariance = np.tensordot(weights, np.array(covariances), 1) + (weights[:, None] * away).T @ away
    return Leanings(points, (covariance + covariance.T) / 2)


def leanings_record(leanings: Leanings, calls: int) -> JudgeLeanings:
    """Return leanings as they are kept; they rest on so many calls."""
    points: Any = tuple(round(value, 6) for value in leanings.points.tolist())
    rows: list[list[float]] = np.linalg.cholesky(leanings.covariance).tolist()
    root: Any = tuple(tuple(round(value, 6) for value in row[: at + 1]) for at, row in enumerate(rows))
    return JudgeLeanings(calls=calls, points=points, root=root)


def as_leanings(record: JudgeLeanings) -> Leanings:
    """Return leanings as they were kept."""
    return Leanings(np.array(record.points), covariance_from(record.root))


class TakenOut(NamedTuple):
    """How leanings are taken out of calls."""

    leanings: Leanings
    level_share: float
    """How much of what the judge sees in its rollouts the level of a mark carries."""

    def of(self, calls: Comparisons) -> Comparisons:
        """Return calls as the judge would have made them without its leanings; as they are without features."""
        if calls.features is None:
            return calls
        first, second = _marks(calls, calls.features @ self.leanings.points, self.level_share)
        return replace(calls, score_first=calls.score_first - first, score_second=calls.score_second - second)

    def of_a_point(self, calls: Comparisons) -> list[Comparisons]:
        """Return, for each feature, what is taken out of the calls for a leaning of one point a unit."""
        features = np.zeros((calls.n, len(self.leanings.points))) if calls.features is None else calls.features
        parts = (_marks(calls, feature, self.level_share) for feature in features.T)
        return [replace(calls, score_first=-first, score_second=-second) for first, second in parts]


def _marks(calls: Comparisons, seen: Floats, level_share: float) -> tuple[Floats, Floats]:
    """Return what the marks of both sides have of what a judge sees in each rollout, (n,), about its mean."""
    away = seen - seen.mean()
    level, lead = level_share * (away[calls.first] + away[calls.second]) / 2, (away[calls.first] - away[calls.second])
    return level + lead / 2, level - lead / 2
