"""What `pooled` keeps of the calls of many groups: sums, a line a design and a line a group.

Groups whose rollouts met in the same pairs and orders share a design. Whatever the model's parameters are, its
likelihood and its posteriors follow from these sums, so that the calls themselves are read once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.ranking.comparisons import Comparisons, Floats, Ints

_NUMBERS_AT_ONCE = 1_000_000


class Block(NamedTuple):
    """Observations of one kind with one noise, y = X theta + f x (first side) + noise, as sums.

    For each of D designs: X'X (D, n, n), X'f (D, n), f'f (D,), how many (D,). For each of G groups: X'y (G, n),
    f'y (G,), y'y (G,).
    """

    information: Floats
    shift: Floats
    shifts: Floats
    number: Floats
    collected: Floats
    total: Floats
    square: Floats


@dataclass(frozen=True)
class PoolSums:
    """The sums of groups of `n` rollouts each."""

    n: int
    places: Ints
    """For each of G groups its place in the sequence that was given."""
    design: Ints
    """For each of G groups the number of its design."""
    single: Block
    """Margins (first's score less second's) of pairs judged in one order."""
    halves: Block
    """Half of the difference of the two orders' margins, of pairs judged in both: no first side is in it."""
    sides: Block
    """Their mean: the first side alone is in it."""
    levels: Block
    """Mean of the two scores of each order: what is known of the absolute level."""


def pool_sums(groups: Sequence[Comparisons]) -> list[PoolSums]:
    """Return the sums of `groups`, those of one size together."""
    designs: dict[tuple[int, bytes, bytes], list[int]] = {}
    for place, calls in enumerate(groups):
        designs.setdefault((calls.n, calls.first.tobytes(), calls.second.tobytes()), []).append(place)
    sizes: dict[int, list[list[int]]] = {}
    for (n, *_), places in designs.items():
        sizes.setdefault(n, []).append(places)
    return [_of_one_size(n, groups, places) for n, places in sizes.items()]


def _of_one_size(n: int, groups: Sequence[Comparisons], designs: Sequence[Sequence[int]]) -> PoolSums:
    number = np.array([len(of_design) for of_design in designs])
    design = np.repeat(np.arange(len(designs)), number)
    in_order = [place for of_design in designs for place in of_design]
    times = _by_order(n, [groups[of_design[0]] for of_design in designs], None)
    at_once = max(1, _NUMBERS_AT_ONCE // (n * n))
    parts = [slice(at, at + at_once) for at in range(0, len(in_order), at_once)]
    of_groups = [_sums_of_groups([groups[place] for place in in_order[part]], times[design[part]]) for part in parts]
    kinds = zip(_sums_of_designs(times), zip(*of_groups, strict=True), strict=True)
    blocks = (Block(*known, *map(np.concatenate, zip(*sums, strict=True))) for known, sums in kinds)
    return PoolSums(n, np.array(in_order, np.int64), design, *blocks)


def _by_order(n: int, groups: Sequence[Comparisons], sides: Sequence[Floats] | None) -> Floats:
    """Return for each group, who stood first, and who second: how many calls, or the sum of a value a call.

    (G, n, n)
    """
    first = np.concatenate([calls.first for calls in groups])
    second = np.concatenate([calls.second for calls in groups])
    at = np.repeat(np.arange(len(groups)), [len(calls.first) for calls in groups]) * n
    weights = None if sides is None else np.concatenate(sides)
    sums = np.bincount((at + first) * n + second, weights, len(groups) * n * n)
    return sums.astype(np.float64).reshape(len(groups), n, n)


class _Orders(NamedTuple):
    """1 where a pair was judged in that order, else 0, (D, n, n): which observations there are of each kind."""

    single: Floats
    """In this order alone."""
    both: Floats
    """In both; on one side of the diagonal."""
    every: Floats


def _orders(times: Floats) -> _Orders:
    every = (times > 0).astype(np.float64)
    turned = every.swapaxes(1, 2)
    return _Orders(every * (1 - turned), np.triu(every * turned), every)


def _sums_of_designs(times: Floats) -> tuple[tuple[Floats, ...], ...]:
    """Return the first four sums of each block."""
    single, both, every = _orders(times)
    number, pairs, calls = (met.sum(axis=(1, 2)) for met in (single, both, every))
    nobody = np.zeros((len(times), times.shape[1]))
    return (
        (_information(single, -1), _ends(single, -1), number, number),
        (_information(both, -1), nobody, np.zeros_like(pairs), pairs),
        (np.zeros_like(both), nobody, pairs, pairs),
        (_information(every, 1) / 4, _ends(every, 1) / 2, calls, calls),
    )


def _sums_of_groups(groups: Sequence[Comparisons], times: Floats) -> tuple[tuple[Floats, ...], ...]:
    """Return the last three sums of each block; of calls made again in the same order the mean counts."""
    n, (single, both, every), calls = times.shape[1], _orders(times), np.maximum(times, 1)
    of_first = _by_order(n, groups, [group.score_first for group in groups]) / calls
    of_second = _by_order(n, groups, [group.score_second for group in groups]) / calls
    margin = of_first - of_second
    turned = margin.swapaxes(1, 2)
    alone, level = single * margin, every * (of_first + of_second) / 2
    half, side = both * (margin - turned) / 2, both * (margin + turned) / 2
    nobody = np.zeros((len(groups), n))
    return (
        (_ends(alone, -1), *_total_and_square(alone)),
        (_ends(half, -1), np.zeros(len(groups)), _total_and_square(half)[1]),
        (nobody, *_total_and_square(side)),
        (_ends(level, 1) / 2, *_total_and_square(level)),
    )


def _total_and_square(values: Floats) -> tuple[Floats, Floats]:
    return values.sum(axis=(1, 2)), (values * values).sum(axis=(1, 2))


def _ends(values: Floats, sign: int) -> Floats:
    """Return for each entrant the sum of the values where it stood first, plus or less that where it stood second."""
    return values.sum(axis=2) + sign * values.sum(axis=1)


def _information(met: Floats, sign: int) -> Floats:
    """Return X'X, (D, n, n), for rows that have 1 at the first of two who met, and `sign` at the second."""
    matrix = sign * (met + met.swapaxes(1, 2))
    n = met.shape[1]
    matrix[:, range(n), range(n)] = _ends(met, 1)
    return matrix


def thinned(sums: PoolSums, most: int) -> PoolSums:
    """Return at most `most` of the groups, evenly spaced: a judge is known well enough from some thousand."""
    if len(sums.places) <= most:
        return sums
    kept = np.linspace(0, len(sums.places) - 1, most).astype(np.int64)
    used, design = np.unique(sums.design[kept], return_inverse=True)
    blocks = (
        Block(*(part[used] for part in block[:4]), *(part[kept] for part in block[4:]))
        for block in (sums.single, sums.halves, sums.sides, sums.levels)
    )
    return PoolSums(sums.n, sums.places[kept], design, *blocks)
