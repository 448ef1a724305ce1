"""The rollouts of a group with their places, best first; who came first, and how the first two compare."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.core.rankings import GroupRanking, Match, Ranked
from harness.core.records import Group, Rollout, Step
from harness.ranking.rewards import split_by_reward
from harness.report.summary.match_verdicts import VerdictLookup, marks_of_sides, opponent_of, score_of
from harness.report.text import probability


def numbered_steps(path: Iterable[Step], within: str = "") -> Iterator[tuple[str, Step]]:
    """Yield steps with their numbers: 2, and 2.1 for the first of the steps inside step 2."""
    for number, step in enumerate(path, 1):
        yield f"{within}{number}", step
        yield from numbered_steps(step.inner, f"{within}{number}.")


_SCORES = {"tiers": "score 0–10", "wins": "share of wins", "margins": "margin", "bt": "logit", "pooled": "margin"}
"""What the estimators' scores are, by estimator."""


@dataclass(frozen=True)
class PlacedRollout:
    """A rollout and what the ranking gave it; `ranked` has neither rank nor score where the rollout was not ranked."""

    rollout: Rollout
    ranked: Ranked


def placed_rollouts(group: Group, ranking: GroupRanking | None) -> list[PlacedRollout]:
    """Return the rollouts best first; those without a rank last, by index."""
    ranked = {r.index: r for r in ranking.rollouts} if ranking else {}
    placed = [PlacedRollout(r, ranked.get(r.index) or Ranked(index=r.index)) for r in group.rollouts]
    return sorted(placed, key=lambda p: (p.ranked.rank is None, p.ranked.rank or 0.0, p.rollout.index))


def score_name(ranking: GroupRanking | None) -> str:
    """Return what the scores of a ranking are, with their scale where they have one."""
    if ranking and ranking.verdicts:
        return "score 0–1"
    return _SCORES.get(ranking.estimator, "score") if ranking else "score"


def with_a_rank(group: Group, ranking: GroupRanking) -> list[PlacedRollout]:
    """Return the rollouts that have a rank, best first."""
    return [p for p in placed_rollouts(group, ranking) if p.ranked.rank is not None]


def place_of(rollout: PlacedRollout, group: Sequence[PlacedRollout]) -> str:
    """Return a place for people: from 1; `=` before places that several share; `–` for none."""
    rank = rollout.ranked.rank
    if rank is None:
        return "–"
    better = sum(p.ranked.rank is not None and p.ranked.rank < rank for p in group)
    shared = sum(p.ranked.rank == rank for p in group) > 1
    return f"{'=' if shared else ''}{better + 1}"


def places_by_secondary_fit(ranked: Iterable[Ranked], matches: Sequence[Match]) -> dict[int, str]:
    """Return the place that the margins would give, for people, by rollout; only rollouts with a margin.

    Where the verifiable reward ranks first, a margin counts inside its class of equal reward only.
    """
    judged = {r.index: r for r in ranked if r.margin is not None}
    classes = split_by_reward({index: r.verified for index, r in judged.items()})
    levels = {index: level for level, members in enumerate(classes) for index in members}
    across = any(levels[m.a] != levels[m.b] for m in matches if m.a in levels and m.b in levels)
    level = dict.fromkeys(judged, 0) if across else levels
    keys = {index: (-level[index], r.margin or 0.0) for index, r in judged.items()}
    ordered = list(keys.values())
    return {
        index: f"{'=' if ordered.count(key) > 1 else ''}{1 + sum(other > key for other in ordered)}"
        for index, key in keys.items()
    }


def certainty(group: Group, ranking: GroupRanking) -> str | None:
    """Return how sure first place is, and where the second fit differs; None without such figures."""
    best = [p for p in with_a_rank(group, ranking) if p.ranked.p_best is not None]
    if len(best) < 2 or ranking.signal == "none":
        return None
    clauses = [f"{rollout_label(best[0].rollout)} is the best with a probability of {probability(_p_best(best[0]))}"]
    likeliest = max(best, key=_p_best)
    if _p_best(likeliest) > _p_best(best[0]):
        clauses.append(f"rollout {likeliest.rollout.index} with {probability(_p_best(likeliest))}")
    second_fit = places_by_secondary_fit((p.ranked for p in best), ranking.matches)
    differ = sum(place_of(p, best) != second_fit[p.rollout.index] for p in best)
    if differ:
        clauses.append(f"{ranking.estimator} and {ranking.secondary_fit} differ on {differ} of {len(best)} places")
    return "; ".join(clauses)


def fit_behind(ranking: GroupRanking) -> str:
    """Return which fit the probabilities of a group come from."""
    return ranking.estimator if ranking.estimator in {"margins", "bt", "pooled"} else ranking.secondary_fit


def _p_best(placed: PlacedRollout) -> float:
    return placed.ranked.p_best or 0.0


def rollout_label(rollout: Rollout) -> str:
    """Return what a sentence calls a rollout: its index and its role."""
    return f"rollout {rollout.index} ({rollout.role})"


def samples_above_anchor(anchors: Collection[int], ranking: GroupRanking) -> tuple[int, int]:
    """Return how many ranked samples stand above the anchor, and how many there are; `anchors` is its index, if any."""
    ranks = {r.index: r.rank for r in ranking.rollouts if r.rank is not None}
    anchor = next((ranks[index] for index in anchors if index in ranks), None)
    samples = [rank for index, rank in ranks.items() if index not in anchors]
    return (0, 0) if anchor is None else (sum(rank < anchor for rank in samples), len(samples))


Leads = tuple[tuple[str, float], ...]
"""Dimensions and by how many mean marks one side leads in each."""


@dataclass(frozen=True)
class DecidingMatch:
    """The match of the first two places: scores, whether the orders agree, what the match was won and lost on."""

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
    scores = [p.ranked.score for p in best[:2] if p.ranked.score is not None]
    match = last_meeting(ranking, *(p.rollout.index for p in best[:2])) if len(best) > 1 else None
    return FirstPlaces(
        ranked=tuple(p.rollout for p in best),
        leaders=tuple(p.rollout for p in best if p.ranked.rank == best[0].ranked.rank),
        match=_deciding_match(match, best[0].rollout.index, ranking.estimator, verdicts) if match else None,
        list_scores=(scores[0], scores[1]) if ranking.verdicts and len(scores) == 2 else None,
    )


def last_meeting(ranking: GroupRanking, first: int, second: int) -> Match | None:
    """Return the latest match of two rollouts; None if they never met."""
    met = {(first, second), (second, first)}
    return next((m for m in reversed(ranking.matches) if (m.a, m.b) in met), None)


def _deciding_match(match: Match, first: int, estimator: str, verdicts: VerdictLookup) -> DecidingMatch:
    """Return the match of the first two places, and by how much the first leads in each dimension, in mean marks."""
    marks: dict[str, list[int]] = {}
    for a, b in marks_of_sides(match, verdicts):
        ours, theirs = (a, b) if first == match.a else (b, a)
        for dimension, mark in ours.dimensions.items():
            if dimension in theirs.dimensions:
                marks.setdefault(dimension, []).append(mark - theirs.dimensions[dimension])
    leads = [(dimension, sum(each) / len(each)) for dimension, each in marks.items()]
    leads.sort(key=lambda lead: -abs(lead[1]))
    return DecidingMatch(
        score_first=score_of(match, first),
        score_second=score_of(match, opponent_of(match, first)),
        agreement=_agreement(match, estimator),
        won=tuple(lead for lead in leads if lead[1] > 0),
        lost=tuple(lead for lead in leads if lead[1] < 0),
    )


def _agreement(match: Match, estimator: str) -> str:
    if match.winner is None:
        return "a tie, so the better seed goes on" if estimator == "tiers" and match.round else "a tie"
    if len(set(match.shown_first)) < 2:
        return "one order only"
    if match.flipped:
        return "the two orders name opposite winners"
    return "one order calls it a tie" if match.inconsistent else "both orders agree"
