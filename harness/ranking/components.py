"""Who is connected with whom by judged pairs."""

from collections.abc import Iterable, Iterator


def components(n: int, pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Return the entrants 0..n-1 in groups that pairs connect, each group sorted, by its smallest member."""
    met = [1 << i for i in range(n)]  # sets of entrants, as bits
    for i, j in {*pairs}:
        met[i] |= 1 << j
        met[j] |= 1 << i
    groups, left = list[tuple[int, ...]](), (1 << n) - 1
    while left:
        group = _reached(met, left & -left)
        groups.append(tuple(_members(group)))
        left &= ~group
    return tuple(groups)


def _reached(met: list[int], fresh: int) -> int:
    """Return whom the entrants of `fresh` are connected with, themselves included."""
    reached = fresh
    while fresh:
        i = fresh.bit_length() - 1
        fresh = (fresh | met[i] & ~reached) & ~(1 << i)
        reached |= met[i]
    return reached


def _members(group: int) -> Iterator[int]:
    return (i for i in range(group.bit_length()) if group >> i & 1)
