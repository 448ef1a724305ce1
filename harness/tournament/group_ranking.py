"""From tournaments, of texts or of caches, to the records of their groups' rankings, also once all groups are in.

`pooled` then learns the judge from all of them, and each group is finalized by it. Ranked by `pooled` a group gets its
places then. Ranked by an estimator without a fit it keeps them, and gets the probabilities and the signal that stand
beside them. What a group's tournament left is read again where it is needed, so that memory does not grow with the
queries.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from harness.core.group_cache import CachedGroup
from harness.core.rankings import GroupRanking, Match, PairJudgment, Ranked, Unjudged
from harness.judging.verdict_cache import PairLedger
from harness.ranking import comparisons
from harness.ranking.conclusions import Conclusion, collect_calls, conclude, conclude_again
from harness.ranking.estimators import secondary_fit
from harness.ranking.judge_stats.agreement import agreement, match_margins
from harness.ranking.pooled import fit_by
from harness.ranking.pooled_judge import LearntJudge
from harness.ranking.reward_classes import judge_behind, learnt_from_calls, ranked_classes, stack_classes
from harness.ranking.topologies import NEED_ANCHOR
from harness.tournament.group import (
    Contender,
    Lineup,
    Rules,
    classes_to_judge,
    cuts,
    failed_last,
    has_anchor,
    jurors_missing,
    open_tournaments,
)
from harness.tournament.play import CacheSource, PlayedTournament, play_cached


@dataclass(frozen=True)
class TournamentResult:
    """A group's tournament, over: one for each class of rollouts that may meet."""

    lineup: Lineup
    classes: Sequence[Sequence[int]]
    played: Sequence[PlayedTournament]
    jurors: int = 1
    cached: int = 0
    """Verdicts that were taken from the group's cache, and stand in no ledger."""

    @property
    def matches(self) -> tuple[Match, ...]:
        """The matches of all classes."""
        return tuple(match for played in self.played for match in played.matches)

    @property
    def calls(self) -> list[comparisons.Comparisons]:
        """The judged calls of each class; none where nobody met anybody."""
        if not self.matches:
            return []
        members = [of_class for of_class in self.classes if of_class]
        return [collect_calls(of_class, played.matches) for of_class, played in zip(members, self.played, strict=True)]


def rank_tournament(
    result: TournamentResult,
    ledger: PairLedger,
    rules: Rules,
    fits: Sequence[comparisons.Fit] | None = None,
    at_ends: float | None = None,
) -> GroupRanking:
    """Return the record of a group's ranking; provisional where `pooled` can learn from its matches and from others.

    A judge who is learnt already gives the fit of each class and the share of its scores at an end of the scale.
    """
    played, lineup, matches = result.played, result.lineup, result.matches
    open_verdicts = sorted(key for p in played for key in p.open_verdicts)
    absent = tuple(key for p in played for key in p.absent_verdicts)
    sizes = [len(of_class) for of_class in result.classes]
    is_judged_later = rules.topology == "none" and (len(sizes) == 1 or max(sizes, default=0) > 1)
    conclusion = _conclude(result, rules, fits)
    if at_ends is None and rules.pooled_alone and matches:
        at_ends = comparisons.share_at_ends([collect_calls([rollout.index for rollout in lineup.ok], matches)])
    places = [(conclusion.ranked.get(r.index) or Ranked(index=r.index), r.verified) for r in lineup.rollouts]

    def judged(key: str) -> PairJudgment | None:
        verdict = ledger.bought.get(key) or ledger.reused.get(key)
        return None if isinstance(verdict, Unjudged) else verdict

    return GroupRanking(
        query=lineup.query,
        topology=played[0].topology if played else rules.topology,
        estimator=rules.estimator,
        status="incomplete" if open_verdicts or is_judged_later else "complete",
        signal=conclusion.signal,
        matches=matches,
        rollouts=tuple([p if v is None else p.model_copy(update={"verified": v}) for p, v in places]),
        failed_verdicts=tuple(open_verdicts),
        judged=ledger.judged,
        reused=len(ledger.reused) + result.cached,
        saved_calls=sum(p.saved_calls for p in played),
        judge_usage=ledger.usage,
        **ledger.prices,
        notes=(
            *_notes_on_design(result, rules),
            *filter(None, (conclusion.note, comparisons.ceiling_note(at_ends or 0.0))),
            *jurors_missing(absent, ledger.bought),
            *cuts(lineup.cut),
        ),
        reward_from=rules.reward,
        absent_verdicts=absent,
        agreement=agreement(match_margins(matches, judged)) if result.jurors > 1 else (),
        provisional=rules.provisional and bool(matches),
        secondary_fit=rules.rule.secondary_fit,
        **conclusion.judge_figures,
    )


def rank_tournaments(results: Iterable[TournamentResult], judge: LearntJudge, rules: Rules) -> Iterator[GroupRanking]:
    """Yield what `rank_tournament` and then `refit` would, each group concluded once. Only some are in memory."""
    left, final = iter(results), replace(rules, one_of_many=False)
    while some := list(islice(left, _AT_ONCE)):
        fits = iter(comparisons.with_chances(fit_by(judge, [calls for result in some for calls in result.calls])))
        for result in some:
            if of_group := list(islice(fits, len(result.calls))):
                yield rank_tournament(result, PairLedger(), final, of_group, judge.at_ends)
            else:  # nobody met anybody
                yield rank_tournament(result, PairLedger(), rules)


def _conclude(result: TournamentResult, rules: Rules, fits: Sequence[comparisons.Fit] | None) -> Conclusion:
    if not result.played or (rules.topology == "none" and len(result.played) == 1):
        return Conclusion(ranked={}, signal="none", fit=None)
    last = failed_last(result.lineup.rollouts, rules)
    conclusions: list[Conclusion] = []
    for played, fit in zip(result.played, fits or [None] * len(result.played), strict=True):
        last_fit, calls = played.last_fit, sum(len(match.scores) for match in played.matches)
        is_whole = last_fit and last_fit.calls == calls == len(played.matches)
        if is_whole and rules.by_pooled and not rules.prior.leanings:  # of features an early stop knows nothing
            fit = fit or last_fit  # noqa: PLW2901
        alone, finished = last if len(result.played) == 1 else (), not played.open_verdicts
        conclusions.append(
            conclude(played.standings, played.matches, rule=rules.rule, failed_last=alone, finished=finished, fit=fit)
        )
    return stack_classes(conclusions, last)


def _notes_on_design(result: TournamentResult, rules: Rules) -> tuple[str, ...]:
    ok, classes = result.lineup.ok, result.classes
    if not ok:
        return ("no rollout ended well: nothing to rank",)
    if len(classes) > 1:
        within = sum(len(c) > 1 for c in classes) if rules.topology != "none" else 0
        judged = f"judged within {within} of them" if within else "nothing was judged"
        return (f"ranked by verifiable reward first: {len(classes)} classes; {judged}",)
    if rules.topology == "none":
        return ("not judged, as --topology none asks; `harness rescore --topology arena` judges and ranks",)
    if len(ok) == 1 and not failed_last(result.lineup.rollouts, rules):
        return ("a single rollout carries no signal: there is nothing to compare it with",)
    return () if result.lineup.anchor else (_without_anchor(result.lineup, rules),)


def _without_anchor(lineup: Lineup, rules: Rules) -> str:
    failed = has_anchor(lineup.rollouts)
    why = "the anchor failed" if failed else "there is no anchor"
    if failed and rules.anchor_failed == "stop":
        return f"{why}: left unranked, as --anchor-failed stop asks"
    if len(lineup.ok) == 1:
        return f"{why}: the only rollout that ended well met nobody"
    how = "by single elimination with drawn seeds" if rules.topology in NEED_ANCHOR else "without it"
    return f"{why}: {'the others were ranked' if failed else 'ranked'} {how}"


_AT_ONCE = 64
"""Groups that are fitted, and in memory, together."""


StoredRanking = Callable[[str], GroupRanking]
"""From the id of a query to the ranking of its group as it stands."""


def finalize(queries: Sequence[str], provisional: StoredRanking, rules: Rules) -> Iterator[GroupRanking]:
    """Yield the rankings that count, in the order of `queries`, from those that their groups had before all were in.

    The result depends on which queries there are, but not on their order.
    """
    return refit(learnt_from_all(queries, provisional, rules), map(provisional, queries), rules)


def learnt_from_all(queries: Sequence[str], provisional: StoredRanking, rules: Rules) -> LearntJudge:
    """Return the judge as the groups of a ranking show them."""
    return judge_behind(queries, provisional, rules.prior, by_reward=rules.judge_when == "tied")


def refit(judge: LearntJudge, rankings: Iterable[GroupRanking], rules: Rules) -> Iterator[GroupRanking]:
    """Yield rankings finalized by a judge who is learnt already. Only some are in memory at a time."""
    left = iter(rankings)
    while some := list(islice(left, _AT_ONCE)):
        classes = [ranked_classes(ranking, by_reward=rules.judge_when == "tied") for ranking in some]
        fits = iter(comparisons.with_chances(fit_by(judge, [part.calls for of_group in classes for part in of_group])))
        for ranking, of_group in zip(some, classes, strict=True):
            if not of_group:  # nobody met anybody
                yield ranking.model_copy(update={"provisional": False})
                continue
            last = [r.index for r in ranking.rollouts if r.rank is not None and r.margin is None]
            alone = last if len(of_group) == 1 else ()
            parts = [
                conclude_again(ranking, *part, next(fits), prior=rules.prior, failed_last=alone) for part in of_group
            ]
            conclusion = stack_classes(parts, last)
            kept = {r.index: {"verified": r.verified, "explanation": r.explanation} for r in ranking.rollouts}
            places = [conclusion.ranked.get(r.index, r).model_copy(update=kept[r.index]) for r in ranking.rollouts]
            is_ranked = any(r.rank is not None for r in ranking.rollouts)
            note = comparisons.ceiling_note(judge.at_ends)
            changes = {
                "provisional": False,
                "rollouts": tuple(places),
                "signal": conclusion.signal if is_ranked else ranking.signal,
                "secondary_fit": secondary_fit(rules.estimator),
                "notes": (*comparisons.without_ceiling_note(ranking.notes), *([note] if note else [])),
            }
            yield ranking.model_copy(update=changes | conclusion.judge_figures)


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

    def learn(self, calls: Iterable[comparisons.Comparisons]) -> LearntJudge:
        """Return the judge as the calls of groups show them."""
        return learnt_from_calls(calls, self.rules.prior)

    def rank(self, results: Iterable[TournamentResult], judge: LearntJudge | None) -> Iterator[GroupRanking]:
        """Yield the rankings of groups by a judge that is learnt from all of them; without one each by itself."""
        if judge:
            return rank_tournaments(results, judge, self.rules)
        return (rank_tournament(result, PairLedger(), self.rules) for result in results)
