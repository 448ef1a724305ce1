"""The fit of a group that `pooled` ranked: the judge is learnt again from the groups of the ranking, as it was then."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.archive import RankingFile
from harness.core.judge_profile import profile_in
from harness.core.rankings import GroupRanking
from harness.ranking import Comparisons, Fit, Prior, comparisons_of, fit_by, learnt_from, prior_of, without_level

_LEARNT_FROM = 2000
"""As many groups as the ranking itself learns from (tournament/pooling.py)."""
_ROUNDING = 1e-6


@dataclass(frozen=True)
class PooledFit:
    """The fit behind a group's places."""

    fit: Fit
    by_differences: Fit
    """What the same calls say if marks carry no absolute level."""
    entrants: list[int]


def pooled_fit(ranking: RankingFile, ranked: GroupRanking) -> PooledFit | None:
    """Return the fit behind a group's places; None where `pooled` did not make them.

    A profile that was lent to the ranking is the prior, as it was then. Also None where the fit does not give the
    scores that the archive holds, as those of an earlier version.
    """
    if ranked.estimator != "pooled" or ranked.provisional or not any(match.scores for match in ranked.matches):
        return None
    names = sorted(group.query for group in ranking.groups)
    spread = [names[at * len(names) // min(len(names), _LEARNT_FROM)] for at in range(min(len(names), _LEARNT_FROM))]
    groups = [calls for name in spread if (group := ranking.of(name)) and len((calls := _calls(group)).first)]
    entrants = _entrants(ranked)
    judge, calls = learnt_from(groups, _prior(ranking)), [_calls(ranked)]
    (fit,), (by_differences,) = fit_by(judge, calls), fit_by(without_level(judge), calls)
    return PooledFit(fit, by_differences, entrants) if _gives(fit, ranked, entrants) else None


def _prior(ranking: RankingFile) -> Prior:
    text = ranking.head.settings.get("judge_profile")
    profile = profile_in(str(text), f"ranking {ranking.head.id}") if text else None
    return prior_of(profile, ranking.head.fit_version)


def _entrants(ranked: GroupRanking) -> list[int]:
    """Return who took part in the tournament: whoever did has a margin."""
    return [r.index for r in ranked.rollouts if r.margin is not None]


def _calls(ranked: GroupRanking) -> Comparisons:
    return comparisons_of(_entrants(ranked), ranked.matches)


def _gives(fit: Fit, ranked: GroupRanking, entrants: Sequence[int]) -> bool:
    scores = {r.index: r.score for r in ranked.rollouts}
    estimates: list[float] = fit.estimates.tolist()
    pairs = [(scores[index], estimate) for index, estimate in zip(entrants, estimates, strict=True)]
    return all(score is not None and abs(score - estimate) < _ROUNDING for score, estimate in pairs)
