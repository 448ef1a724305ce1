"""What a tournament that is over says of its group: the record of its ranking."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from harness.core.rankings import Agreement, GroupRanking, Match, Ranked
from harness.core.verdicts import PairJudgment, Unjudged
from harness.judging.jury import PairLedger
from harness.ranking.ceiling import ceiling_note, share_at_ends
from harness.ranking.comparisons import Comparisons, Fit
from harness.ranking.conclusions import Conclusion, comparisons_of, conclude
from harness.ranking.juror_agreement import agreement, match_margins
from harness.ranking.registry import NEED_ANCHOR
from harness.ranking.reward_classes import stack_classes
from harness.tournament.group import Lineup, Rules, cuts, failed_last, has_anchor, jurors_missing
from harness.tournament.judge_noise import judge_noise
from harness.tournament.play import PlayedTournament


@dataclass(frozen=True)
class TournamentResult:
    """A group's tournament, over: one for each class of rollouts that may meet."""

    lineup: Lineup
    classes: Sequence[Sequence[int]]
    played: Sequence[PlayedTournament]
    jurors: int = 1
    taken: int = 0
    """Verdicts that were taken from what is kept of the group, and stand in no ledger."""

    @property
    def matches(self) -> tuple[Match, ...]:
        """The matches of all classes."""
        return tuple(match for played in self.played for match in played.matches)

    @cached_property
    def calls(self) -> list[Comparisons]:
        """The judged calls of each class; none where nobody met anybody."""
        if not self.matches:
            return []
        members = [of_class for of_class in self.classes if of_class]
        return [
            played.calls or comparisons_of(of_class, played.matches)
            for of_class, played in zip(members, self.played, strict=True)
        ]


class LearntFits(NamedTuple):
    """What `pooled` makes of a group once the judge is learnt from all groups."""

    fits: Sequence[Fit]
    """One for each class."""
    at_ends: float
    """Share of the judge's scores that lie at an end of the scale."""


def ranking_of(
    result: TournamentResult, ledger: PairLedger, rules: Rules, told: LearntFits | None = None
) -> GroupRanking:
    """Return the record of a group's ranking; provisional where `pooled` can learn from its matches and from others.

    What is `told` with the judge learnt from all groups counts: nothing of it is provisional.
    """
    if told and rules.one_of_many:
        rules = replace(rules, one_of_many=False)
    played, lineup, matches = result.played, result.lineup, result.matches
    open_verdicts = sorted(key for p in played for key in p.open_verdicts)
    absent = tuple(key for p in played for key in p.absent_verdicts)
    conclusion = _conclude(result, rules, told)
    return GroupRanking(
        query=lineup.query,
        topology=played[0].topology if played else rules.topology,
        estimator=rules.estimator,
        status="incomplete" if open_verdicts or _judged_later(result.classes, rules) else "complete",
        signal=conclusion.signal,
        matches=matches,
        rollouts=_places(lineup, conclusion),
        failed_verdicts=tuple(open_verdicts),
        judged=ledger.judged,
        reused=len(ledger.reused) + result.taken,
        saved_calls=sum(p.saved_calls for p in played),
        judge_usage=ledger.usage,
        judge_usd=ledger.price_usd,
        notes=(
            *_notes_on_design(result, rules),
            *_notes(conclusion.note, None if told or not rules.told_alone else ceiling_note(_at_ends(result))),
            *jurors_missing(absent, ledger.bought),
            *cuts(lineup.cut),
            *_notes(told and ceiling_note(told.at_ends)),
        ),
        reward_from=rules.reward,
        absent_verdicts=absent,
        agreement=_agreement(matches, ledger) if result.jurors > 1 else (),
        provisional=rules.provisional and bool(matches),
        secondary_fit=rules.rule.secondary_fit,
        **judge_noise(conclusion)._asdict(),
    )


def _conclude(result: TournamentResult, rules: Rules, told: LearntFits | None) -> Conclusion:
    last = failed_last(result.lineup.rollouts, rules)
    alone = len(result.played) == 1
    if not result.played or (rules.topology == "none" and alone):
        return Conclusion(ranked={}, signal="none", fit=None)
    fits, calls = (told.fits, result.calls) if told else ([None] * len(result.played),) * 2
    conclusions = [
        conclude(
            played.standings,
            played.matches,
            rule=rules.rule,
            failed_last=last if alone else (),
            finished=not played.open_verdicts,
            fit=fit if told else _fit_at_hand(played) if rules.by_pooled else None,
            calls=of_class,
        )
        for played, fit, of_class in zip(result.played, fits, calls, strict=True)
    ]
    return conclusions[0] if alone else stack_classes(conclusions, last)


def _fit_at_hand(played: PlayedTournament) -> Fit | None:
    """Return the fit that ended the judging, where it is of the very calls behind the matches."""
    fit = played.last_fit
    calls = sum(len(match.scores) for match in played.matches)
    return fit if fit and fit.calls == calls == len(played.matches) else None


def _judged_later(classes: Sequence[Sequence[int]], rules: Rules) -> bool:
    """Tell whether the topology `none` leaves something to judge."""
    return rules.topology == "none" and (len(classes) == 1 or any(len(c) > 1 for c in classes))


def _places(lineup: Lineup, conclusion: Conclusion) -> tuple[Ranked, ...]:
    places = [conclusion.ranked.get(r.index) or Ranked(index=r.index) for r in lineup.rollouts]
    return tuple(
        [
            place if rollout.verified is None else place.model_copy(update={"verified": rollout.verified})
            for place, rollout in zip(places, lineup.rollouts, strict=True)
        ]
    )


def _agreement(matches: Sequence[Match], ledger: PairLedger) -> tuple[Agreement, ...]:
    def judged(key: str) -> PairJudgment | None:
        verdict = ledger.bought.get(key) or ledger.reused.get(key)
        return None if isinstance(verdict, Unjudged) else verdict

    return agreement(match_margins(matches, judged))


def _notes(*notes: str | None) -> list[str]:
    return [note for note in notes if note]


def _at_ends(result: TournamentResult) -> float:
    """Return the share of the judge's scores of this group that lie at an end of the scale."""
    entrants = [rollout.index for rollout in result.lineup.ok]
    return share_at_ends([comparisons_of(entrants, result.matches)]) if result.matches else 0.0


def _notes_on_design(result: TournamentResult, rules: Rules) -> tuple[str, ...]:
    ok, classes = result.lineup.ok, result.classes
    if not ok:
        return ("no rollout ended well: nothing to rank",)
    if len(classes) > 1:
        return (_by_class(classes, rules),)
    if rules.topology == "none":
        return ("not judged, as --topology none asks; `harness rescore --topology arena` judges and ranks",)
    if len(ok) == 1 and not failed_last(result.lineup.rollouts, rules):
        return ("a single rollout carries no signal: there is nothing to compare it with",)
    return () if result.lineup.anchor else (_without_anchor(result.lineup, rules),)


def _by_class(classes: Sequence[Sequence[int]], rules: Rules) -> str:
    within = sum(len(c) > 1 for c in classes) if rules.topology != "none" else 0
    judged = f"judged within {within} of them" if within else "nothing was judged"
    return f"ranked by verifiable reward first: {len(classes)} classes; {judged}"


def _without_anchor(lineup: Lineup, rules: Rules) -> str:
    failed = has_anchor(lineup.rollouts)
    why = "the anchor failed" if failed else "there is no anchor"
    if failed and rules.anchor_failed == "stop":
        return f"{why}: left unranked, as --anchor-failed stop asks"
    if len(lineup.ok) == 1:
        return f"{why}: the only rollout that ended well met nobody"
    how = "by single elimination with drawn seeds" if rules.topology in NEED_ANCHOR else "without it"
    return f"{why}: {'the others were ranked' if failed else 'ranked'} {how}"
