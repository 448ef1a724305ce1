"""A query's rollouts that may go into training data, each with its place and its sequences."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.core.rankings import GroupRanking, Ranked
from harness.core.records import Group, Rollout
from harness.formats.sequences import TurnSequence, sequences_of
from harness.formats.training.losses import Losses
from harness.formats.training.rules import ExportRules
from harness.formats.turns import NoMessages, Turn
from harness.ranking.pair_probability import probabilities_above

OFF_POLICY_MATTERS = ("groups", "art")
"""The formats of groups with rewards, which trainers take for samples of one policy."""
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
    def models(self) -> set[str | None]:
        """The models that spoke in it."""
        return {sequence.model for sequence in self.sequences}


def group_may_go_in(group: RankedGroup, rules: ExportRules, losses: Losses) -> bool:
    """Return whether a group's ranking can be trained on; if not, count why."""
    reason = _fault_of_group(group, rules)
    if reason:
        losses.add("group", reason)
    return reason is None


def _fault_of_group(group: RankedGroup, rules: ExportRules) -> str | None:
    if group.ranked.basis and group.ranked.basis != group.group.basis:
        return "the ranking is out of date: rollouts were made again since"
    if group.ranked.signal == "none":
        return "the judging tells nothing apart (signal none)"
    if group.ranked.signal == "weak" and not rules.weak:
        return "weak signal"
    return None


def rewards_teach(choices: Sequence[Candidate], rules: ExportRules, losses: Losses) -> bool:
    """Return whether the rewards of a group can be compared, and differ; if not, count why."""
    if len({model for candidate in choices for model in candidate.models}) > 1 and not rules.mixed:
        losses.add("group", "several models in one group (--mixed takes them)")
        return False
    if len({candidate.place.reward for candidate in choices}) < 2:
        losses.add("group", "fewer than two different rewards are left")
        return False
    return True


def candidates(group: RankedGroup, rules: ExportRules, losses: Losses, turns_of: TurnsOf) -> list[Candidate]:
    """Return the rollouts that may go in, best first; the others are counted."""
    places = {ranked.index: ranked for ranked in group.ranked.rollouts}
    chosen: list[Candidate] = []
    for rollout in group.group.rollouts:
        reason = next(_faults(rollout, places, group, rules), None)
        if reason:
            losses.add("rollout", reason)
        elif sequences := _sequences(rollout, turns_of, losses, by_tokens=rules.format == "groups"):
            chosen.append(Candidate(rollout, places[rollout.index], sequences))
    return sorted(chosen, key=lambda c: (c.place.rank, c.index))


def _faults(rollout: Rollout, places: Mapping[int, Ranked], group: RankedGroup, rules: ExportRules) -> Iterator[str]:
    place, included = places.get(rollout.index), rules.included
    if rollout.status == "failed" and "failed" not in included:
        yield f"failed ({rollout.failure.kind})" if rollout.failure else "failed"
    if place is None or place.rank is None or place.reward is None:
        yield "without a rank"
    if rules.format in OFF_POLICY_MATTERS and rollout.role == "anchor" and "anchor" not in included:
        yield "the anchor: it was sampled at temperature 0"
    if rollout.capture == "partial":
        yield "not all of its calls are recorded"
    if rollout.index in group.flagged and "flagged" not in included:
        yield "flagged"
    if rollout.index in group.cut and "cut" not in included:
        yield "the judge did not see the whole answer"


def _sequences(rollout: Rollout, turns_of: TurnsOf, losses: Losses, *, by_tokens: bool) -> tuple[TurnSequence, ...]:
    try:
        sequences = sequences_of(turns_of(rollout), by_tokens=by_tokens)
    except NoMessages as exc:
        losses.add("rollout", f"the calls have no form as messages ({str(exc)[:100]})")
        return ()
    if not sequences:
        losses.add("rollout", "imported: no calls are recorded" if rollout.origin else "no calls are recorded")
    return sequences
