"""Which candidate is best, as far as cross matches tell, and which matches tell most of it next.

A lead of candidate r over candidate l on query q is

    y = (theta_r + u_rq) - (theta_l + u_lq) + noise

theta ~ N(0, tau^2) is what a candidate is worth, u ~ N(0, rho sigma^2) what is particular to it on that query, its
rollout included, and the noise, N(0, sigma^2), is the judge's: a linear mixed model (Laird and Ware 1982). Leads of one
query so count for less than as many of several. rho and sigma^2 / tau^2 are averaged over, sigma^2 has the prior of
`margins`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, Self

import numpy as np

from harness.comparison.intervals import scipy, t_value
from harness.comparison.outcomes import Numbers
from harness.core.comparisons import CrossMatch, Interval
from harness.ranking.margins import NOISE_DOF, NOISE_VAR
from harness.ranking.posteriors import chances_of_best

ROOT = 0
"""The candidate that the user gave."""
LEAST_P_BEST = 0.02
"""A candidate that is less probably the best meets nobody any more."""
LEAST_P_ABOVE = 0.75
"""A candidate that is less probably better than the root is not worth the held-out queries, which test once."""
_RATIOS = np.geomspace(1 / 16, 256, 13)
"""sigma^2 / tau^2: the values over which the posterior is averaged, flat in tau (A. Gelman, Bayesian Anal. 1, 2006)."""
_PARTICULAR = (0.0, 0.25, 1.0, 4.0)
"""rho: the same."""
_Z95 = 1.96
_LOOKED_AT = 8
"""Pairs whose queries are looked at before one is chosen."""


@dataclass(frozen=True)
class CrossLead:
    """What came of a cross match of two candidates on a query they share, in both orders."""

    query: str
    left: int
    right: int
    lead: float
    """Score of `right` less that of `left`, in score points, the mean of both orders."""
    forfeit: bool = False
    """A side lost unjudged: only the sign of `lead` is known."""

    @classmethod
    def of(cls, query: str, match: CrossMatch, candidates: Sequence[int]) -> Self | None:
        """Return the lead of a match between two sides, which are these `candidates`; None while it is open."""
        if match.outcome is None:
            return None
        left, right = (candidates[side] for side in match.sides)
        if match.forfeit or match.score_first is None or match.score_second is None:
            return cls(query, left, right, 2 * match.outcome - 1, forfeit=True)
        return cls(query, left, right, match.score_second - match.score_first)


@dataclass(frozen=True, eq=False)
class CandidatePosterior:
    """What is known of N candidates; candidate 0 is the root."""

    p_best: tuple[float, ...]
    """How probably each is the best of them on a query like these; sum 1, standard error at most 0.008."""
    worth: tuple[Interval, ...]
    """The win rate of each against the root on a query like these, with its 95 % interval; 0.5 of the root itself."""
    front: tuple[int, ...]
    """The candidates that are best on some query, by the posterior's mean: a Pareto front."""
    dropped: tuple[int, ...]
    """The candidates with p(best) below `LEAST_P_BEST`, or below half of what each has where nothing is known."""
    means: Numbers
    """What each is worth, in score points about their mean, (N,)."""
    covariance: Numbers
    """The covariance of that, (N, N)."""
    noise: float
    """sigma^2, in squared score points."""
    particular: float
    """rho."""

    @property
    def best(self) -> int:
        """The candidate that is most probably the best; the earliest of several."""
        return self.p_best.index(max(self.p_best))

    def p_above(self, candidate: int, other: int) -> float:
        """Return how probably a candidate is worth more than another one."""
        x = np.zeros(len(self.means))
        x[candidate] += 1
        x[other] -= 1
        spread = float(x @ self.covariance @ x) ** 0.5
        return float(scipy("special").ndtr(x @ self.means / spread)) if spread else 0.5


class _Sums(NamedTuple):
    """The leads y of each of C queries among N candidates, and their rows D: -1 for the left one, 1 for the right.

    `met` is D'D, (C, N, N); `won` D'y, (C, N); `square` y'y of all.
    """

    met: Numbers
    won: Numbers
    square: float


class _Points(NamedTuple):
    """The posteriors at P values of the ratios; `of_queries` is theta + u."""

    log_odds: Numbers  # (P,)
    means: Numbers  # (P, N)
    covariances: Numbers  # (P, N, N)
    noises: Numbers  # (P,)
    of_queries: Numbers  # (P, C, N)


def candidate_posterior(leads: Sequence[CrossLead], candidates: int) -> CandidatePosterior:
    """Return what the leads say of so many candidates.

    Raises ValueError for a lead of a candidate that is not among them, or of one over itself.
    """
    if any(not (0 <= lead.left < candidates > lead.right >= 0) or lead.left == lead.right for lead in leads):
        raise ValueError(f"every lead needs two different candidates out of 0..{candidates - 1}")
    sums, freedom = _sums(leads, candidates, [lead.query for lead in leads]), NOISE_DOF + len(leads)
    parts = zip(*(_points(rho, sums, freedom) for rho in _PARTICULAR), strict=True)
    points = _Points(*map(np.concatenate, parts))
    weights = np.exp(points.log_odds - points.log_odds.max())
    weights /= weights.sum()
    mean, noise = weights @ points.means, float(weights @ points.noises)
    apart = points.means - mean
    covariance = np.tensordot(weights, points.covariances, 1) + (apart.T * weights) @ apart
    rho = float(weights @ np.repeat(_PARTICULAR, len(_RATIOS)))
    chances = chances_of_best(mean[None], covariance[None], [freedom])[0]
    best_of_queries = np.tensordot(weights, points.of_queries, 1).argmax(1)
    return CandidatePosterior(
        p_best=tuple(chances.tolist()),
        worth=_worth(mean, covariance, noise * (1 + 2 * rho), freedom),
        front=tuple(np.unique(best_of_queries).tolist()) if leads else tuple(range(candidates)),
        dropped=tuple(np.flatnonzero(chances < min(LEAST_P_BEST, 0.5 / candidates)).tolist()),
        means=mean - mean.mean(),
        covariance=covariance,
        noise=noise,
        particular=rho,
    )


def _points(rho: float, sums: _Sums, freedom: float) -> _Points:
    """Return the posteriors at one rho, for each ratio: a Student t with so much `freedom`, covariances as scales."""
    n = sums.won.shape[1]
    away = np.linalg.inv(np.eye(n) + rho * sums.met)  # times D'D it is D'(1 + rho DD')^-1 D
    information, collected = away @ sums.met, (away @ sums.won[..., None])[..., 0]
    values, vectors = np.linalg.eigh(information.sum(0))
    turned = vectors.T @ collected.sum(0)
    shrunk = 1 / (np.maximum(values, 0) + _RATIOS[:, None])
    square = sums.square - rho * float((sums.won * collected).sum())
    scales = np.maximum(square - shrunk @ turned**2, 0) + NOISE_DOF * NOISE_VAR
    determinants = np.linalg.slogdet(away)[1].sum() + np.log(_RATIOS[:, None] * shrunk).sum(1) - np.log(_RATIOS)
    means = (shrunk * turned) @ vectors.T
    noises = scales / (freedom - 2)
    particular = rho * (collected - (information @ means[:, None, :, None])[..., 0])
    return _Points(
        log_odds=(determinants - freedom * np.log(scales)) / 2,
        means=means,
        covariances=(vectors * (noises[:, None] * shrunk)[:, None, :]) @ vectors.T,
        noises=noises,
        of_queries=means[:, None] + particular,
    )


def _worth(mean: Numbers, covariance: Numbers, variance: float, freedom: float) -> tuple[Interval, ...]:
    """Return how probably leads over the root, of this variance about what they are worth, are above 0."""
    lead = mean - mean[ROOT]
    variances = np.diag(covariance) + covariance[ROOT, ROOT] - 2 * covariance[ROOT]
    half = np.sqrt(np.maximum(variances, 0)) * t_value(_Z95, freedom)
    ends = scipy("special").ndtr(np.stack([lead, lead - half, lead + half]) / variance**0.5)
    return tuple(Interval(value=value, low=low, high=high) for value, low, high in ends.T.tolist())


def _sums(leads: Sequence[CrossLead], candidates: int, queries: Sequence[str]) -> _Sums:
    """Sum the leads by query, in the order of their names. A forfeit counts as a usual lead."""
    places = {name: at for at, name in enumerate(sorted({*queries}))}
    at = np.array([places[lead.query] for lead in leads], np.intp)
    sides = np.array([(lead.left, lead.right) for lead in leads], np.intp).reshape(-1, 2).T
    forfeit = np.array([lead.forfeit for lead in leads], bool)
    y = np.array([lead.lead for lead in leads], np.float64)
    usual = float((y[~forfeit] ** 2).mean()) if not forfeit.all() else NOISE_VAR
    y = np.where(forfeit, np.sign(y) * usual**0.5, y)
    met, won = np.zeros((len(places), candidates, candidates)), np.zeros((len(places), candidates))
    for side, sign in zip(sides, (-1.0, 1.0), strict=True):
        np.add.at(met, (at, side, side), 1.0)
        np.add.at(won, (at, side), sign * y)
    np.add.at(met, (at, *sides), -1.0)
    np.add.at(met, (at, *sides[::-1]), -1.0)
    return _Sums(met, won, float(y @ y))


def next_crosses(
    posterior: CandidatePosterior,
    leads: Sequence[CrossLead],
    queries: Sequence[str],
    budget: int,
    *,
    rollout_cost: float = 1.0,
) -> list[tuple[str, int, int]]:
    """Return the cross matches to play next, at most `budget`: (query, left, right), on queries where the two not met.

    One after the other, each where the posterior of the best candidate narrows most for its cost: where what candidates
    are worth, weighted by p(best), loses most of its variance. `rollout_cost` is what a rollout costs, in cross
    matches: a candidate that met nobody on a query so far has to be rolled out there. Dropped candidates meet nobody,
    unless fewer than two are left: then the two most probably best ones do.
    """
    n, rho, chances = len(posterior.p_best), posterior.particular, np.array(posterior.p_best)
    kept = max(2, n - len(posterior.dropped))
    listed = [*combinations(sorted(np.argsort(-chances, kind="stable")[:kept].tolist()), 2)]
    pairs = np.array(listed, np.intp).reshape(-1, 2)
    rows = np.eye(n)[pairs[:, 1]] - np.eye(n)[pairs[:, 0]]
    here = [lead for lead in leads if lead.query in {*queries}]
    of_query = [sorted({*queries}).index(query) for query in queries]
    away = np.linalg.inv(np.eye(n) + rho * _sums(here, n, queries).met)
    played, open_pairs = np.zeros((len(queries), n), bool), np.ones((len(queries), n, n), bool)
    for lead in here:
        at = queries.index(lead.query)
        played[at, [lead.left, lead.right]] = True
        open_pairs[at, [lead.left, lead.right], [lead.right, lead.left]] = False
    covariance = posterior.covariance
    weights = np.diag(chances) - np.outer(chances, chances)  # x'Wx is the variance of x under p(best)

    def narrowed(seen: Numbers, tells: Numbers) -> Numbers:
        """How much a lead narrows: `tells` (..., N) is what it says of the candidates, with a variance."""
        moved = tells @ covariance
        return ((moved @ weights) * moved).sum(-1) / (posterior.noise * seen + (moved * tells).sum(-1))

    chosen: list[tuple[str, int, int]] = []
    while len(chosen) < budget:
        left = np.flatnonzero(open_pairs[:, pairs[:, 0], pairs[:, 1]].any(0))
        top = left[np.argsort(-narrowed(np.full(len(left), 1 + 2 * rho), rows[left]), kind="stable")[:_LOOKED_AT]]
        if not len(top):
            break
        tells = rows[top] @ away  # (C, 8, N)
        seen = 1 + rho * (tells * rows[top]).sum(-1)
        costs = 1 + rollout_cost * (~played[:, pairs[top]]).sum(-1)
        allowed = open_pairs[:, pairs[top, 0], pairs[top, 1]]
        gains = np.where(allowed, narrowed(seen, tells)[of_query] / costs, -1.0)
        at, which = divmod(int(gains.argmax()), len(top))
        pair, place = pairs[top[which]], of_query[at]
        chosen.append((queries[at], *listed[int(top[which])]))
        played[at, pair], open_pairs[at, pair, pair[::-1]] = True, False
        told, variance = tells[place, which], seen[place, which]
        moved = covariance @ told
        covariance = covariance - np.outer(moved, moved) / (posterior.noise * variance + moved @ told)
        away[place] -= rho * np.outer(told, told) / variance
    return chosen
