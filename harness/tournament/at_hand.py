"""Groups ranked by what is kept of them: no text is read, nothing is waited for, and many are fitted at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from harness.core.extracts import GroupExtract, RolloutExtract
from harness.core.rankings import GroupRanking
from harness.judging.juror import PairLedger
from harness.judging.jury import Averaging
from harness.ranking.comparisons import Comparisons, with_chances
from harness.ranking.pooled import LearntJudge, fit_by
from harness.ranking.profile import prior_of
from harness.ranking.ranked_calls import learnt_from_calls, learnt_from_queries
from harness.tournament.arenas_at_hand import arenas_at_hand
from harness.tournament.designs import topologies_of
from harness.tournament.group import Lineup, Rules, classes_to_judge
from harness.tournament.heard import Heard
from harness.tournament.play import PlayedTournament, play_at_hand
from harness.tournament.result import LearntFits, TournamentResult, ranking_of


class _Failed(NamedTuple):
    kind: str


@dataclass(frozen=True, slots=True)
class _Kept:
    """A rollout as `Lineup` asks for it."""

    index: int
    role: str
    status: str
    verified: float | None
    failure: _Failed | None


@dataclass(frozen=True)
class RankerAtHand:
    """Ranks groups by tournaments of a single judge whose verdicts are kept in their extracts."""

    rules: Rules

    def play_all(self, extracts: Sequence[GroupExtract | None]) -> list[TournamentResult | None]:
        """Return the tournaments of groups; None where not all that one needs is at hand."""
        return [
            extract and (_result_of(extract, arena, self.rules) if arena else self.play(extract))
            for extract, arena in zip(extracts, arenas_at_hand(extracts, self.rules), strict=True)
        ]

    def play(self, extract: GroupExtract) -> TournamentResult | None:
        """Return the group's tournament; None where not all that it needs is at hand."""
        rules, lineup = self.rules, _lineup_of(extract)
        if any(rollout.status == "ok" and rollout.shown is None for rollout in extract.rollouts):
            return None  # whether its answer was cut is not known
        classes, verdicts = classes_to_judge(lineup.ok, rules), _KeptVerdicts(extract, rules.repeats)
        topologies = topologies_of(lineup, classes, rules, rules.rng(extract.query))
        played = [tournament for topology in topologies if (tournament := play_at_hand(topology, verdicts))]
        if len(played) < len(topologies):
            return None
        return TournamentResult(lineup, classes, played, taken=len(verdicts.taken))

    def taught_by(self, queries: Sequence[str]) -> list[str]:
        """Return the queries whose groups teach the judge."""
        return learnt_from_queries(queries, self.rules.fit_version)

    def learn(self, calls: Sequence[Comparisons]) -> LearntJudge:
        """Return the judge as the calls of groups show them."""
        return learnt_from_calls(calls, prior_of(self.rules.profile, self.rules.fit_version))

    def rank(self, results: Sequence[TournamentResult], judge: LearntJudge | None) -> Iterator[GroupRanking]:
        """Yield the rankings of groups, which are fitted together by a judge that is learnt from all of the ranking.

        Without a judge each group is ranked by itself.
        """
        if judge is None:
            return (ranking_of(result, PairLedger(), self.rules) for result in results)
        calls, rules = [result.calls for result in results], replace(self.rules, one_of_many=False)
        fits = iter(with_chances(fit_by(judge, [of_class for of_group in calls for of_class in of_group])))
        told = [LearntFits([next(fits) for _ in of_group], judge.at_ends) if of_group else None for of_group in calls]
        return (
            ranking_of(result, PairLedger(), rules if of else self.rules, of)
            for result, of in zip(results, told, strict=True)
        )


class _KeptVerdicts:
    """What an extract has of a single judge's verdicts."""

    averaging: Averaging = "mean"

    def __init__(self, extract: GroupExtract, repeats: int) -> None:
        self.repeats = repeats
        self.taken = set[str]()
        self._extract = extract
        self._shown = {rollout.number: (rollout.shown, rollout.cut) for rollout in extract.rollouts}
        shown = [rollout.shown for rollout in extract.rollouts if rollout.shown]
        self._all_differ = len({*shown}) == len(shown) and not any(rollout.cut for rollout in extract.rollouts)

    def at_hand(self, first: int, second: int, repeat: int) -> tuple[Heard] | None:
        """Return the judge's verdict, or None."""
        verdicts = self._extract.verdicts.get((first, second, repeat))
        if not verdicts:
            return None
        verdict = verdicts[0]
        self.taken.add(verdict.key)
        of_twins = cut = False
        if not self._all_differ:
            (text, text_cut), (other, other_cut) = self._shown[first], self._shown[second]
            of_twins, cut = text == other, text_cut or other_cut
        return (Heard(verdict.key, verdict.score_first, verdict.score_second, of_twins, cut),)


def _result_of(extract: GroupExtract, arena: PlayedTournament, rules: Rules) -> TournamentResult:
    lineup = _lineup_of(extract)
    taken = set[str]().union(*[match.verdicts for match in arena.matches])
    return TournamentResult(lineup, classes_to_judge(lineup.ok, rules), [arena], taken=len(taken))


def _lineup_of(extract: GroupExtract) -> Lineup:
    cut = [rollout.number for rollout in extract.rollouts if rollout.cut]
    return Lineup(extract.query, [_kept(rollout) for rollout in extract.rollouts], cut)


def _kept(rollout: RolloutExtract) -> _Kept:
    failure = _Failed(rollout.failure) if rollout.failure else None
    return _Kept(rollout.number, rollout.role, rollout.status, rollout.verified, failure)
