"""Groups as a run has them, judged by simulated judges: those of benchmarks/ranking.py, and stranger ones.

Judges: sharp, noisy and relative (no absolute level); the same with queries that differ in level, spread and noise; and
noisy ones whose noise is a Student t of 3 degrees of freedom, whose first-side effect is another for each pair, or
whose marks stick at the ceiling; and each whose calls are wild now and then.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from simulated_judge import DIFFERING, REGIMES, Array, Regime, draw, draw_queries

from harness.ranking.comparisons import Comparisons, Ints
from harness.ranking.fixed_pairs import Cyclic

STRANGE = ("heavy tails", "biased by pair", "ceiling")
PLAIN = tuple(r.name for r in REGIMES)
WILD, WILD_SHARE = ", wild calls", 0.15
"""After the name of a judge: such a share of its calls has any two scores of the scale."""
JUDGES = (*PLAIN, *(name + DIFFERING for name in PLAIN), *STRANGE, *(name + WILD for name in PLAIN))


@dataclass(frozen=True)
class Simulated:
    """Groups of one judge: true qualities (G, N) in score points, and the calls of each."""

    name: str
    quality: Array
    groups: list[Comparisons]

    def slices(self, size: int) -> Iterator[list[Comparisons]]:
        """Yield the groups in pools of `size`."""
        return (self.groups[at : at + size] for at in range(0, len(self.groups), size))


def budgets(n: int) -> list[int]:
    """Return the numbers of calls that are compared: about four a rollout, and every pair once or eight a rollout."""
    pairs = n * (n - 1) // 2
    return sorted({min(2 * (n - 1), pairs), min(4 * (n - 1), pairs)})


def simulated(judge: str, n: int, budget: int, groups: int, seed: int) -> Simulated:
    """Return groups in the balanced cyclic design that runs use, each call made once.

    Pairs are judged in one order; with a budget beyond one call a pair, in both orders.
    """
    rng, name = np.random.default_rng(seed), judge.removesuffix(WILD)
    pairings = Cyclic(range(n), "both" if budget > n * (n - 1) // 2 else None, budget).pairings()
    first, second = np.array([order for pairing in pairings for order in pairing.orders]).T
    if name in STRANGE:
        quality, sides = _strange(name, REGIMES[1], n, first, second, groups, rng)
    else:
        regime = next(r for r in REGIMES if name.removesuffix(DIFFERING) == r.name)
        queries = draw_queries(groups, rng) if name.endswith(DIFFERING) else None
        drawn = draw(regime, groups, n, rng, times=1, queries=queries)
        quality, sides = regime.gamma * drawn.quality, np.moveaxis(drawn.calls[:, 0, first, second], -1, 0)
    if name != judge:
        wild = rng.random(sides[0].shape) < WILD_SHARE
        sides = [np.where(wild, np.round(rng.uniform(0, 10, wild.shape), 1), side) for side in sides]
    calls = [Comparisons.of(n, first, second, a, b) for a, b in zip(*sides, strict=True)]
    return Simulated(judge, quality, calls)


def _strange(
    judge: str, regime: Regime, n: int, first: Ints, second: Ints, groups: int, rng: np.random.Generator
) -> tuple[Array, Sequence[Array]]:
    """Groups under a noisy judge who is strange in one way.

    Noise is now and then very large; standing first is worth something else for each pair; or all answers are so good
    that marks stick at ten.
    """
    quality = regime.gamma * rng.standard_normal((groups, n))
    a, b = quality[:, first], quality[:, second]
    shape = (2, *a.shape)
    draws = rng.standard_t(3, shape) / np.sqrt(3) if judge == "heavy tails" else rng.standard_normal(shape)
    margin = a - b + regime.b + draws[0] * np.hypot(regime.u, np.sqrt(2) * regime.e)
    if judge == "biased by pair":
        pairs = [frozenset(pair) for pair in zip(first.tolist(), second.tolist(), strict=True)]
        margin += 2 * regime.b * rng.standard_normal(a.shape)[:, [pairs.index(pair) for pair in pairs]]
    middle = 9.5 if judge == "ceiling" else 6.0
    level = middle + regime.alpha / regime.gamma * (a + b) / 2 + draws[1] * np.hypot(regime.c, regime.e / 1.4)
    sides = np.rint(10 * np.clip([level + margin / 2, level - margin / 2], 0, 10)) / 10
    return quality, list(sides)
