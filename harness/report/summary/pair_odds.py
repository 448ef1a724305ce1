"""How probably one rollout of a ranked group is better than another, by the fit behind the group's probabilities."""

from collections.abc import Callable, Mapping
from functools import cache

from harness.archive.rankings import RankingFile
from harness.core.rankings import GroupRanking
from harness.ranking.pair_probability import probabilities_above, probabilities_of_fit
from harness.ranking.pooled import fit_by
from harness.ranking.reward_classes import ranked_classes
from harness.report.summary.why.pooled_fit import is_by_pooled, is_by_reward, learnt_judge

PairOdds = Callable[[GroupRanking], Mapping[tuple[int, int], float]]
"""From a ranked group to the probability that a is above b, for each two of its entrants (a, b) that may meet."""


def pair_odds(ranking: RankingFile) -> PairOdds:
    """Return the odds in the groups of a ranking; `pooled` learns the judge when they are first asked for."""
    judge = cache(lambda: learnt_judge(ranking))

    def odds(ranked: GroupRanking) -> Mapping[tuple[int, int], float]:
        if not is_by_pooled(ranked):
            return probabilities_above(ranked.matches)
        classes = ranked_classes(ranked, by_reward=is_by_reward(ranking))
        fits = fit_by(judge(), [of_class.calls for of_class in classes])
        of_classes = [probabilities_of_fit(fit, c.entrants) for fit, c in zip(fits, classes, strict=True)]
        return {pair: above for of_class in of_classes for pair, above in of_class.items()}

    return odds
