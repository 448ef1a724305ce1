"""What `pooled` gains where it learns each juror of a jury by itself, against one judge with the mean of their scores.

    python benchmarks/juries.py [--groups G] [--sizes 4,8] [--pools 8,all] [--rng N] [--json FILE]

Juries of the judges of benchmarks/ranking.py. Jurors see the same quality, or each partly a quality of its own (its
taste); they may err alike; one may fail in half of its calls, or mark by half of the scale. Each pair is judged once,
or there are about four calls to a rollout. A line says, for a pool size and a way: Spearman's correlation with what all
jurors see, and, of the groups whose best rollout is named with 95 % or more, the share in which it is the best, with
its Wilson interval (`!`: it does not reach 95 %). Exits 1 where that is so with each juror learnt by itself, or where
the correlation is more than .015 below that of the mean. No real judge is run.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from figures import add_json_option, renew
from pooled import NOT_WORSE, SURE, claims, rho
from simulated_groups import Simulated, budgets
from simulated_judge import REGIMES, Array, Regime, draw

from harness.ranking.comparisons import Comparisons, Fit
from harness.ranking.fixed_pairs import Cyclic
from harness.ranking.judge_stats.agreement import Share
from harness.ranking.pooled import fit_pooled

SHARP, NOISY, RELATIVE = REGIMES


def as_one(calls: Sequence[Comparisons]) -> list[Comparisons]:
    """Return the same calls as those of one judge with the mean of the jurors' scores."""
    return [replace(group, juror=None) for group in calls]


WAYS: dict[str, Callable[[Sequence[Comparisons]], list[Comparisons]]] = {"mean": as_one, "each": list}
"""What each way makes of a pool's calls."""


@dataclass(frozen=True)
class Jury:
    """Who sits in a jury, and what is the matter with it."""

    name: str
    jurors: tuple[Regime, ...]
    taste: float = 0.0
    """Share of the variance of a juror's qualities that is its own."""
    alike: float = 0.0
    """Standard deviation of an error of the margin that all jurors make."""
    first_fails: float = 0.0
    """Share of the calls that the first juror fails in."""
    scales: Sequence[float] = field(default=(1.0, 1.0, 1.0))


JURIES = (
    Jury("sharp, sharp", (SHARP, SHARP)),
    Jury("sharp, noisy", (SHARP, NOISY)),
    Jury("noisy, noisy, relative", (NOISY, NOISY, RELATIVE)),
    Jury("sharp, noisy by half the scale", (SHARP, NOISY), scales=(0.5, 1.0)),
    Jury("sharp, sharp; tastes .3", (SHARP, SHARP), taste=0.3),
    Jury("sharp, noisy; tastes .3", (SHARP, NOISY), taste=0.3),
    Jury("sharp, noisy; they err alike", (SHARP, NOISY), alike=1.2),
    Jury("sharp fails in half, noisy", (SHARP, NOISY), first_fails=0.5),
)


def judged(jury: Jury, n: int, budget: int, groups: int, seed: int) -> Simulated:
    """Return groups with what all jurors see, (G, N), and the jurors' calls, each made once in the cyclic design."""
    rng = np.random.default_rng(seed)
    pairings = Cyclic(range(n), None, budget).pairings()
    first, second = np.array([order for pairing in pairings for order in pairing.orders]).T
    quality = rng.standard_normal((groups, n))
    error = jury.alike * rng.standard_normal((groups, len(first), 1)) * np.array([0.5, -0.5])
    scores: list[Array] = []
    for juror, scale in zip(jury.jurors, jury.scales, strict=False):
        own = np.sqrt(1 - jury.taste) * quality + np.sqrt(jury.taste) * rng.standard_normal((groups, n))
        marks = draw(juror, groups, n, rng, times=1, quality=own).calls[:, 0, first, second] + error
        scores.append(np.clip(np.round(5 + scale * (marks - 5), 1), 0, 10))
    whole, number = np.concatenate(scores, axis=1), len(jury.jurors)
    made = rng.random((groups, number * len(first))) >= jury.first_fails
    made[:, len(first) :] = True
    seats = np.repeat(np.arange(number), len(first))
    shown = np.tile(first, number), np.tile(second, number)
    calls: list[Comparisons] = []
    for marks, here in zip(whole, made, strict=True):
        of_first, of_second = marks[here].T
        calls.append(Comparisons.of(n, shown[0][here], shown[1][here], of_first, of_second, seats[here]))
    return Simulated(jury.name, quality, calls)


def held(groups: Simulated, fits: Sequence[Fit]) -> bool:
    """Tell whether claims of 95 % or more are right as often as chance allows."""
    stated = np.array([fit.p_best() for fit in fits])
    sure = stated.max(axis=1) >= SURE
    right = stated.argmax(axis=1)[sure] == groups.quality.argmax(axis=1)[sure]
    return not sure.any() or Share(int(right.sum()), int(sure.sum())).interval[1] >= SURE


def describe(groups: Simulated, size: int) -> tuple[list[list[str]], bool]:
    """Print the lines of a jury for one size of pool, and return their cells, and whether what must hold does."""
    fits = {way: [fit for some in groups.slices(size) for fit in fit_pooled(WAYS[way](some))] for way in WAYS}
    correlations = {way: rho(groups, of_way) for way, of_way in fits.items()}
    rows: list[list[str]] = []
    for way, of_way in fits.items():
        rows.append([groups.name, f"pool {size}", way, f"{correlations[way]:7.3f}", claims(groups, of_way)])
        print(f"  {groups.name:32}pool {size:<6}{way:6}{''.join(rows[-1][3:])}", flush=True)
    return rows, held(groups, fits["each"]) and correlations["each"] >= correlations["mean"] - NOT_WORSE


def main() -> int:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=1600)
    parser.add_argument("--sizes", default="4,8")
    parser.add_argument("--pools", default="8,all")
    parser.add_argument("--rng", type=int, default=0)
    add_json_option(parser)
    options = parser.parse_args()
    print(f"{options.groups:,} groups a cell, rng {options.rng}: rho, right when >= 95 %")
    holds, rows = True, list[list[str]]()
    for n in map(int, options.sizes.split(",")):
        for budget in budgets(n):
            print(f"\nN = {n}, {budget} calls of each juror in one order")
            for jury in JURIES:
                groups = judged(jury, n, budget, options.groups, options.rng)
                for pool in options.pools.split(","):
                    lines, so = describe(groups, options.groups if pool == "all" else int(pool))
                    rows += [[str(n), str(budget), *line] for line in lines]
                    holds &= so
    renew(options.json, ("N", "calls", "jury", "judge", "learned", "rho", "right"), rows)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
