"""The schedule of a tournament: which matches are open, which are played, what each entrant scored."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.ranking.topology import Exact, Pairing, Played, Standing


def distinct(entrants: Sequence[int]) -> tuple[int, ...]:
    """Return the entrants. Raises ValueError for no entrants, or an entrant named twice."""
    if not entrants or len(set(entrants)) != len(entrants):
        raise ValueError(f"entrants must be distinct and at least one, got {list(entrants)}")
    return tuple(entrants)


@dataclass
class Schedule:
    """Open and played matches, in the order in which the design counts them: by round, then by place in the round."""

    _open: dict[Pairing, int] = field(default_factory=dict[Pairing, int])
    """Open matches with their place in the round, in the order in which they were opened."""
    _played: dict[tuple[int, int], Played] = field(default_factory=dict[tuple[int, int], Played])
    """Played matches by round and place."""
    _first_meetings: dict[frozenset[int], Played] = field(default_factory=dict[frozenset[int], Played])

    @property
    def matches(self) -> list[Played]:
        """The matches played, by round and place."""
        return [self._played[key] for key in sorted(self._played)]

    def pairings(self) -> list[Pairing]:
        """Return the open matches."""
        return list(self._open)

    def open_match(self, pairing: Pairing, place: int) -> None:
        """Open a match at a place of its round."""
        self._open[pairing] = place

    def record(self, pairing: Pairing, score_a: Exact, score_b: Exact) -> Played:
        """Take a result. Raises ValueError for a pairing that is not open."""
        place = self._open.pop(pairing, None)
        if place is None:
            raise ValueError(f"no open match between {pairing.a} and {pairing.b} in round {pairing.round}")
        return self._enter(Played(pairing, score_a, score_b), place)

    def repeat(self, pairing: Pairing, place: int) -> Played | None:
        """Count a match of two who have met, with the scores of their first meeting; None if they have not met."""
        first = self._first_meetings.get(frozenset((pairing.a, pairing.b)))
        if first is None:
            return None
        if first.pairing.a == pairing.a:
            return self._enter(Played(pairing, first.score_a, first.score_b, repeated=True), place)
        return self._enter(Played(pairing, first.score_b, first.score_a, repeated=True), place)

    def have_met(self, a: int, b: int) -> bool:
        """Return whether the two have played each other."""
        return frozenset((a, b)) in self._first_meetings

    def points(self, entrants: Iterable[int]) -> dict[int, tuple[Exact, ...]]:
        """Return each entrant's scores, one a match, in the order of `matches`."""
        points: dict[int, list[Exact]] = {e: [] for e in entrants}
        for played in self.matches:
            points[played.pairing.a].append(played.score_a)
            points[played.pairing.b].append(played.score_b)
        return {e: tuple(scores) for e, scores in points.items()}

    def _enter(self, played: Played, place: int) -> Played:
        self._played[played.pairing.round, place] = played
        self._first_meetings.setdefault(frozenset((played.pairing.a, played.pairing.b)), played)
        return played


class ScheduledTopology:
    """The base of the topologies that keep their matches in a schedule.

    A topology opens its first matches when it is set up (`self._schedule.open_match`). What follows from a result
    stands in `_after`, if anything does.
    """

    def __init__(self, entrants: Sequence[int]) -> None:
        """Set up for `entrants`. Raises ValueError for no entrants, or an entrant named twice."""
        self._entrants = distinct(entrants)
        self._schedule = Schedule()

    @property
    def matches(self) -> Sequence[Played]:
        """The matches played, by round and place."""
        return self._schedule.matches

    def pairings(self) -> Sequence[Pairing]:
        """Return the open matches."""
        return self._schedule.pairings()

    def record(self, pairing: Pairing, score_a: Exact, score_b: Exact) -> None:
        """Take a result. Raises ValueError for a pairing that is not open."""
        self._after(self._schedule.record(pairing, score_a, score_b))

    def standings(self) -> Sequence[Standing]:
        """Return each entrant's points, in the order of the entrants, without rounds reached or seed scores."""
        return [Standing(e, 0, points, None) for e, points in self._schedule.points(self._entrants).items()]

    def _after(self, played: Played) -> None:
        """Open what follows from a result: by default nothing."""
