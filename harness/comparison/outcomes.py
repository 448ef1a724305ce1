"""What the pairs of two sides say, seen from the second side."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.core.comparisons import ComparedQuery, CrossMatch, ForfeitedBy
from harness.core.records import Role


@dataclass(frozen=True)
class Pair:
    """A pair of rollouts, seen from the second side."""

    outcome: float | None
    """1 for a win, one half for a tie, 0 for a loss; None while the pair is open."""
    margin: float | None = None
    """Score of the second side less that of the first."""
    forfeit: ForfeitedBy | None = None
    """Who failed by the agent's own making."""
    flipped: bool = False
    both_orders: bool = False
    lengths: tuple[int | None, int | None] = (None, None)
    """Characters of the two answers."""


Pairs = Mapping[str, Sequence[Pair]]
"""By query."""


def pairs_of(queries: Iterable[ComparedQuery], sides: tuple[int, int], role: Role = "sample") -> dict[str, list[Pair]]:
    """Return the pairs of two sides by query, the smaller place first; of `role` anchor: the anchors' pairs."""
    return {query.query: [_pair(query, match) for match in query.pairs(sides, role)] for query in queries}


def outcomes(pairs: Pairs, *, forfeits: bool = True) -> dict[str, list[float]]:
    """Return the outcomes of the pairs that are not open, by query; perhaps without those that a failure decided."""
    return {
        query: [pair.outcome for pair in listed if pair.outcome is not None and (forfeits or not pair.forfeit)]
        for query, listed in pairs.items()
    }


def margins(pairs: Pairs) -> dict[str, list[float]]:
    """Return the score differences of the judged pairs, by query."""
    return {query: [pair.margin for pair in listed if pair.margin is not None] for query, listed in pairs.items()}


def closed(pairs: Pairs, outcome: float) -> dict[str, list[float]]:
    """Return the outcomes by query, the open pairs closed with `outcome`."""
    return {
        query: [outcome if pair.outcome is None else pair.outcome for pair in listed] for query, listed in pairs.items()
    }


def _pair(query: ComparedQuery, match: CrossMatch) -> Pair:
    first, second = (_length(query, *place) for place in zip(match.sides, (match.first, match.second), strict=True))
    return Pair(
        outcome=match.outcome,
        margin=_margin(match),
        forfeit=match.forfeit,
        flipped=match.flipped,
        both_orders=len(set(match.shown_first)) == 2,
        lengths=(first, second),
    )


def _margin(match: CrossMatch) -> float | None:
    if match.score_first is None or match.score_second is None:
        return None
    return match.score_second - match.score_first


def _length(query: ComparedQuery, side: int, index: int) -> int | None:
    return next((r.answer_length for r in query.rollouts[side] if r.index == index), None)
