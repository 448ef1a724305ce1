"""Who is connected with whom by judged pairs."""

from collections.abc import Iterable


def components(n: int, pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Return the entrants 0..n-1 in groups that pairs connect, each group sorted, by its smallest member."""
    root = list(range(n))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = i = root[root[i]]
        return i

    for i, j in {*pairs}:
        low, high = sorted((find(i), find(j)))
        root[high] = low
    by_root: dict[int, list[int]] = {}
    for i in range(n):
        by_root.setdefault(find(i), []).append(i)
    return tuple(tuple(members) for members in by_root.values())
