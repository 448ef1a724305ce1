"""What `pooled` ranks and states, against `margins` on the same calls of a simulated judge.

    python benchmarks/pooled.py [--groups G] [--sizes 4,8,16] [--rng SEED]

A line says, for a pool size (how many groups the judge is learnt from): Spearman's correlation with the true order; the
share of the true qualities that lie in the stated 90 % intervals; and, of the groups whose best rollout is named with a
probability of 95 % or more, the share in which it is the best, with its Wilson interval. `!` stands where that interval
does not reach 95 %. Regimes are those of benchmarks/ranking.py; queries that differ in level, spread and noise; noise
that is a Student t of 3 degrees of freedom; a first-side effect that is another for each pair; and a judge whose marks
stick at the ceiling. benchmarks/reliability.py holds all stated probabilities against the truth. No real judge is run.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit
from simulated_judge import REGIMES, Array, Regime, draw, mean_spearman

from harness.ranking import Cyclic, Pairing, Share
from harness.ranking.comparisons import Comparisons, Fit, Ints
from harness.ranking.margins import fit_margins
from harness.ranking.pooled import fit_pooled

POOLS = (1, 8, 32)
SURE = 0.95


@dataclass(frozen=True)
class Simulated:
    """Groups of one regime: true qualities (G, N) in score points, and the calls of each."""

    name: str
    quality: Array
    groups: list[Comparisons]


def pairings(n: int, budget: int) -> list[Pairing]:
    """Return the calls of the balanced cyclic design that runs use."""
    return list(Cyclic(range(n), None, budget).pairings())


def simulated(n: int, budget: int, groups: int, seed: int) -> Iterator[Simulated]:
    """Yield each regime's groups."""
    calls = [order for pairing in pairings(n, budget) for order in pairing.orders]
    first, second = np.array(calls).T
    for regime in REGIMES:
        drawn = draw(regime, groups, n, np.random.default_rng(seed), times=1)
        scores = drawn.calls[:, 0, first, second]
        yield Simulated(
            regime.name, regime.gamma * drawn.quality, _comparisons(n, first, second, scores[..., 0], scores[..., 1])
        )
    for name in ("differing", "heavy tails", "biased by pair", "ceiling"):
        yield _other(name, REGIMES[1], n, first, second, groups, np.random.default_rng(seed))


def _other(
    name: str, regime: Regime, n: int, first: Ints, second: Ints, groups: int, rng: np.random.Generator
) -> Simulated:
    """Groups under a noisy judge who is strange in one way.

    Queries differ; noise is now and then very large; standing first is worth something else for each pair; or all
    answers are so good that marks stick at ten.
    """
    z = rng.standard_normal((3, groups, 1))
    differ, heavy = name == "differing", name == "heavy tails"
    spread, noise, level = (np.exp(0.5 * z[0]), np.exp(0.3 * z[1]), 1.5 * z[2]) if differ else (1.0, 1.0, 0.0)
    quality = regime.gamma * spread * rng.standard_normal((groups, n))
    a, b = quality[:, first], quality[:, second]
    draws = rng.standard_t(3, (2, *a.shape)) / np.sqrt(3) if heavy else rng.standard_normal((2, *a.shape))
    margin = a - b + regime.b + noise * draws[0] * np.hypot(regime.u, np.sqrt(2) * regime.e)
    if name == "biased by pair":
        margin += 2 * regime.b * rng.standard_normal(a.shape)
    middle = (
        (9.5 if name == "ceiling" else 6)
        + level
        + regime.alpha / regime.gamma * (a + b) / 2
        + noise * draws[1] * np.hypot(regime.c, regime.e / 1.4)
    )
    sides = np.rint(10 * np.clip([middle + margin / 2, middle - margin / 2], 0, 10)) / 10
    return Simulated(name, quality, _comparisons(n, first, second, sides[0], sides[1]))


def _comparisons(n: int, first: Ints, second: Ints, a: Array, b: Array) -> list[Comparisons]:
    return [Comparisons.of(n, first, second, x, y) for x, y in zip(a, b, strict=True)]


def fits_of(groups: Sequence[Comparisons], pool: int) -> list[Fit]:
    """Return the fits of groups, each pool of which has a judge of its own to learn."""
    return [fit for at in range(0, len(groups), pool) for fit in fit_pooled(groups[at : at + pool])]


def describe(simulated: Simulated, fits: Sequence[Fit]) -> str:
    """Return rho, coverage of 90 % intervals, and how often a claim of 95 % is right."""
    away = simulated.quality - simulated.quality.mean(axis=1, keepdims=True)
    estimates: Array = np.array([fit.estimates for fit in fits], np.float64)
    rho, _ = mean_spearman(estimates, simulated.quality)
    reach = np.array([float(stdtrit(fit.dof, 0.95)) * np.sqrt(fit.covariance.diagonal()) for fit in fits])
    inside = float((np.abs(estimates - away) <= reach).mean())
    stated = np.array([fit.p_best() for fit in fits])
    sure = stated.max(axis=1) >= SURE
    right = stated.argmax(axis=1)[sure] == simulated.quality.argmax(axis=1)[sure]
    if not sure.any():
        return f"{rho:7.3f}{inside:8.1%}      no claim"
    share = Share(int(right.sum()), int(sure.sum()))
    low, high = share.interval
    mark = "!" if high < SURE else ""
    return f"{rho:7.3f}{inside:8.1%}{right.mean():8.1%} of {share.whole:<5}[{low:.2f}, {high:.2f}]{mark}"


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=1600)
    parser.add_argument("--sizes", default="4,8,16")
    parser.add_argument("--rng", type=int, default=0)
    options = parser.parse_args()
    print(f"{options.groups:,} groups a cell, rng {options.rng}: rho, coverage of 90 % intervals, right when >= 95 %")
    for n in map(int, options.sizes.split(",")):
        for budget in sorted({min(2 * (n - 1), n * (n - 1) // 2), min(4 * (n - 1), n * (n - 1) // 2)}):
            print(f"\nN = {n}, {budget} calls in one order")
            for regime in simulated(n, budget, options.groups, options.rng):
                print(f"  {regime.name:12}margins  {describe(regime, [fit_margins(g) for g in regime.groups])}")
                for pool in (*POOLS, len(regime.groups)):
                    print(f"  {'':12}pool {pool:<5}{describe(regime, fits_of(regime.groups, pool))}", flush=True)
    began = time.process_time()
    many = next(simulated(8, 28, 10_000, options.rng)).groups
    began, drawn = time.process_time(), time.process_time() - began
    fit_pooled(many)
    print(
        f"\nfit of 10,000 groups of 8 with 28 calls: {time.process_time() - began:.1f} s of CPU ({drawn:.1f} s to draw)"
    )


if __name__ == "__main__":
    main()
