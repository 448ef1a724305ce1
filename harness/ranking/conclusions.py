"""From a tournament's end to the conclusion on its group: ranks, the secondary fit, who is better and how surely."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from harness.core.rankings import GroupRanking, Match, Ranked, SecondOpinion, Signal
from harness.core.records import record_of
from harness.core.settings import EstimatorName, RewardFrom
from harness.ranking.comparisons import WEAK, Comparisons, Fit, Prior
from harness.ranking.estimators import ESTIMATORS, NO_ESTIMATE, Estimate, Evidence, secondary_fit
from harness.ranking.margins import fit_margins
from harness.ranking.posteriors import probability_above_zero, rounded
from harness.ranking.rewards import average_ranks, place
from harness.ranking.topology import Standing, count_points

MOST_OF_EQUALS = 0.04
"""The p-value by `pooled` above which a group's signal is `weak`.

Of groups of equals at most 5 % lie below (benchmarks/weak_signal.py): what a judge's model does not know, as marks that
are rounded, makes 4 % into as much as 5.
"""

WEAK_BELOW = 0.5
"""Reliability below which the signal is `weak` by `margins`, which has no p-value: chance explains more than half.

Chosen by simulation (benchmarks/weak_signal.py): N = 8, 28 calls, of groups whose rollouts are all equally good 98 to
99 % fall below; of groups that differ, 0.8 % under a sharp judge and 50 % under a noisy one, and those are ranked worse
(mean Spearman .71 against .82).
"""

_NOTHING = dict.fromkeys(Ranked.model_fields)
_NOT_CONNECTED = "the matches do not connect all rollouts, so nothing is ranked"


@dataclass(frozen=True)
class Rule:
    """How matches become ranks and rewards."""

    estimator: EstimatorName = "tiers"
    reward: RewardFrom = "rank"
    prior: Prior = WEAK
    """What `pooled` believes of the judge beforehand."""
    provisional: bool = False
    """Until `pooled` has learnt the judge from all groups, `margins` stands in for it, which takes no time."""

    @property
    def estimator_now(self) -> EstimatorName:
        """What ranks."""
        return "margins" if self.provisional and self.estimator == "pooled" else self.estimator

    @property
    def secondary_fit(self) -> SecondOpinion:
        """What stands beside it."""
        return "margins" if self.provisional else secondary_fit(self.estimator)


@dataclass(frozen=True)
class Conclusion:
    """A group's ranks and signal."""

    ranked: Mapping[int, Ranked]
    signal: Signal
    fit: Fit | None
    """The fit, of `pooled` or `margins`, that says how the judge decides; None without an entrant."""
    note: str | None = None
    """Why there are no ranks although all matches were played."""

    @property
    def judge_figures(self) -> dict[str, Any]:
        """The figures of `GroupRanking` that are the judge's, to six places; all None where no call was made."""
        fit = self.fit if self.fit and self.fit.calls else None
        names = ("first_side", "first_side_sd", "sigma", "reliability")
        figures = {name: round(getattr(fit, name) or 0.0, 6) if fit else None for name in names}
        return figures | {"p_value": None if fit is None or fit.p_value is None else round(fit.p_value, 6)}


def collect_calls(entrants: Sequence[int], matches: Sequence[Match]) -> Comparisons:
    """Return the judged calls behind matches, each once; entrants are numbered by their place in `entrants`."""
    number = {e: i for i, e in enumerate(entrants)}
    met = [m for m in matches if not m.repeated]
    calls = [
        (number[first], number[m.b if first == m.a else m.a], *scores)
        for m in met
        for first, scores in zip(m.shown_first, m.scores, strict=True)
    ]
    jurors = [juror for m in met for juror in m.jurors] or None
    first, second, score_first, score_second = zip(*calls, strict=True) if calls else ((), (), (), ())
    known = {entrant: own for m in met if m.features for entrant, own in zip((m.a, m.b), m.features, strict=True)}
    nothing = (0.0,) * len(next(iter(known.values()), ()))  # of an entrant who met nobody
    features = [known.get(entrant, nothing) for entrant in entrants] if known else None
    return Comparisons.of(len(entrants), first, second, score_first, score_second, jurors, features)


def conclude(
    standings: Sequence[Standing],
    matches: Sequence[Match],
    *,
    rule: Rule | None = None,
    failed_last: Sequence[int] = (),
    finished: bool = True,
    fit: Fit | None = None,
) -> Conclusion:
    """Rank the entrants of `standings`, and `failed_last` below them.

    `tiers` and `wins` rank when all was played (`finished`), the fits when calls connect all entrants. Ranks are None
    otherwise, and where several entrants met in no match. Where all was played and no two scores differ, all entrants
    share one rank. With rewards from the score, the failed get the lowest score less 1. `fit` is what `pooled` makes of
    this group with the others; without it, `pooled` takes the group alone.
    """
    rule = rule or Rule()
    entrants = [s.entrant for s in standings]
    evidence = Evidence(standings, matches, collect_calls(entrants, matches), fit, rule.prior) if entrants else None
    estimate = ESTIMATORS[rule.estimator_now](evidence) if evidence else NO_ESTIMATE
    beside = ESTIMATORS[rule.secondary_fit](evidence) if evidence else NO_ESTIMATE
    tied = is_level(matches)
    judged = bool(matches) or len(standings) < 2
    compared = estimate.fit.connected or (tied and finished) if estimate.fit else finished
    rankable = judged and compared
    values = estimate.exact() if rule.reward == "score" else None
    places = place(estimate.keys, failed_last, tied=tied, values=values) if rankable else {}
    of_place = {entrant: placed._asdict() for entrant, placed in places.items()}
    figures = _figures(standings, estimate, beside, tied=tied)
    of_judge = estimate.fit if rule.estimator_now == "pooled" else beside.fit
    return Conclusion(
        # the placed entrants first; a rollout that ranks last for failing has no figures
        ranked={
            e: record_of(Ranked, {**_NOTHING, "index": e, **of_place.get(e, {}), **figures.get(e, {})})
            for e in dict.fromkeys([*of_place, *figures])
        },
        signal=_signal(of_judge, len(failed_last), tied=tied),
        fit=of_judge,
        note=_NOT_CONNECTED if judged and finished and not rankable else None,
    )


def conclude_again(
    ranking: GroupRanking,
    entrants: Sequence[int],
    matches: Sequence[Match],
    fit: Fit,
    *,
    prior: Prior,
    failed_last: Sequence[int] = (),
) -> Conclusion:
    """Conclude on some entrants of a ranked group by what `pooled` makes of them with the other groups.

    Ranked by another estimator they keep their places. `fit` numbers them as `entrants` does.
    """
    standings, tied = count_points(entrants, matches), is_level(matches)
    if ranking.estimator == "pooled":
        finished = any(r.rank is not None for r in ranking.rollouts)
        rule = Rule("pooled", ranking.reward_from, prior)
        return conclude(standings, matches, rule=rule, failed_last=failed_last, finished=finished, fit=fit)
    ranked = [r for r in ranking.rollouts if r.index in set(entrants)]
    calls = collect_calls(entrants, matches)
    beside = ESTIMATORS["pooled"](Evidence(standings, matches, calls, fit, prior))
    figures = _figures(standings, None, beside, tied=tied)
    return Conclusion(
        ranked={r.index: r.model_copy(update=figures[r.index]) for r in ranked},
        signal=_signal(fit, len(failed_last), tied=tied),
        fit=fit,
    )


def is_level(matches: Sequence[Match]) -> bool:
    """Tell whether no two scores of any match differ."""
    first = matches[0].score_a if matches else None
    return all(m.score_a == first == m.score_b for m in matches)


def ranks_by_estimator(
    standings: Sequence[Standing], matches: Sequence[Match], pooled: Fit
) -> dict[EstimatorName, dict[int, float]]:
    """Return the ranks of a tournament's entrants, 0 best, by each estimator; `pooled` is what it makes of this group.

    All are tied where it cannot rank them.
    """
    evidence, tied = Evidence(standings, matches, pooled.of, pooled), is_level(matches)
    ranks = dict[EstimatorName, dict[int, float]]()
    for name in ESTIMATORS:
        estimate = ESTIMATORS[name](evidence)
        level = tied or (estimate.fit is not None and not estimate.fit.connected)
        places = average_ranks(dict.fromkeys(estimate.scores, 0) if level else estimate.keys)
        ranks[name] = {entrant: float(rank) for entrant, rank in places.items()}
    return ranks


def _signal(fit: Fit | None, failed: int, *, tied: bool) -> Signal:
    """Tell whether the group teaches anything. A failure ranked below an entrant is a signal, whatever the scores."""
    if fit is not None and failed:
        return "ok"
    if fit is None or tied:
        return "none"
    unclear = fit.reliability < WEAK_BELOW if fit.p_value is None else fit.p_value > MOST_OF_EQUALS
    return "weak" if unclear else "ok"


def _figures(
    standings: Sequence[Standing], estimate: Estimate | None, beside: Estimate, *, tied: bool
) -> dict[int, dict[str, float | None]]:
    """Return the figures of each entrant; those of the estimate's own fit, if it has one, else of the fit `beside` it.

    Where all are tied there are no probabilities: the prior alone would give them, for rollouts that the judge calls
    equal. An entrant without a point has no score; without an estimate nobody has one to tell.
    """
    fit = (estimate and estimate.fit) or beside.fit
    if fit is None:  # nobody took part
        return {}
    nothing = [None] * len(standings)
    columns = (rounded(fit.sds, 6), nothing, nothing) if tied else fit.figures[1:]
    figures: dict[int, dict[str, float | None]] = {
        s.entrant: {
            "margin": 0.0 if tied else beside.scores[s.entrant],
            "uncertainty": sd,
            "p_best": p_best,
            "p_above_mean": p_above_mean,
        }
        for s, sd, p_best, p_above_mean in zip(standings, *columns, strict=True)
    }
    for s in standings if estimate else ():
        figures[s.entrant]["score"] = estimate.scores[s.entrant] if estimate and s.points else None
    return figures


@dataclass(frozen=True)
class PairEstimate:
    """What all judged calls of a group say of two of its entrants."""

    difference: float
    """The first less the second, in score points."""
    sd: float
    """How far the true difference lies from it: the root of the posterior's mean square."""
    p_above: float
    """Posterior probability that the first is above the second."""


def probabilities_above(matches: Sequence[Match]) -> Mapping[tuple[int, int], float]:
    """Return, for each two entrants (a, b) of a group's matches, the posterior probability that a is above b.

    It is that of the `margins` fit of all judged calls, with the covariance of the two. Empty without matches, as of a
    listwise judge.
    """
    entrants, fit = _fit(matches)
    return probabilities_of_fit(fit, entrants) if fit else {}


def probabilities_of_fit(fit: Fit, entrants: Sequence[int]) -> Mapping[tuple[int, int], float]:
    """Return the same by a fit, which numbers the entrants by their place in `entrants`."""
    pairs = permutations(range(len(entrants)), 2)
    return {(entrants[i], entrants[j]): _estimate(fit, i, j).p_above for i, j in pairs}


def pair_estimate(matches: Sequence[Match], a: int, b: int) -> PairEstimate | None:
    """Return what the same fit says of two entrants; None where no judged calls connect them, and as above."""
    entrants, fit = _fit(matches)
    return pair_of_fit(fit, entrants, a, b) if fit else None


def pair_of_fit(fit: Fit, entrants: Sequence[int], a: int, b: int) -> PairEstimate | None:
    """Return what a fit says of two entrants, which it numbers by their place in `entrants`; None as above."""
    if a not in entrants or b not in entrants:
        return None
    i, j = entrants.index(a), entrants.index(b)
    connected = any(i in part and j in part for part in fit.components)
    return _estimate(fit, i, j) if connected else None


def _fit(matches: Sequence[Match]) -> tuple[list[int], Fit | None]:
    entrants = sorted({entrant for match in matches for entrant in (match.a, match.b)})
    calls = collect_calls(entrants, matches) if entrants else None
    return entrants, fit_margins(calls) if calls is not None and calls.first.size else None


def _estimate(fit: Fit, i: int, j: int) -> PairEstimate:
    covariance = fit.covariance
    variance = float(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])
    scale = math.sqrt(variance) if variance > 0 else 0.0
    difference, expected = float(fit.estimates[i] - fit.estimates[j]), float(fit.mean[i] - fit.mean[j])
    above = probability_above_zero(expected / scale if scale else 0.0, fit.dof)
    widening = math.sqrt(fit.dof / (fit.dof - 2)) if 2 < fit.dof < math.inf else 1.0
    return PairEstimate(difference, math.hypot(scale * widening, expected - difference), above)
