"""Who beat whom: the score differences of all pairs of a group that met, and the circles of wins among them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

from harness.core.rankings import GroupRanking, Match
from harness.core.records import Group, Rollout
from harness.ranking.topology import exact
from harness.report.summary.rollouts import placed_rollouts

Cycle = tuple[int, ...]
"""Rollouts of which each beats the next, and the last the first; the smallest number comes first."""
_NAMED = 3
"""Circles of wins that a sentence names."""


@dataclass(frozen=True)
class JudgedPair:
    """What one rollout's matches against another came to, from the side of `row`."""

    row: int
    column: int
    difference: float
    """Mean score of `row` less that of `column`, over their matches; a match played again counts once."""
    orders: tuple[tuple[int, float], ...]
    """For each verdict the rollout that stood first, and by how much `row` led in it."""
    flipped: bool
    """Whether the one order names the one side, and the other order the other."""
    matches: tuple[int, ...]
    """Their numbers, from 1."""

    def led_when_first(self, first: int) -> float | None:
        """Return by how much `row` led, on average, where `first` stood first; None where that order was not judged."""
        leads = [lead for shown, lead in self.orders if shown == first]
        return sum(leads) / len(leads) if leads else None

    @property
    def mirrored(self) -> "JudgedPair":
        """The same from the side of `column`."""
        orders = tuple((first, 0.0 - lead) for first, lead in self.orders)
        return JudgedPair(self.column, self.row, 0.0 - self.difference, orders, self.flipped, self.matches)


@dataclass(frozen=True)
class PairTable:
    """All pairs of a group that met. Rows and columns are `rollouts`, best first."""

    rollouts: tuple[Rollout, ...]
    """Those that ended well, in the order of their places."""
    pairs: Mapping[tuple[int, int], JudgedPair]
    """By row and column; each pair stands here from both sides."""
    cycles: tuple[Cycle, ...]

    @property
    def met(self) -> int:
        """How many pairs met."""
        return len(self.pairs) // 2

    @property
    def of(self) -> int:
        """How many pairs there are."""
        return len(self.rollouts) * (len(self.rollouts) - 1) // 2

    @property
    def mostly_met(self) -> bool:
        """Whether more than half of the pairs met: with fewer, a table is mostly holes."""
        return 2 * self.met > self.of

    @property
    def cycles_sentence(self) -> str:
        """The circles of wins in a sentence that begins with a capital; "" where there is none."""
        sentence = cycles_sentence(self.cycles)
        return sentence[:1].upper() + sentence[1:]

    @property
    def flipped(self) -> int:
        """How many pairs flipped."""
        return sum(pair.flipped for pair in self.pairs.values()) // 2

    def as_json(self) -> dict[str, Any]:
        """Return what `harness show --matrix --json` prints: each pair once, from the better-placed side."""
        better = {rollout.index: at for at, rollout in enumerate(self.rollouts)}
        return {
            "rollouts": list(better),
            **{name: getattr(self, name) for name in ("met", "of", "flipped")},
            "pairs": [
                {
                    "a": pair.row,
                    "b": pair.column,
                    "difference": pair.difference,
                    "orders": [{"shown_first": first, "difference": lead} for first, lead in pair.orders],
                    "flipped": pair.flipped,
                    "matches": list(pair.matches),
                }
                for pair in self.pairs.values()
                if better[pair.row] < better[pair.column]
            ],
            "cycles": [list(cycle) for cycle in self.cycles],
        }


def pair_table(group: Group, ranking: GroupRanking) -> PairTable:
    """Return who beat whom in a group."""
    able = [p.rollout for p in placed_rollouts(group, ranking) if p.rollout.status == "ok"]
    pairs = judged_pairs(ranking.matches)
    both = pairs | {(pair.column, pair.row): pair.mirrored for pair in pairs.values()}
    return PairTable(tuple(able), both, win_cycles(pairs.values()))


def judged_pairs(matches: Sequence[Match]) -> dict[tuple[int, int], JudgedPair]:
    """Return each pair that met once, from the side of the lower number."""
    by_pair: dict[tuple[int, int], list[tuple[int, Match]]] = {}
    for number, match in enumerate(matches, 1):
        by_pair.setdefault((min(match.a, match.b), max(match.a, match.b)), []).append((number, match))
    return {pair: _judged_pair(*pair, met) for pair, met in by_pair.items()}


def _judged_pair(row: int, column: int, met: Sequence[tuple[int, Match]]) -> JudgedPair:
    played = [match for _, match in met if not match.repeated] or [match for _, match in met]
    leads = [(exact(m.score_a) - exact(m.score_b)) * (1 if m.a == row else -1) for m in played]
    orders = [
        (first, float(exact(score) - exact(other)))
        for match in played
        for first, (score, other) in sided_scores(match, row)
    ]
    sides = {first: sum(exact(lead) for of, lead in orders if of == first) for first, _ in orders}
    return JudgedPair(
        row=row,
        column=column,
        difference=float(sum(leads, Fraction()) / len(leads)),
        orders=tuple(orders),
        flipped=any(match.flipped for match in played) or (min(sides.values()) < 0 < max(sides.values())),
        matches=tuple(number for number, _ in met),
    )


def sided_scores(match: Match, side: int) -> Iterator[tuple[int, tuple[float, float]]]:
    """Yield, for each verdict of a match, who stood first, and what `side` and its opponent scored."""
    for first, (score, other) in zip(match.shown_first, match.scores, strict=True):
        yield first, ((score, other) if first == side else (other, score))


def win_cycles(pairs: Iterable[JudgedPair]) -> tuple[Cycle, ...]:
    """Return the circles of three wins, by their numbers; where there is none, one shortest circle, if there is any."""
    beats: dict[int, set[int]] = {}
    for pair in pairs:
        if pair.difference:
            winner, loser = (pair.row, pair.column) if pair.difference > 0 else (pair.column, pair.row)
            beats.setdefault(winner, set()).add(loser)
    threes = [
        (one, *way)
        for one, two, three in combinations(sorted(beats), 3)
        for way in ((two, three), (three, two))
        if way[0] in beats[one] and way[1] in beats[way[0]] and one in beats[way[1]]
    ]
    circles = [circle for start in sorted(beats) if (circle := _circle_from(start, beats))]
    return tuple(threes) or ((min(circles, key=len),) if circles else ())


def _circle_from(start: int, beats: Mapping[int, set[int]]) -> Cycle | None:
    """Return a shortest circle of wins through `start`, breadth first."""
    ways: dict[int, Cycle] = {start: (start,)}
    waiting = [start]
    for entrant in waiting:  # which grows meanwhile
        if start in beats.get(entrant, ()):
            return ways[entrant]
        for loser in sorted(beats.get(entrant, ())):
            if loser not in ways:
                ways[loser] = (*ways[entrant], loser)
                waiting.append(loser)
    return None


def cycles_sentence(cycles: Sequence[Cycle]) -> str:
    """Return the circles of wins in a sentence without a full stop, only a few by name; "" where there is none."""
    if not cycles:
        return ""
    more = len(cycles) - _NAMED
    words = "; ".join(" beats ".join(map(str, (*cycle, cycle[0]))) for cycle in cycles[:_NAMED])
    return f"wins go in circles: {words}" + (f"; and {more} more" if more > 0 else "")
