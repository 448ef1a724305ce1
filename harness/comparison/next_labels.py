"""Which pairs people should label next: drawn by known chances, spread over the clusters."""

import hashlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from harness.comparison.outcomes import PairPlace, cluster_name
from harness.core.comparisons import ComparedQuery, CrossMatch

_TRUST = 0.6
"""Lambda of a usual judge: chances between one half of the mean and 1.4 times it."""
_BITS = 2**64


@dataclass(frozen=True)
class DrawnPair:
    """A pair to label, and the weight that its label has: in proportion to one divided by its chance to be drawn."""

    place: PairPlace
    weight: float


def pairs_to_label(
    queries: Sequence[ComparedQuery], seed: int, clusters: Mapping[str, str] | None = None
) -> list[DrawnPair]:
    """Return the judged pairs of samples in the order in which to label them: all of them, whatever is labelled yet.

    Priority sampling (N. Duffield, C. Lund and M. Thorup, J. ACM 54, 2007): a pair's number between 0 and 1, drawn once
    for all, is divided by its chance, and the smallest come first. So the first K are a sample by these chances for any
    K, and more labels, or another person's, go on with it. A chance is in proportion to the pair's share of the win
    rate times the expected distance between people and judge. The numbers of a cluster lie apart, one in each of as
    many parts of 0 to 1: its second pair comes when all clusters have had their first.
    """
    matches = [
        (query, match)
        for query in queries
        for match in query.matches
        if match.role == "sample" and not match.forfeit and match.outcome is not None
    ]
    matches.sort(key=lambda each: (each[1].sides, each[0].query, each[1].first, each[1].second))
    ordered: list[tuple[float, DrawnPair]] = []
    for sides, group in groupby(matches, key=lambda each: each[1].sides):
        asked = {(query.query, sides, match.first, match.second): (query, match) for query, match in group}
        leads = sorted(_lead(match) for _, match in asked.values())
        chances = {
            place: _distance(bisect_right(leads, _lead(match)) / len(leads)) / len(query.pairs(sides))
            for place, (query, match) in asked.items()
        }
        mean = sum(chances.values()) / len(chances)
        numbers = _numbers([*asked], seed, clusters)
        ordered += [(numbers[at] * mean / chance, DrawnPair(at, mean / chance)) for at, chance in chances.items()]
    return [pair for _, pair in sorted(ordered, key=lambda each: (each[0], each[1].place))]


def _lead(match: CrossMatch) -> float:
    """Return how surely the judge names a winner; orders that contradict each other name none."""
    if match.flipped or match.score_first is None or match.score_second is None:
        return 0.0
    return abs(match.score_first - match.score_second)


def _distance(place: float) -> float:
    """Return the expected distance of people from the judge; `place`: the share of pairs of which it is no surer.

    Of the pair that it is least sure of the judge is taken to be right in one half, of the surest always.
    """
    return float(((1 - _TRUST) ** 2 + 2 * _TRUST * (1 - place)) ** 0.5)


def _numbers(places: Sequence[PairPlace], seed: int, clusters: Mapping[str, str] | None) -> dict[PairPlace, float]:
    """Return a number between 0 and 1 for each place: each is uniform, and those of a cluster lie apart."""
    members: dict[tuple[bool, str], list[PairPlace]] = defaultdict(list)
    for place in places:
        members[cluster_name(place[0], clusters)].append(place)
    numbers: dict[PairPlace, float] = {}
    for of_cluster in members.values():
        shuffled = sorted(of_cluster, key=lambda place: _hashed(f"order:{seed}:{place}"))
        for at, place in enumerate(shuffled):
            numbers[place] = (at + _hashed(f"{seed}:{place}")) / len(shuffled)
    return numbers


def _hashed(text: str) -> float:
    return (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) + 0.5) / _BITS
