"""What a tournament that is over says of its group: the record of its ranking."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.rankings import Agreement, GroupRanking, Match, Ranked
from harness.core.records import Group
from harness.core.verdicts import PairJudgment, Unjudged
from harness.judging import PairLedger
from harness.ranking import (
    NEED_ANCHOR,
    Conclusion,
    EarlyStop,
    Fit,
    Topology,
    agreement,
    ceiling_note,
    comparisons_of,
    conclude,
    match_margins,
    share_at_ends,
    stack_classes,
)
from harness.tournament.group import Entrants, Rules, cuts, has_anchor, jurors_missing
from harness.tournament.judge_noise import judge_noise
from harness.tournament.play import PlayedTournament


@dataclass(frozen=True)
class TournamentResult:
    """A group's tournament, over: one for each class of rollouts that may meet."""

    entrants: Entrants
    classes: Sequence[Sequence[int]]
    topologies: Sequence[Topology]
    played: Sequence[PlayedTournament]
    last: Sequence[int]
    """The failed rollouts that rank below all others."""

    @property
    def matches(self) -> tuple[Match, ...]:
        """The matches of all classes."""
        return tuple(match for played in self.played for match in played.matches)


def ranking_of(group: Group, result: TournamentResult, ledger: PairLedger, rules: Rules) -> GroupRanking:
    """Return the record of a group's ranking; provisional where `pooled` can learn from its matches and from others."""
    topologies, played, texts = result.topologies, result.played, result.entrants.texts
    matches = result.matches
    open_verdicts = sorted(key for p in played for key in p.open_verdicts)
    absent = tuple(key for p in played for key in p.absent_verdicts)
    conclusion = _conclude(result, rules)
    return GroupRanking(
        query=group.query.id,
        topology=topologies[0].name if topologies else rules.topology,
        estimator=rules.estimator,
        status="incomplete" if open_verdicts or _judged_later(result.classes, rules) else "complete",
        signal=conclusion.signal,
        matches=matches,
        rollouts=_places(group, conclusion),
        failed_verdicts=tuple(open_verdicts),
        judged=ledger.judged,
        reused=len(ledger.reused),
        spared=_spared(topologies),
        judge_usage=ledger.usage,
        judge_usd=ledger.price_usd,
        notes=(*_notes(group, result, conclusion, rules), *jurors_missing(absent, ledger.bought), *cuts(texts)),
        reward_from=rules.reward,
        absent_verdicts=absent,
        agreement=_agreement(matches, ledger),
        provisional=rules.provisional and bool(matches),
        second_opinion=rules.rule.second_opinion,
        **judge_noise(conclusion)._asdict(),
    )


def _conclude(result: TournamentResult, rules: Rules) -> Conclusion:
    topologies, last = result.topologies, result.last
    alone = len(topologies) == 1
    if not topologies or (rules.topology == "none" and alone):
        return Conclusion(ranked={}, signal="none", fit=None)
    conclusions = [
        conclude(
            played.standings,
            played.matches,
            rule=rules.rule,
            failed_last=last if alone else (),
            finished=not played.open_verdicts,
            fit=_fit_at_hand(topology, played) if rules.by_pooled else None,
        )
        for topology, played in zip(topologies, result.played, strict=True)
    ]
    return conclusions[0] if alone else stack_classes(conclusions, last)


def _fit_at_hand(topology: Topology, played: PlayedTournament) -> Fit | None:
    """Return the fit that ended the judging, where it is of the very calls behind the matches."""
    fit = topology.last_fit if isinstance(topology, EarlyStop) else None
    calls = sum(len(match.scores) for match in played.matches)
    return fit if fit and fit.calls == calls == len(played.matches) else None


def _judged_later(classes: Sequence[Sequence[int]], rules: Rules) -> bool:
    """Tell whether the topology `none` leaves something to judge."""
    return rules.topology == "none" and (len(classes) == 1 or any(len(c) > 1 for c in classes))


def _places(group: Group, conclusion: Conclusion) -> tuple[Ranked, ...]:
    places = [conclusion.ranked.get(r.index, Ranked(index=r.index)) for r in group.rollouts]
    return tuple(
        place.model_copy(update={"verified": rollout.verified})
        for place, rollout in zip(places, group.rollouts, strict=True)
    )


def _spared(topologies: Sequence[Topology]) -> int:
    return sum(topology.spared for topology in topologies if isinstance(topology, EarlyStop))


def _agreement(matches: Sequence[Match], ledger: PairLedger) -> tuple[Agreement, ...]:
    def judged(key: str) -> PairJudgment | None:
        verdict = ledger.bought.get(key) or ledger.reused.get(key)
        return None if isinstance(verdict, Unjudged) else verdict

    return agreement(match_margins(matches, judged))


def _notes(group: Group, result: TournamentResult, conclusion: Conclusion, rules: Rules) -> tuple[str, ...]:
    ceiling = _ceiling(result) if rules.by_pooled and not rules.provisional else None
    return (*_notes_on_design(group, result, rules), *filter(None, [conclusion.note, ceiling]))


def _ceiling(result: TournamentResult) -> str | None:
    """Return a note where the judge's scores of this group stick to the ends of the scale."""
    entrants = [rollout.index for rollout in result.entrants.ok]
    return ceiling_note(share_at_ends([comparisons_of(entrants, result.matches)])) if result.matches else None


def _notes_on_design(group: Group, result: TournamentResult, rules: Rules) -> tuple[str, ...]:
    ok, classes = result.entrants.ok, result.classes
    if not ok:
        return ("no rollout ended well: nothing to rank",)
    if len(classes) > 1:
        return (_by_class(classes, rules),)
    if rules.topology == "none":
        return ("not judged, as --topology none asks; `harness rescore --topology arena` judges and ranks",)
    if len(ok) == 1 and not result.last:
        return ("a single rollout carries no signal: there is nothing to compare it with",)
    return () if result.entrants.anchor else (_without_anchor(group, rules),)


def _by_class(classes: Sequence[Sequence[int]], rules: Rules) -> str:
    within = sum(len(c) > 1 for c in classes) if rules.topology != "none" else 0
    judged = f"judged within {within} of them" if within else "nothing was judged"
    return f"ranked by verifiable reward first: {len(classes)} classes; {judged}"


def _without_anchor(group: Group, rules: Rules) -> str:
    how = "by single elimination with drawn seeds" if rules.topology in NEED_ANCHOR else "without it"
    if not has_anchor(group):
        return f"there is no anchor: ranked {how}"
    if rules.anchor_failed == "stop":
        return "the anchor failed: left unranked, as --anchor-failed stop asks"
    return f"the anchor failed: the others were ranked {how}"
