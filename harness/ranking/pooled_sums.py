"""What `pooled` keeps of the calls of many groups: sums, a line a design and a line a group.

Groups whose rollouts met in the same pairs and orders share a design. Whatever the model's parameters are, its
likelihood and its posteriors follow from these sums, so that the calls themselves are read once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from harness.ranking.comparisons import Comparisons, Floats, Ints


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


class _Cells(NamedTuple):
    """Calls of one design, repeats averaged: who stood first and second (K,), their scores (G, K)."""

    first: Ints
    second: Ints
    score_first: Floats
    score_second: Floats


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
    parts = [_blocks(n, _cells(n, [groups[place] for place in places])) for places in designs]
    kinds = (_joined(kind) for kind in zip(*parts, strict=True))
    places = np.array([place for of_design in designs for place in of_design], np.int64)
    design = np.repeat(np.arange(len(designs)), [len(of_design) for of_design in designs])
    return PoolSums(n, places, design, *kinds)


def _cells(n: int, groups: Sequence[Comparisons]) -> _Cells:
    """Return the calls of groups of one design; of calls made again in the same order the mean."""
    key = groups[0].first * n + groups[0].second
    cells, at = np.unique(key, return_inverse=True)
    mean = np.zeros((len(key), len(cells)))
    mean[np.arange(len(key)), at] = (1 / np.bincount(at, minlength=len(cells)))[at]
    first_scores = np.array([calls.score_first for calls in groups])
    second_scores = np.array([calls.score_second for calls in groups])
    return _Cells(cells // n, cells % n, first_scores @ mean, second_scores @ mean)


def _blocks(n: int, cells: _Cells) -> tuple[Block, Block, Block, Block]:
    margin, level = cells.score_first - cells.score_second, (cells.score_first + cells.score_second) / 2
    rows = np.zeros((len(cells.first), n))
    rows[np.arange(len(rows)), cells.first], rows[np.arange(len(rows)), cells.second] = 1, -1
    one, there, back = _orders(cells)
    nobody = np.zeros((len(there), n))
    halves, means = (margin[:, there] - margin[:, back]) / 2, (margin[:, there] + margin[:, back]) / 2
    return (
        _block(rows[one], np.ones(len(one)), margin[:, one]),
        _block(rows[there], np.zeros(len(there)), halves),
        _block(nobody, np.ones(len(there)), means),
        _block(np.abs(rows) / 2, np.ones(len(rows)), level),
    )


def _orders(cells: _Cells) -> tuple[list[int], list[int], list[int]]:
    """Return the cells of pairs that met in one order; of the others those of one order, and of the other."""
    at = {(i, j): cell for cell, (i, j) in enumerate(zip(cells.first.tolist(), cells.second.tolist(), strict=True))}
    both = [(cell, at[j, i]) for (i, j), cell in at.items() if i < j and (j, i) in at]
    one = [cell for (i, j), cell in at.items() if (j, i) not in at]
    return one, [there for there, _ in both], [back for _, back in both]


def _block(rows: Floats, shift: Floats, values: Floats) -> Block:
    return Block(
        information=(rows.T @ rows)[None],
        shift=(rows.T @ shift)[None],
        shifts=np.array([float(shift @ shift)]),
        number=np.array([float(len(rows))]),
        collected=values @ rows,
        total=values @ shift,
        square=(values * values).sum(axis=1),
    )


def _joined(blocks: Iterable[Block]) -> Block:
    return Block(*(np.concatenate(sums) for sums in zip(*blocks, strict=True)))


def thinned(sums: PoolSums, most: int) -> PoolSums:
    """Return at most `most` of the groups, evenly spaced: a judge is known well enough from some thousand."""
    if len(sums.places) <= most:
        return sums
    kept = np.linspace(0, len(sums.places) - 1, most).astype(np.int64)
    used, design = np.unique(sums.design[kept], return_inverse=True)
    blocks = (_picked(getattr(sums, field.name), used, kept) for field in fields(PoolSums)[3:])
    return PoolSums(sums.n, sums.places[kept], design, *blocks)


def _picked(block: Block, designs: Ints, groups: Ints) -> Block:
    return Block(*(part[designs] for part in block[:4]), *(part[groups] for part in block[4:]))
