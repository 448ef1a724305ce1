"""Which queries two runs share, and which of their rollouts meet: pure, and the same whoever is named first."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from harness.core.records import AGENT_FAILURES, Query, Rollout, digest
from harness.tournament.cross import CrossPair


def content_of(query: Query) -> str:
    """Return the hash of what a query asks: its text, its items, its reference answer."""
    items = None if query.items is None else [dict(item) for item in query.items]
    return digest([query.text, items, query.reference])


def by_content(queries: Iterable[Query]) -> dict[str, str]:
    """Return the ids of queries by what they ask, in their order. A query that is there again has a hash of its own."""
    ids: dict[str, str] = {}
    seen = Counter[str]()
    for query in queries:
        content = content_of(query)
        ids[digest([content, seen[content]]) if seen[content] else content] = query.id
        seen[content] += 1
    return ids


@dataclass(frozen=True)
class SharedQuery:
    """A query that every side has: what it asks, and its id on each side."""

    content: str
    ids: tuple[str, ...]


def shared(sides: Sequence[Mapping[str, str]]) -> list[SharedQuery]:
    """Return the queries that every side has (each side: ids by content), in the order of their hashes.

    That order does not depend on which side was named first.
    """
    contents = set(sides[0]).intersection(*sides[1:])
    return [SharedQuery(content, tuple(side[content] for side in sides)) for content in sorted(contents)]


def takes_part(rollout: Rollout) -> bool:
    """Tell whether a rollout is compared: it ended well, or failed by the agent's own making."""
    return rollout.status == "ok" or (rollout.failure is not None and rollout.failure.kind in AGENT_FAILURES)


@dataclass(frozen=True)
class Draw:
    """How cross pairs are drawn: K for each two sides and query, by chance that comes from `seed` and the runs."""

    pairs: int
    seed: int
    runs: tuple[str, ...]
    """A hash for each side, by which its run is told from all others."""

    def of_query(self, content: str, sides: Sequence[Sequence[Rollout]]) -> list[CrossPair]:
        """Return the pairs of one query: for each two sides their samples' pairs, then the anchors' pair."""
        drawn: list[CrossPair] = []
        for a, b in combinations(range(len(sides)), 2):
            first, second = (self._shuffled(content, (a, b), side, sides[side]) for side in (a, b))
            swapped = self.runs[a] > self.runs[b]
            indices = met(second, first, self.pairs) if swapped else met(first, second, self.pairs)
            drawn += [CrossPair((a, b), "sample", *(reversed(pair) if swapped else pair)) for pair in indices]
            anchors = [[r.index for r in sides[side] if r.role == "anchor" and takes_part(r)] for side in (a, b)]
            drawn += [CrossPair((a, b), "anchor", *pair) for pair in zip(*anchors, strict=False)]
        return drawn

    def _shuffled(self, content: str, pair: tuple[int, int], side: int, rollouts: Sequence[Rollout]) -> list[int]:
        """Return the samples that take part, in an order that the absence of one of them does not change."""
        both = sorted(self.runs[one] for one in pair)
        samples = [r.index for r in rollouts if r.role == "sample" and takes_part(r)]
        return sorted(samples, key=lambda index: digest([self.seed, content, both, self.runs[side], index]))


def met(first: Sequence[int], second: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Return `count` pairs of the two, or as many as there are: as few of them twice as can be.

    No pair comes twice. The first pairs stay the same if more are asked for.
    """
    fewer, more = len(first), len(second)
    if fewer > more:
        return [(a, b) for b, a in met(second, first, count)]
    fresh = list(range(0, more, max(fewer, 1)))
    shifts = [*fresh, *(shift for shift in range(more) if shift not in fresh)]
    return [(a, second[(i + shift) % more]) for shift in shifts for i, a in enumerate(first)][:count]
