"""From a tournament's end to the conclusion on its group: ranks by an estimator, and a second opinion by `margins`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from harness.core.rankings import Match, Ranked, Signal
from harness.ranking.bt import fit_bt
from harness.ranking.comparisons import Comparisons, Fit
from harness.ranking.margins import fit_margins
from harness.ranking.rewards import Placed, place
from harness.ranking.tiers import tiers
from harness.ranking.topology import Standing, exact
from harness.ranking.wins import win_shares

Estimator = Literal["tiers", "wins", "margins", "bt"]
RewardFrom = Literal["rank", "score"]

_FITTED = frozenset({"margins", "bt"})
"""The estimators that rank by a fit, and so need no finished tournament."""

WEAK_BELOW = 0.5
"""Reliability of the margins below which a group's signal is `weak`: chance explains more than half of the spread.

Chosen by simulation (benchmarks/weak_signal.py): N = 8, 28 calls, of groups whose rollouts are all equally good 89 to
93 % fall below; of groups that differ, 0.1 % under a sharp judge and 26 % under a noisy one, and those are ranked worse
(mean Spearman .67 against .80).
"""

_NOT_CONNECTED = "the matches do not connect all rollouts, so nothing is ranked"


@dataclass(frozen=True)
class Rule:
    """How matches become ranks and rewards."""

    estimator: Estimator = "tiers"
    reward: RewardFrom = "rank"


@dataclass(frozen=True)
class Conclusion:
    """A group's ranks and signal. `fit` is that of the margins, None without an entrant."""

    ranked: Mapping[int, Ranked]
    signal: Signal
    fit: Fit | None
    note: str | None = None
    """Why there are no ranks although all matches were played."""


def comparisons_of(entrants: Sequence[int], matches: Sequence[Match]) -> Comparisons:
    """Return the judged calls behind matches, each once; entrants are numbered by their place in `entrants`."""
    number = {e: i for i, e in enumerate(entrants)}
    calls = [
        (number[first], number[m.b if first == m.a else m.a], *scores)
        for m in matches
        if not m.repeated
        for first, scores in zip(m.shown_first, m.scores, strict=False)  # archives before 0.2 hold no scores
    ]
    first, second, score_first, score_second = zip(*calls, strict=True) if calls else ((), (), (), ())
    return Comparisons.of(len(entrants), first, second, score_first, score_second)


def conclude(
    standings: Sequence[Standing],
    matches: Sequence[Match],
    *,
    rule: Rule | None = None,
    failed_last: Sequence[int] = (),
    finished: bool = True,
) -> Conclusion:
    """Rank the entrants of `standings`, and `failed_last` below them.

    `tiers` and `wins` rank when all was played (`finished`), `margins` and `bt` when calls connect all entrants. Ranks
    are None otherwise, and where several entrants met in no match. Where no two scores of the matches differ, all
    entrants share one rank. With rewards from the score, the failed get the lowest score less 1.
    """
    rule = rule or Rule()
    fits = _fits(rule.estimator, [s.entrant for s in standings], matches)
    tied = len({score for m in matches for score in (m.score_a, m.score_b)}) < 2
    judged = bool(matches) or len(standings) < 2
    connected = fits is None or fits.ranking.connected
    rankable = judged and (connected if rule.estimator in _FITTED else finished)
    scores = _scores(rule.estimator, standings, matches, fits)
    keys: Mapping[int, Any] = tiers(standings) if rule.estimator == "tiers" else scores
    places = place(keys, failed_last, tied=tied, values=scores if rule.reward == "score" else None) if rankable else {}
    by_margins = fits.margins if fits else None
    return Conclusion(
        ranked=_ranked(places, _figures(standings, scores, fits, tied=tied)),
        signal=_signal(by_margins, len(failed_last), tied=tied),
        fit=by_margins,
        note=_NOT_CONNECTED if judged and finished and not rankable else None,
    )


@dataclass(frozen=True)
class _Fits:
    """The fit that ranks, or says how sure a ranking is, and the `margins` fit of the same calls."""

    ranking: Fit
    margins: Fit


def _fits(estimator: Estimator, entrants: Sequence[int], matches: Sequence[Match]) -> _Fits | None:
    """Return the fits of the judged calls; None without an entrant."""
    if not entrants:
        return None
    calls = comparisons_of(entrants, matches)
    by_margins = fit_margins(calls)
    return _Fits(fit_bt(calls) if estimator == "bt" else by_margins, by_margins)


def _scores(
    estimator: Estimator, standings: Sequence[Standing], matches: Sequence[Match], fits: _Fits | None
) -> Mapping[int, Fraction]:
    """Return each entrant's estimate: V, the share of wins, or the mode (to 9 places, so that ties are ties)."""
    if estimator == "tiers":
        return {s.entrant: s.mean for s in standings}
    if estimator == "wins" or fits is None:
        return win_shares([s.entrant for s in standings], matches)
    return {s.entrant: exact(e) for s, e in zip(standings, _rounded(fits.ranking.estimates, 9), strict=True)}


def _signal(fit: Fit | None, failed: int, *, tied: bool) -> Signal:
    """Tell whether the group teaches anything. A failure ranked below an entrant is a signal, whatever the scores."""
    if fit is not None and failed:
        return "ok"
    if fit is None or tied:
        return "none"
    return "weak" if fit.reliability < WEAK_BELOW else "ok"


@dataclass(frozen=True)
class _Figures:
    """What the fits and the estimate say of one entrant."""

    score: float | None
    margin: float
    uncertainty: float
    p_best: float | None
    p_above_mean: float | None


def _figures(
    standings: Sequence[Standing], scores: Mapping[int, Fraction], fits: _Fits | None, *, tied: bool
) -> dict[int, _Figures]:
    """Return the figures of each entrant.

    Where all are tied there are no probabilities: the prior alone would give them, for rollouts that the judge calls
    equal. An entrant without a point has no score.
    """
    if fits is None:
        return {}
    nothing = [None] * len(standings)
    columns = zip(
        standings,
        _rounded(fits.margins.estimates, 9),
        _rounded(fits.ranking.sds, 6),
        nothing if tied else _rounded(fits.ranking.p_best(), 4),
        nothing if tied else _rounded(fits.ranking.p_above_mean(), 4),
        strict=True,
    )
    return {
        s.entrant: _Figures(float(scores[s.entrant]) if s.points else None, margin, sd, p_best, p_above_mean)
        for s, margin, sd, p_best, p_above_mean in columns
    }


def _ranked(places: Mapping[int, Placed], figures: Mapping[int, _Figures]) -> dict[int, Ranked]:
    """Join places and figures, the placed entrants first; a rollout that ranks last for failing has no figures."""
    return {e: _ranked_entrant(e, places.get(e), figures.get(e)) for e in dict.fromkeys([*places, *figures])}


def _ranked_entrant(entrant: int, placed: Placed | None, figures: _Figures | None) -> Ranked:
    return Ranked(
        index=entrant,
        score=figures and figures.score,
        rank=placed and placed.rank,
        reward=placed and placed.reward,
        advantage=placed and placed.advantage,
        uncertainty=figures and figures.uncertainty,
        margin=figures and figures.margin,
        p_best=figures and figures.p_best,
        p_above_mean=figures and figures.p_above_mean,
    )


def _rounded(values: Any, digits: int) -> list[float]:
    return [round(v, digits) + 0.0 for v in values.tolist()]
