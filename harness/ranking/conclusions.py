"""From a tournament's end to what is said of the group: ranks by an estimator, and a second opinion by `margins`."""

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

WEAK_BELOW = 0.5
"""Reliability of the margins below which a group's signal is `weak`: chance explains more than half of the spread.

Chosen by simulation (benchmarks/weak_signal.py): N = 8, 28 calls, of groups whose rollouts are all equally good 89 to
93 % fall below; of groups that differ, 0.1 % under a sharp judge and 26 % under a noisy one, and those are ranked worse
(mean Spearman .67 against .80).
"""


_APART = "the matches do not connect all rollouts, so nothing is ranked"


@dataclass(frozen=True)
class Rule:
    """How matches become ranks and rewards."""

    estimator: Estimator = "tiers"
    reward: RewardFrom = "rank"


@dataclass(frozen=True)
class Conclusion:
    """What is said of a group. `fit` is the margins', None without an entrant."""

    ranked: Mapping[int, Ranked]
    signal: Signal
    fit: Fit | None
    note: str | None = None
    """Why there are no ranks although all matches were played."""


def comparisons_of(entrants: Sequence[int], matches: Sequence[Match]) -> Comparisons:
    """Return the judged calls behind matches, each once; entrants are numbered by their place in `entrants`."""
    at = {e: i for i, e in enumerate(entrants)}
    found = [
        (at[first], at[m.b if first == m.a else m.a], *scores)
        for m in matches
        if not m.repeated
        for first, scores in zip(m.shown_first, m.scores, strict=False)  # archives before 0.2 hold no scores
    ]
    first, second, score_first, score_second = zip(*found, strict=True) if found else ((), (), (), ())
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

    `tiers` and `wins` rank when all was played (`finished`), `margins` and `bt` when calls connect all entrants; else,
    and where none of several was judged, ranks are None. Where no two scores of the matches differ, all entrants share
    one rank. With rewards from the score, the failed get the lowest score less 1.
    """
    rule, entrants = rule or Rule(), [s.entrant for s in standings]
    tied = len({score for m in matches for score in (m.score_a, m.score_b)}) < 2
    calls = comparisons_of(entrants, matches) if entrants else None
    by_margins = fit_margins(calls) if calls else None
    own = fit_bt(calls) if calls and rule.estimator == "bt" else by_margins
    fitted = rule.estimator in {"margins", "bt"}
    judged = bool(matches) or len(entrants) < 2
    rankable = judged and ((own is None or own.connected) if fitted else finished)
    scores = _scores(rule.estimator, standings, matches, own)
    keys: Mapping[int, Any] = tiers(standings) if rule.estimator == "tiers" else scores
    places = place(keys, failed_last, tied=tied, values=scores if rule.reward == "score" else None) if rankable else {}
    ranked = _ranked(standings, places, scores, own, by_margins, tied=tied)
    return Conclusion(
        ranked=ranked,
        signal=_signal(by_margins, len(failed_last), tied=tied),
        fit=by_margins,
        note=_APART if judged and finished and not rankable else None,
    )


def _scores(
    estimator: Estimator, standings: Sequence[Standing], matches: Sequence[Match], fit: Fit | None
) -> Mapping[int, Fraction]:
    """Return each entrant's estimate: V, the share of wins, or the mode (to 9 places, so that ties are ties)."""
    if estimator == "tiers":
        return {s.entrant: s.mean for s in standings}
    if estimator == "wins" or fit is None:
        return win_shares([s.entrant for s in standings], matches)
    return {s.entrant: exact(e) for s, e in zip(standings, _rounded(fit.estimates, 9), strict=True)}


def _signal(fit: Fit | None, failed: int, *, tied: bool) -> Signal:
    """Tell whether there is anything to learn. A failure ranked below an entrant is a signal, whatever the scores."""
    if fit is not None and failed:
        return "ok"
    if fit is None or tied:
        return "none"
    return "weak" if fit.reliability < WEAK_BELOW else "ok"


def _ranked(
    standings: Sequence[Standing],
    places: Mapping[int, Placed],
    scores: Mapping[int, Fraction],
    own: Fit | None,
    by_margins: Fit | None,
    *,
    tied: bool,
) -> dict[int, Ranked]:
    found: dict[int, dict[str, Any]] = {
        e: {"rank": p.rank, "reward": p.reward, "advantage": p.advantage} for e, p in places.items()
    }
    if own is not None and by_margins is not None:
        told = {"margin": _rounded(by_margins.estimates, 9), "uncertainty": _rounded(own.sds, 6)}
        if not tied:  # else the prior alone would speak, of rollouts that the judge calls equal
            told |= {"p_best": _rounded(own.p_best(), 4), "p_above_mean": _rounded(own.p_above_mean(), 4)}
        for i, s in enumerate(standings):
            row = found.setdefault(s.entrant, {})
            row |= {name: values[i] for name, values in told.items()}
            if s.points:
                row["score"] = float(scores[s.entrant])
    return {e: Ranked(index=e, **row) for e, row in found.items()}


def _rounded(values: Any, digits: int) -> list[float]:
    return [round(v, digits) + 0.0 for v in values.tolist()]
