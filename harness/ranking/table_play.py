"""A tournament played without a judge: its scores come from a table of verdicts that are there."""

from collections.abc import Callable, Mapping, Sequence

from harness.core.rankings import Match
from harness.ranking.topology import UNITS, Exact, Played, Topology, exact_mean, in_units

OrderedPair = tuple[int, int]
"""Two entrants, the first shown first."""
ScorePair = tuple[float, float]
LookUp = Callable[[int, int], ScorePair]
"""From (i, j), i shown first, to (score of i, score of j); greater is better."""
_Scores = Mapping[OrderedPair, ScorePair]


def as_asked(order: OrderedPair) -> OrderedPair:
    """Return the order that a topology asks for: a table that holds both orders has it."""
    return order


def play_table(
    topology: Topology, look_up: LookUp, stored: Callable[[OrderedPair], OrderedPair] = as_asked
) -> tuple[Match, ...]:
    """Play a tournament to its end by a table; return the matches, without keys of verdicts. Scores are in units.

    `stored` says which order the table has for the one that the topology asks for: a table may hold one of the two.
    """
    scores: dict[OrderedPair, ScorePair] = {}
    while pairings := topology.pairings():
        for pairing in pairings:
            orders = _stored(pairing.orders, stored)
            scores |= {order: look_up(*order) for order in orders}
            topology.record(pairing, *(_mean(entrant, orders, scores) for entrant in (pairing.a, pairing.b)))
    return tuple(_match(played, scores, stored) for played in topology.matches)


def _stored(orders: Sequence[OrderedPair], stored: Callable[[OrderedPair], OrderedPair]) -> list[OrderedPair]:
    return list(dict.fromkeys(map(stored, orders)))


def _mean(entrant: int, orders: Sequence[OrderedPair], scores: _Scores) -> Exact:
    """Return an entrant's mean score over the orders, exact, in units."""
    return exact_mean([in_units(scores[order][order.index(entrant)]) for order in orders])


def _match(played: Played, scores: _Scores, stored: Callable[[OrderedPair], OrderedPair]) -> Match:
    pairing, a, b = played.pairing, played.pairing.a, played.pairing.b
    both = ((a, b), (b, a)) if played.repeated else ()  # the pair may have met in other orders before
    used = [order for order in dict.fromkeys((*_stored(pairing.orders, stored), *both)) if order in scores]
    winners = [_winner(order, scores[order]) for order in used]
    return Match(
        round=pairing.round,
        a=a,
        b=b,
        verdicts=(),
        shown_first=tuple(first for first, _ in used),
        scores=tuple(scores[order] for order in used),
        score_a=float(played.score_a / UNITS),
        score_b=float(played.score_b / UNITS),
        winner=_winner((a, b), (played.score_a, played.score_b)),
        repeated=played.repeated,
        flipped={a, b} <= set(winners),
        inconsistent=None in winners and any(w is not None for w in winners),
    )


def _winner(entrants: OrderedPair, scores: tuple[float, float] | tuple[Exact, Exact]) -> int | None:
    """Return the entrant with the higher score; None for a tie."""
    if scores[0] == scores[1]:
        return None
    return entrants[0] if scores[0] > scores[1] else entrants[1]
