"""The board of a tournament: which matches are open, which are played, what each entrant got."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from harness.ranking.topology import Pairing, Played


def distinct(entrants: Sequence[int]) -> tuple[int, ...]:
    """Return the entrants. Raises ValueError for none, or one named twice."""
    if not entrants or len(set(entrants)) != len(entrants):
        raise ValueError(f"entrants must be distinct and at least one, got {list(entrants)}")
    return tuple(entrants)


@dataclass
class Schedule:
    """Open and played matches, in the order in which the design counts them: by round, then by place in it."""

    _open: dict[Pairing, int] = field(default_factory=dict[Pairing, int])
    """Open matches with their place in the round, in the order they were put up."""
    _played: dict[tuple[int, int], Played] = field(default_factory=dict[tuple[int, int], Played])
    _met: dict[frozenset[int], Played] = field(default_factory=dict[frozenset[int], Played])

    @property
    def matches(self) -> list[Played]:
        """The matches played, by round and place."""
        return [self._played[key] for key in sorted(self._played)]

    def pairings(self) -> list[Pairing]:
        """Return the open matches."""
        return list(self._open)

    def open_match(self, pairing: Pairing, place: int) -> None:
        """Open a match."""
        self._open[pairing] = place

    def record(self, pairing: Pairing, score_a: Fraction, score_b: Fraction) -> Played:
        """Take a result. Raises ValueError for a pairing that is not open."""
        place = self._open.pop(pairing, None)
        if place is None:
            raise ValueError(f"no open match between {pairing.a} and {pairing.b} in round {pairing.round}")
        return self._enter(Played(pairing, score_a, score_b), place)

    def repeat(self, pairing: Pairing, place: int) -> Played | None:
        """Count a match of two who have met, with the scores of their first meeting; None if they have not met."""
        before = self._met.get(frozenset((pairing.a, pairing.b)))
        if before is None:
            return None
        scores = before.score_a, before.score_b
        return self._enter(
            Played(pairing, *(scores if before.pairing.a == pairing.a else scores[::-1]), repeated=True), place
        )

    def have_met(self, a: int, b: int) -> bool:
        """Return whether the two have played each other."""
        return frozenset((a, b)) in self._met

    def points(self, entrants: Iterable[int]) -> dict[int, tuple[Fraction, ...]]:
        """Return each entrant's own scores, one a match, in the order of `matches`."""
        found: dict[int, list[Fraction]] = {e: [] for e in entrants}
        for played in self.matches:
            found[played.pairing.a].append(played.score_a)
            found[played.pairing.b].append(played.score_b)
        return {e: tuple(own) for e, own in found.items()}

    def _enter(self, played: Played, place: int) -> Played:
        self._played[played.pairing.round, place] = played
        self._met.setdefault(frozenset((played.pairing.a, played.pairing.b)), played)
        return played
