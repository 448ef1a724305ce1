"""The rollouts of a group with their places, best first, and what a reader has to know before believing them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.core.errors import counted
from harness.core.rankings import Agreement, AnyVerdict, GroupRanking, Match, Ranked, Unjudged, Unscored
from harness.core.records import Group, Rollout, Step
from harness.ranking.rewards import split_by_reward
from harness.report.summary.match_details import draw_bracket
from harness.report.summary.match_verdicts import VerdictLookup, marks_of_sides, opponent_of, score_of
from harness.report.text import enumeration, probability, temperature_words


def numbered_steps(path: Iterable[Step], within: str = "") -> Iterator[tuple[str, Step]]:
    """Yield steps with their numbers: 2, and 2.1 for the first of the steps inside step 2."""
    for number, step in enumerate(path, 1):
        yield f"{within}{number}", step
        yield from numbered_steps(step.inner, f"{within}{number}.")


SCORES: Mapping[str, str] = {
    "tiers": "score 0–10",
    "wins": "share of wins",
    "margins": "margin",
    "bt": "logit",
    "pooled": "margin",
}
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
    return sorted(placed, key=lambda p: p.ranked.order)


def score_name(ranking: GroupRanking | None) -> str:
    """Return what the scores of a ranking are, with their scale where they have one."""
    if ranking and ranking.verdicts:
        return "score 0–1"
    return SCORES.get(ranking.estimator, "score") if ranking else "score"


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


def shows_winner(signal: str, p_best: float | None, *, complete: bool) -> bool:
    """Tell whether a ranking shows who won, where one rollout is first; a listwise one has no probability of that."""
    return complete and signal == "ok" and (p_best or 1.0) >= 0.5


def _p_best(placed: PlacedRollout) -> float:
    return placed.ranked.p_best or 0.0


def rollout_label(rollout: Rollout) -> str:
    """Return what a sentence calls a rollout: its index and `role_words`."""
    return f"rollout {rollout.index} ({role_words(rollout)})"


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
        leaders=_leaders(best),
        match=_deciding_match(match, best[0].rollout.index, ranking.estimator, verdicts) if match else None,
        list_scores=(scores[0], scores[1]) if ranking.verdicts and len(scores) == 2 else None,
    )


def _leaders(best: Sequence[PlacedRollout]) -> tuple[Rollout, ...]:
    """Return who shares first place, of those that have a rank, best first."""
    return tuple(p.rollout for p in best if p.ranked.rank == best[0].ranked.rank)


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


_Provisional = Literal["places", "probabilities"]
_NOISE: dict[str, str] = {
    "none": "this ranking is noise: no two scores in its matches differ, so all that was judged shares one rank",
    "weak": "this ranking is noise, or close to it: the scores do not tell these rollouts apart (signal weak)",
}
_PROVISIONAL: dict[_Provisional, str] = {
    "places": "provisional: pooled learns the judge from all groups, and these places may change once all are in; "
    "until then the margins of this group alone rank it",
    "probabilities": "provisional: these places count, but pooled learns the judge from all groups, and probabilities "
    "and signal may change once all are in; until then they come from the margins of this group alone",
}


def _part(estimator: str) -> _Provisional:
    return "places" if estimator == "pooled" else "probabilities"


def provisional_words(estimator: str, *, provisional: bool) -> str:
    """Return a clause on what may change of a ranking once all groups are in, after a comma; "" where nothing may."""
    return f", {_part(estimator)} provisional" if provisional else ""


def notes(group: Group, ranking: GroupRanking) -> list[str]:
    """Return what has to be known of a group before its ranks are believed."""
    lines = [_PROVISIONAL[_part(ranking.estimator)]] if ranking.provisional else []
    lines += ranking.notes
    if behind := _behind_the_champion(group, ranking):
        lines.append(behind)
    if anchor_is_greedy(group) is False:
        lines.append("the anchor was not greedy: the endpoint, or the agent, did not take temperature 0")
    lines += [
        f"rollout {rollout.index} was captured in part: {'; '.join(rollout.capture_gaps)}"
        for rollout in group.rollouts
        if rollout.capture == "partial"
    ]
    if ranking.matches and ranking.signal in _NOISE and sum(r.rank is not None for r in ranking.rollouts) > 1:
        lines.append(_NOISE[ranking.signal])
    return lines


def _behind_the_champion(group: Group, ranking: GroupRanking) -> str | None:
    """Return why the winner of a bracket is not first, where an estimator other than ArenaRL's ranks; else None."""
    drawn = draw_bracket(group, ranking) if ranking.estimator != "tiers" else None
    best = with_a_rank(group, ranking)
    if drawn is None or drawn.champion not in {p.rollout.index for p in best} - {r.index for r in _leaders(best)}:
        return None
    leaders = _leaders(best)
    first = f"{enumeration([f'rollout {r.index}' for r in leaders])} {'is' if len(leaders) == 1 else 'are'} first"
    matches = counted(len([m for m in ranking.matches if not m.repeated]), "match", "matches")
    won = f"rollout {drawn.champion} won the final"
    return f"{won}; {ranking.estimator} goes by the scores of all {matches}: {first}"


def own_models(rollout: Rollout) -> list[str]:
    """Return which models of the agent's own a rollout's calls were made on, a line each."""
    calls = Counter((c.own_model, c.model, c.agent) for c in rollout.calls if c.own_model)
    return [
        f"agent {agent or 'unknown'} ran on a model of its own ({own}{f', {model}' if model else ''}) in "
        f"{counted(number, 'call')}"
        for (own, model, agent), number in calls.items()
    ]


def at_own_temperature(rollout: Rollout) -> bool:
    """Return whether the run asked for no temperature; of an imported rollout it is not known what was asked for."""
    return rollout.requested.temperature is None and rollout.origin is None


def role_words(rollout: Rollout) -> str:
    """Return a rollout's role; of one that was taken up again, which one it is a branch of, and whether edited."""
    return rollout.branch.role if rollout.branch else rollout.role


def asked_words(rollout: Rollout) -> str:
    """Return what was asked for of a rollout, beside its seed: a temperature, a recipe, or nothing."""
    temperature, recipe = temperature_words(rollout.requested.temperature), rollout.recipe
    words = [] if at_own_temperature(rollout) else [f"temperature {temperature}"]
    return ", ".join([*words, recipe.name] if recipe else words) or "the agent as it stands"


def anchor_is_greedy(group: Group) -> bool | None:
    """Tell whether every call of the anchor carried temperature 0; None if it made none, or none was asked for.

    None also where the samples, three or more, gave one answer at temperatures above 0: the model may ignore them all.
    """
    anchor = next((r for r in group.rollouts if r.role == "anchor"), None)
    if anchor is None or at_own_temperature(anchor) or anchor.requested.temperature:
        return None
    if not any(c.error is None for c in anchor.calls):
        return None
    varied = [r.trajectory.answer for r in group.rollouts if r.role == "sample" and r.requested.temperature]
    if len(varied) > 2 and len(set(varied)) == 1 and anchor.effective.temperature == 0:
        return None
    return anchor.effective.uniform and anchor.effective.temperature == 0


def jury_lines(ranking: GroupRanking) -> list[str]:
    """Return how far each two jurors agree, a line each."""
    return [agreement_line(pair) for pair in ranking.agreement if pair.items]


def agreement_line(pair: Agreement) -> str:
    """Return how far two jurors agree, in a line."""
    figures = [("kappa", pair.kappa), ("Spearman", pair.spearman)]
    words = ", ".join(f"{name} {'–' if value is None else f'{value:.2f}'}" for name, value in figures)
    return f"jurors {' and '.join(pair.jurors)}: {words} on {counted(pair.items, 'pair')}"


def open_reasons(verdicts: Iterable[AnyVerdict], rankings: Iterable[GroupRanking]) -> Counter[str]:
    """Count why verdicts that rankings still wait for failed."""
    open_keys = {key for ranking in rankings for key in ranking.failed_verdicts}
    newest = {v.key: v for v in verdicts if v.key in open_keys}
    return Counter(v.failure.message for v in newest.values() if isinstance(v, Unjudged | Unscored))
