"""The circle method: who stands first, in which round two meet, and which distances to spend a budget on."""

import functools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt


def balanced_sides(i: int, j: int, n: int) -> tuple[int, int]:
    """Return places `i` and `j` of `n` in the order that balances the sides.

    Each stands first against the next floor((n-1)/2) places; pairs across the diameter alternate. Over all pairs nobody
    stands first more than once more often than second.
    """
    i, j = min(i, j), max(i, j)
    ahead = 2 * (j - i)
    return (i, j) if ahead < n or (ahead == n and i % 2 == 0) else (j, i)


def round_of(i: int, j: int, n: int) -> int:
    """Return the round 1..n-1 (1..n for odd n) in which places `i` and `j` meet: one match a place and round.

    The circle method: the last place of an even number stays put while the others turn.
    """
    m = n - 1 + n % 2
    i, j = min(i, j), max(i, j)
    return (2 * i if j == m else i + j) % m + 1


def pairs_by_distance(n: int) -> Iterator[tuple[int, int, int]]:
    """Yield every pair of places (i, i + d mod n) once, with the number 1, 2, ... of its distance d in `distances`.

    Any beginning of the sequence is balanced: within a distance the pairs run along the circle in steps of d, every
    other one first, so that the numbers of matches of any two places differ by at most two.
    """
    for number, d in enumerate(distances(n), 1):
        if 2 * d == n:
            yield from ((i, i + d, number) for i in range(d))
            continue
        rings = int(np.gcd(n, d))
        length = n // rings
        steps = [2 * t % length if length % 2 else 2 * t % length + 2 * t // length for t in range(length)]
        half = length // 2
        for part in (steps[:half], steps[half:]):
            for start in range(rings):
                for step in part:
                    i = (start + step * d) % n
                    yield i, (i + d) % n, number


@functools.lru_cache(maxsize=8)
def distances(n: int) -> tuple[int, ...]:
    """Return the distances 1..n//2 of a circle of n places in the order in which matches at them teach most.

    First 1, whose ring connects all. Then always the one that lowers the mean posterior variance of the qualities
    most per match: with unit noise and prior precision 1 that is mean 1/(1 + L_k) over the eigenvalues
    L_k = sum over distances of 2 - 2 cos(2 pi k d / n) of the circulant comparison graph (A-optimal design).
    """
    left = np.arange(1, n // 2 + 1)
    cost = np.where(2 * left == n, 0.5, 1.0)
    adds: npt.NDArray[np.float64] = (2 - 2 * np.cos(2 * np.pi * np.outer(left, np.arange(n)) / n)) * cost[:, None]
    precision, chosen = np.ones(n), list[int]()
    while len(left):
        gain = (np.sum(1 / precision) - np.sum(1 / (precision + adds), axis=1)) / cost
        best = int(np.argmax(gain.round(9))) if chosen else 0  # rounded: equals must tie on every machine
        chosen.append(int(left[best]))
        precision = precision + adds[best]
        left, cost, adds = np.delete(left, best), np.delete(cost, best), np.delete(adds, best, axis=0)
    return tuple(chosen)
