"""The fit behind a group's probabilities, learnt again from all groups, and how probably one rollout beats another."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from harness.archive.result_files import RankingFile
from harness.core.judge_profile import profile_in
from harness.core.rankings import GroupRanking
from harness.ranking.comparisons import Fit
from harness.ranking.conclusions import probabilities_above, probabilities_of_fit
from harness.ranking.pooled import fit_by, without_level
from harness.ranking.pooled_judge import LearntJudge
from harness.ranking.profile import lent_prior
from harness.ranking.reward_classes import judge_behind, ranked_classes

JudgeOnce = Callable[[], LearntJudge]
_ROUNDING = 1e-6


@dataclass(frozen=True)
class PooledFit:
    """The fit behind the probabilities of rollouts that may have met."""

    fit: Fit
    by_differences: Fit
    """What the same calls say if marks carry no absolute level."""
    entrants: list[int]


def is_by_pooled(ranked: GroupRanking) -> bool:
    """Tell whether the probabilities of a group come from `pooled`, and rest on matches."""
    by_pooled = "pooled" in {ranked.estimator, ranked.secondary_fit}
    return by_pooled and not ranked.provisional and bool(ranked.matches)


def learnt_judge(ranking: RankingFile) -> LearntJudge:
    """Return the judge as all groups of a ranking show them; a profile lent to the ranking is the prior."""
    text = ranking.head.settings.get("judge_profile")
    profile = profile_in(str(text), f"ranking {ranking.head.id}") if text else None
    prior = lent_prior(profile, ranking.head.fit_version, ranking.head.leanings)
    return judge_behind(ranking.queries, ranking.stored, prior, by_reward=is_by_reward(ranking))


def judge_at_need(ranking: RankingFile) -> JudgeOnce:
    """Return what gives the judge of a ranking, learnt at the first call."""
    return cache(lambda: learnt_judge(ranking))


def pooled_fit(
    ranking: RankingFile, ranked: GroupRanking, a: int, b: int, judge_once: JudgeOnce | None = None
) -> PooledFit | None:
    """Return the fit behind two rollouts' probabilities; None unless `pooled` gives what the archive holds of them.

    `judge_once` spares learning a judge whom another reader of the ranking learns, too.
    """
    classes = ranked_classes(ranked, by_reward=is_by_reward(ranking)) if is_by_pooled(ranked) else ()
    for of_class in classes:
        if {a, b} <= set(of_class.entrants):
            judge, calls = (judge_once or judge_at_need(ranking))(), [of_class.calls]
            (fit,), (by_differences,) = fit_by(judge, calls), fit_by(without_level(judge), calls)
            estimates: list[float] = fit.estimates.tolist()
            kept = {r.index: r.score if ranked.estimator == "pooled" else r.margin for r in ranked.rollouts}
            held = [(kept[index], estimate) for index, estimate in zip(of_class.entrants, estimates, strict=True)]
            if all(value is not None and abs(value - estimate) < _ROUNDING for value, estimate in held):
                return PooledFit(fit, by_differences, of_class.entrants)
    return None


def is_by_reward(ranking: RankingFile) -> bool:
    """Tell whether only rollouts of equal verifiable reward met."""
    return ranking.head.settings.get("judge_when") == "tied"


def pair_odds(
    ranking: RankingFile, judge_once: JudgeOnce | None = None
) -> Callable[[GroupRanking], Mapping[tuple[int, int], float]]:
    """Return what gives, for each two rollouts (a, b) of a group that may meet, the probability that a is above b."""
    judge = judge_once or judge_at_need(ranking)

    def odds(ranked: GroupRanking) -> Mapping[tuple[int, int], float]:
        if not is_by_pooled(ranked):
            return probabilities_above(ranked.matches)
        classes = ranked_classes(ranked, by_reward=is_by_reward(ranking))
        fits = fit_by(judge(), [of_class.calls for of_class in classes])
        of_classes = [probabilities_of_fit(fit, c.entrants) for fit, c in zip(fits, classes, strict=True)]
        return {pair: above for of_class in of_classes for pair, above in of_class.items()}

    return odds
