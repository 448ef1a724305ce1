"""What of a ranked group may go into an export, which pairs are made of it, and the count of what is left out."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice, pairwise
from typing import Literal

from harness.core.errors import switch
from harness.core.rankings import GroupRanking, Ranked
from harness.core.records import Group, Rollout
from harness.formats.training.rules import SIBLING_CONFIDENCE, USUAL_CONFIDENCE, ExportRules, PairChoice
from harness.formats.turns import NoMessages, Turn, TurnSequence, join_turns
from harness.ranking.conclusions import probabilities_above
from harness.ranking.credit import SiblingPair

Unit = Literal["group", "rollout", "pair", "line", "part of a line"]
"""What is left out. Of a line, a part: something in its calls that its format has no place for."""
_UNITS: tuple[Unit, ...] = ("group", "rollout", "pair", "line", "part of a line")
_PLURALS = {unit: f"{unit}s" for unit in _UNITS} | {"part of a line": "parts of lines"}


class LeftOut(Exception):
    """A line cannot be written in this format; the text says why, the same for all such lines."""


@dataclass
class Losses:
    """Counts of what was left out. The order is that in which an export meets them: groups, rollouts, pairs, lines."""

    counts: Counter[tuple[Unit, str]] = field(default_factory=Counter[tuple[Unit, str]])

    def add(self, unit: Unit, reason: str, times: int = 1) -> None:
        """Count something that is left out."""
        self.counts[unit, reason] += times

    def rows(self) -> Iterator[tuple[Unit, str, int]]:
        """Yield unit, reason and count; units in the order of an export, the most frequent reason first."""
        for unit, reason in sorted(self.counts, key=lambda key: (_UNITS.index(key[0]), -self.counts[key], key[1])):
            yield unit, reason, self.counts[unit, reason]

    def lines(self) -> list[str]:
        """Return the counts as lines for people."""
        return [f"{times:,} {unit if times == 1 else _PLURALS[unit]}: {why}" for unit, why, times in self.rows()]


TurnsOf = Callable[[Rollout], Sequence[Turn]]
"""Reads a rollout's calls as turns; none for a rollout without recorded calls. Raises NoMessages."""


@dataclass(frozen=True)
class RankedGroup:
    """A query's rollouts, their ranking, and what is known of them beside it."""

    run: str
    group: Group
    ranked: GroupRanking
    judge: str
    both_orders: bool
    """Whether the run judged every match in both orders."""
    flagged: frozenset[int] = frozenset()
    cut: frozenset[int] = frozenset()
    """Rollouts of which a judge did not see the whole answer."""
    odds: Callable[[GroupRanking], Mapping[tuple[int, int], float]] = lambda ranked: probabilities_above(ranked.matches)
    """How probably a is above b, for each two rollouts (a, b) that took part."""
    step_advantages: Mapping[int, Sequence[float]] = field(default_factory=dict[int, Sequence[float]])
    """Of rollouts, by number, one for each of their model calls; none unless asked for."""
    siblings: tuple[SiblingPair, ...] = ()
    """Steps after one prompt of which one led to more; none unless asked for."""


@dataclass(frozen=True)
class Candidate:
    """A rollout that may go in."""

    rollout: Rollout
    place: Ranked
    sequences: tuple[TurnSequence, ...] = field(repr=False)

    @property
    def index(self) -> int:
        """The rollout's number in its group."""
        return self.rollout.index

    @property
    def final(self) -> TurnSequence:
        """The sequence that ends in the answer: it holds the last turn that is no nested agent's."""
        outer = [s for s in self.sequences if s.turns[-1].within is None]
        return (outer or list(self.sequences))[-1]

    @property
    def outer_turns(self) -> Sequence[Turn]:
        """The turns that are no nested agent's, sequence by sequence."""
        return [turn for sequence in self.sequences for turn in sequence.turns if turn.within is None]


def group_may_go_in(group: RankedGroup, rules: ExportRules, losses: Losses) -> bool:
    """Return whether a group's ranking can be trained on; if not, count why."""
    reason = None
    if group.ranked.basis and group.ranked.basis != group.group.basis:
        reason = "the ranking is out of date: rollouts were made again since"
    elif group.ranked.signal == "none":
        none_well = all(rollout.failure for rollout in group.group.rollouts)
        reason = "no rollout ended well" if none_well else "the judging tells nothing apart (signal none)"
    elif group.ranked.signal == "weak" and not rules.weak:
        reason = "weak signal"
    if reason:
        losses.add("group", reason)
    return reason is None


def without_edited(group: RankedGroup, rules: ExportRules, losses: Losses) -> RankedGroup:
    """Return a group without branches of which a person edited a step, unless they may go in; they are counted."""
    edited = {r.index for r in group.group.rollouts if r.branch and r.branch.edit}
    if not edited or "edited" in rules.included:
        return group
    return without_rollouts(
        group, edited, f"a person edited a step of it ({switch('include_edited')} takes it)", losses
    )


def without_rollouts(group: RankedGroup, gone: Collection[int], reason: str, losses: Losses) -> RankedGroup:
    """Return a group without some of its rollouts, which are counted."""
    losses.add("rollout", reason, len(gone))
    left = group.group.model_copy(update={"rollouts": [r for r in group.group.rollouts if r.index not in gone]})
    basis = left.basis if group.ranked.basis == group.group.basis else group.ranked.basis
    siblings = tuple(pair for pair in group.siblings if not {pair.better[0], pair.worse[0]} & {*gone})
    return replace(group, group=left, ranked=group.ranked.model_copy(update={"basis": basis}), siblings=siblings)


def rewards_teach(choices: Sequence[Candidate], rules: ExportRules, losses: Losses) -> bool:
    """Return whether the rewards of a group can be compared, and differ; if not, count why."""
    models = {sequence.turns[0].model for candidate in choices for sequence in candidate.sequences}
    if len(models) > 1 and not rules.mixed:
        losses.add("group", "several models in one group (--mixed takes them)")
        return False
    if len({candidate.place.reward for candidate in choices}) < 2:
        losses.add("group", "fewer than two different rewards are left")
        return False
    return True


def choose_rollouts(group: RankedGroup, rules: ExportRules, losses: Losses, recorded_turns: TurnsOf) -> list[Candidate]:
    """Return the rollouts that may go in, best first; the others are counted."""
    places = {ranked.index: ranked for ranked in group.ranked.rollouts}
    chosen: list[Candidate] = []
    for rollout in group.group.rollouts:
        if reason := next(_faults(rollout, places, group, rules), None):
            losses.add("rollout", reason)
            continue
        try:
            sequences = join_turns(recorded_turns(rollout), by_tokens=rules.format == "groups")
        except NoMessages as exc:
            losses.add("rollout", f"the calls have no form as messages ({str(exc)[:100]})")
            continue
        if sequences:
            chosen.append(Candidate(rollout, places[rollout.index], sequences))
        else:
            losses.add("rollout", "imported: no calls are recorded" if rollout.origin else "no calls are recorded")
    return sorted(chosen, key=lambda c: (c.place.rank, c.index))


def _faults(rollout: Rollout, places: Mapping[int, Ranked], group: RankedGroup, rules: ExportRules) -> Iterator[str]:
    place, included = places.get(rollout.index), rules.included
    if rollout.status == "failed" and "failed" not in included:
        yield f"failed ({rollout.failure.kind})" if rollout.failure else "failed"
    if place is None or place.rank is None or place.reward is None:
        yield "without a rank"
    trains_one_policy = rules.format in {"groups", "art"}
    is_greedy = rollout.role == "anchor" and (rollout.requested.temperature == 0 or rollout.origin is not None)
    if trains_one_policy and is_greedy and "anchor" not in included:
        yield "the anchor: it was sampled at temperature 0"
    if trains_one_policy and rollout.branch and not is_greedy and any(call.temperature == 0 for call in rollout.calls):
        yield "its first calls are the anchor's, sampled at temperature 0"
    if rollout.recipe and rollout.recipe.changes_policy and "varied" not in included:
        yield f"its recipe gave it other instructions or another model ({switch('include_varied')} takes it)"
    if rollout.capture == "partial":
        yield "not all of its calls are recorded"
    if rollout.index in group.flagged and "flagged" not in included:
        yield "flagged"
    if rollout.index in group.cut and "cut" not in included:
        yield "the judge did not see the whole answer"


RankedPair = tuple[Candidate, Candidate]
"""The better and the worse."""


def preference_pairs(
    group: RankedGroup, choices: Sequence[Candidate], rules: ExportRules, losses: Losses
) -> Iterator[RankedPair]:
    """Yield the pairs of a group that the judging bears out; the others are counted. `choices` are best first.

    Imported preferences stay as they came: whoever made them chose the pairs, and holds that they are sound.
    """
    sound: list[RankedPair] = []
    if group.ranked.pairs:
        left = {candidate.index: candidate for candidate in choices}
        sound += [(left[better], left[worse]) for better, worse in group.ranked.pairs if {better, worse} <= left.keys()]
    else:
        probabilities = group.odds(group.ranked)
        for pair in chosen_pairs(choices, rules.pairs):
            if reason := _fault(pair, group, rules, probabilities.get((pair[0].index, pair[1].index))):
                losses.add("pair", reason)
            else:
                sound.append(pair)
        sound.sort(key=lambda pair: -_gap(*pair))
    if rules.per_query is not None and len(sound) > rules.per_query:
        losses.add("pair", f"more than {rules.per_query} of a query", len(sound) - rules.per_query)
    yield from islice(sound, rules.per_query)


def sibling_pairs(group: RankedGroup, rules: ExportRules, losses: Losses) -> list[SiblingPair]:
    """Return the steps after one prompt of which one led to more, the surest first; the others are counted."""
    least = SIBLING_CONFIDENCE if rules.confidence is None else rules.confidence
    sound: list[SiblingPair] = []
    forked = {(r.index, r.branch.call) for r in group.group.rollouts if r.branch}
    for pair in sorted(group.siblings, key=lambda pair: -pair.probability):
        if rules.pairs == "forks" and forked.isdisjoint(pair[:2]):
            losses.add("pair", "no fork made either step")
        elif pair.probability < least:
            losses.add("pair", f"p(better above worse) is below {least:g}")
        elif pair.difference < rules.least_margin:
            losses.add("pair", f"a margin below {rules.least_margin:g}")
        elif rules.per_query is not None and len(sound) == rules.per_query:
            losses.add("pair", f"more than {rules.per_query} of a query")
        else:
            sound.append(pair)
    return sound


def chosen_pairs(choices: Sequence[Candidate], choice: PairChoice) -> list[RankedPair]:
    """Return pairs of different rank, the better first: best and worst, the best with all, neighbours, or all."""
    match choice:
        case "best-worst":
            pairs = [(choices[0], choices[-1])] if choices else []
        case "best-all":
            pairs = [(choices[0], other) for other in choices[1:]]
        case "adjacent":
            pairs = list(pairwise(choices))
        case "all":
            pairs = list(combinations(choices, 2))
        case "siblings" | "forks":
            pairs = []  # which are of steps, not of rollouts
    return [(better, worse) for better, worse in pairs if better.place.rank != worse.place.rank]


def _fault(pair: RankedPair, group: RankedGroup, rules: ExportRules, probability: float | None) -> str | None:
    """Return why the judging does not bear a pair out, or None."""
    better, worse = (candidate.index for candidate in pair)
    met = [match for match in group.ranked.matches if {match.a, match.b} == {better, worse} and not match.repeated]
    if any(match.cut for match in met) and "cut" not in rules.included:
        return "the judge did not see the whole of an answer"
    reason = None
    if any(len(set(match.shown_first)) == 2 for match in met):
        if any(match.flipped for match in met):
            reason = "the two orders name opposite winners"
        elif any(match.inconsistent or match.winner is None for match in met):
            reason = "one of the two orders, or both, name a tie"
        elif any(match.winner != better for match in met):
            reason = "their own match went the other way"
    elif not group.ranked.matches and rules.confidence != 0:
        reason = "the group has no matches, so its pairs no probability (--confidence 0 takes them by their ranks)"
    elif group.both_orders and rules.confidence is None:
        reason = "never judged against each other in both orders (--confidence P takes such pairs by their probability)"
    else:
        least = USUAL_CONFIDENCE if rules.confidence is None else rules.confidence
        if least > 0 and (probability is None or probability < least):
            reason = f"p(better above worse) is below {least:g}, or not known"
    return reason or (f"a margin below {rules.least_margin:g}" if _gap(*pair) < rules.least_margin else None)


def _gap(better: Candidate, worse: Candidate) -> float:
    """Return how far apart two rollouts are, in score points: by the margins, else by the scores."""
    first, second = better.place, worse.place
    if first.margin is not None and second.margin is not None:
        return first.margin - second.margin
    return (first.score or 0.0) - (second.score or 0.0)
