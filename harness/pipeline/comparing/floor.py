"""How far apart equal agents come out by chance: from the pairs that a run's own ranking judged."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from harness.archive.reader import RunReader
from harness.comparison.noise import Reversals
from harness.core.rankings import Match
from harness.pipeline.comparing.sides import shared_group

_ENOUGH_PAIRS = 20
"""Below this the share of ties says little."""


def floors_of(readers: Sequence[RunReader], judge: str, rubric: str, pairs: int) -> tuple[float | None, ...]:
    """Return for each side the standard deviation of a query's win rate between equal agents; None if not known."""
    return tuple(floor_of(reader, judge, rubric, pairs) for reader in readers)


def floor_of(reader: RunReader, judge: str, rubric: str, pairs: int) -> float | None:
    """Return the standard deviation of a query's win rate between equal agents, from a run's own judged pairs.

    The two rollouts of a pair are of equal agents, so that chance alone says whose win it is: a pair that did not tie
    lies one half off the middle. `pairs` are the cross pairs of a query, whose mean is its win rate. None where the
    run holds too few pairs of samples that this judge judged in both orders by this rubric.
    """
    decided = [match.winner is not None for match in _judged(reader, judge, rubric)]
    if len(decided) < _ENOUGH_PAIRS:
        return None
    return (fmean(decided) / 4 / max(pairs, 1)) ** 0.5


def reversals_within(reader: RunReader, judge: str, rubric: str) -> Reversals:
    """Return how the two orders agree on a run's own pairs of samples."""
    judged = list(_judged(reader, judge, rubric))
    decided = [match for match in judged if match.flipped or not (match.inconsistent or match.winner is None)]
    return Reversals(len(judged), len(decided), sum(match.flipped for match in decided))


def _judged(reader: RunReader, judge: str, rubric: str) -> Iterator[Match]:
    """Yield the pairs of samples that the newest ranking of this kind judged in both orders."""
    like = [head for head in reader.heads() if head.judge.get("identity") == judge and head.rubric == rubric]
    if not like:
        return
    for ranked in reader.ranking(like[-1].id).groups:
        judged = [match for match in ranked.matches if not match.repeated and _in_both_orders(match)]
        if judged:
            samples = {r.index for r in shared_group(reader, ranked.query).rollouts if r.role == "sample"}
            yield from (match for match in judged if {match.a, match.b} <= samples)


def _in_both_orders(match: Match) -> bool:
    return {match.a, match.b} == set(match.shown_first)
