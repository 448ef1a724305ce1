"""Who came first in a group, and how the first two places compare."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from harness.core.rankings import GroupRanking, Match
from harness.core.records import Group, Rollout
from harness.report.summary.match_verdicts import VerdictLookup, marks_of_sides, score_of
from harness.report.summary.placed_rollouts import PlacedRollout, rollout_label, sharing_first_place, with_a_rank

Leads = tuple[tuple[str, float], ...]
"""Dimensions and by how many mean marks one side leads in each."""


@dataclass(frozen=True)
class DecidingMatch:
    """The match of the first two places: scores, whether the orders agree, what the match was won and lost on."""

    first: int
    second: int
    score_first: float
    score_second: float
    agreement: str
    won: Leads
    """Dimensions in which the first is ahead, mean marks over the orders, largest lead first."""
    lost: Leads

    def reasons(self, lead: Callable[[str, float], str], most: int | None = None) -> list[str]:
        """Return a clause on what the first won and a clause on what it lost, each with its `most` largest leads."""
        return [
            f"{verb} on {', '.join(lead(dimension, marks) for dimension, marks in leads[:most])}"
            for verb, leads in (("won", self.won), ("lost", self.lost))
            if leads
        ]


@dataclass(frozen=True)
class FirstPlaces:
    """Who came first in a group, and how the first two places compare."""

    ranked: tuple[Rollout, ...]
    """Rollouts that have a rank, best first."""
    leaders: tuple[Rollout, ...]
    """Rollouts that share first place."""
    match: DecidingMatch | None
    list_scores: tuple[float, float] | None = None
    """Scores of the first two where a listwise judge gave them; such rollouts meet in no match."""

    @property
    def comparison(self) -> str:
        """Who stands above whom and by which scores, without a full stop; at least two rollouts must be ranked."""
        first, second = (rollout_label(r) for r in self.ranked[:2])
        if self.list_scores:
            high, low = self.list_scores
            return f"#1 {first} stands above #2 {second}: {high:g} v {low:g}, judged in one list"
        match = self.match
        if match is None:
            return f"#1 {first} stands above #2 {second}; the two never met"
        verb = "beats" if match.score_first > match.score_second else "stands above"
        return f"#1 {first} {verb} #2 {second}: {match.score_first:g} v {match.score_second:g}, {match.agreement}"


def first_places(group: Group, ranking: GroupRanking, verdicts: VerdictLookup) -> FirstPlaces:
    """Return who came first in a group, and the match of the first two places."""
    best = with_a_rank(group, ranking)
    return FirstPlaces(
        ranked=tuple(p.rollout for p in best),
        leaders=tuple(sharing_first_place(best)),
        match=_deciding_match(best, ranking, verdicts),
        list_scores=_list_scores(best) if ranking.verdicts else None,
    )


def _list_scores(best: Sequence[PlacedRollout]) -> tuple[float, float] | None:
    scores = [p.ranked.score for p in best[:2] if p.ranked.score is not None]
    return (scores[0], scores[1]) if len(scores) == 2 else None


def last_meeting(ranking: GroupRanking, first: int, second: int) -> Match | None:
    """Return the latest match of two rollouts; None if they never met."""
    met = {(first, second), (second, first)}
    return next((m for m in reversed(ranking.matches) if (m.a, m.b) in met), None)


def _deciding_match(
    best: Sequence[PlacedRollout], ranking: GroupRanking, verdicts: VerdictLookup
) -> DecidingMatch | None:
    """Return the match between the first two places, the latest if they met more than once; None if they never met."""
    if len(best) < 2:
        return None
    first, second = (p.rollout.index for p in best[:2])
    match = last_meeting(ranking, first, second)
    if match is None:
        return None
    leads = _leads(match, first, verdicts)
    return DecidingMatch(
        first=first,
        second=second,
        score_first=score_of(match, first),
        score_second=score_of(match, second),
        agreement=_agreement(match, ranking.estimator),
        won=_largest_first(lead for lead in leads if lead[1] > 0),
        lost=_largest_first(lead for lead in leads if lead[1] < 0),
    )


def _agreement(match: Match, estimator: str) -> str:
    if match.winner is None:
        return "a tie, so the better seed goes on" if estimator == "tiers" and match.round else "a tie"
    if len(set(match.shown_first)) < 2:
        return "one order only"
    if match.flipped:
        return "the two orders name opposite winners"
    return "one order calls it a tie" if match.inconsistent else "both orders agree"


def _leads(match: Match, entrant: int, verdicts: VerdictLookup) -> list[tuple[str, float]]:
    """Return by how much `entrant` leads in each dimension, in mean marks over the match's verdicts."""
    leads: dict[str, list[int]] = {}
    for a, b in marks_of_sides(match, verdicts):
        ours, theirs = (a, b) if entrant == match.a else (b, a)
        for dimension, mark in ours.dimensions.items():
            if dimension in theirs.dimensions:
                leads.setdefault(dimension, []).append(mark - theirs.dimensions[dimension])
    return [(dimension, sum(marks) / len(marks)) for dimension, marks in leads.items()]


def _largest_first(leads: Iterable[tuple[str, float]]) -> Leads:
    return tuple(sorted(leads, key=lambda lead: -abs(lead[1])))
