"""Groups ranked by what is cached of them: no text is read, and nothing is waited for."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.core.group_cache import CachedGroup
from harness.core.rankings import GroupRanking
from harness.judging.verdict_cache import PairLedger
from harness.ranking.comparisons import Comparisons
from harness.ranking.pooled_judge import LearntJudge
from harness.ranking.profile import lent_prior
from harness.ranking.reward_classes import learnt_from_calls
from harness.tournament.group import Contender, Lineup, Rules, classes_to_judge, open_tournaments
from harness.tournament.group_ranking import TournamentResult, rank_tournament, rank_tournaments
from harness.tournament.play import play_cached
from harness.tournament.sources import CacheSource


@dataclass(frozen=True)
class CachedRanker:
    """Ranks groups by tournaments of a single judge whose verdicts are in the groups' caches."""

    rules: Rules

    def play(self, group: CachedGroup) -> TournamentResult | None:
        """Return the group's tournament; None where not all that it needs is cached."""
        if any(rollout.status == "ok" and rollout.shown is None for rollout in group.rollouts):
            return None  # whether its answer was cut is not known
        cut = [rollout.number for rollout in group.rollouts if rollout.cut]
        contenders = [Contender(r.number, r.role, r.status, r.verified, r.failure) for r in group.rollouts]
        lineup = Lineup(group.query, contenders, cut)
        classes, source = classes_to_judge(lineup.ok, self.rules), CacheSource(group, self.rules.repeats)
        topologies = open_tournaments(lineup, classes, self.rules, self.rules.rng(group.query))
        played = [tournament for topology in topologies if (tournament := play_cached(topology, source))]
        if len(played) < len(topologies):
            return None
        return TournamentResult(lineup, classes, played, cached=len(source.used))

    def learn(self, calls: Iterable[Comparisons]) -> LearntJudge:
        """Return the judge as the calls of groups show them."""
        return learnt_from_calls(calls, lent_prior(self.rules.profile))

    def rank(self, results: Iterable[TournamentResult], judge: LearntJudge | None) -> Iterator[GroupRanking]:
        """Yield the rankings of groups by a judge that is learnt from all of them; without one each by itself."""
        if judge:
            return rank_tournaments(results, judge, self.rules)
        return (rank_tournament(result, PairLedger(), self.rules) for result in results)
