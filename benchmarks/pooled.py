"""What `pooled` ranks and states, against `margins` on the same calls of a simulated judge.

    python benchmarks/pooled.py [--groups G] [--sizes 4,8,16] [--pools 1,8,32,all] [--judges "noisy;ceiling"] [--rng N]
        [--json FILE]

A line says, for a pool size (how many groups the judge is learnt from): Spearman's correlation with the true order; the
share of the true qualities that lie in the stated 90 % intervals; and, of the groups whose best rollout is named with a
probability of 95 % or more, the share in which it is the best, with its Wilson interval. `!` stands where that interval
does not reach 95 %, and `worse` where the correlation is more than .015 below that of `margins`. The judges are those
of benchmarks/simulated_groups.py; with twice as many calls those who are the same for all queries, and with every pair
in both orders two of the noisy ones, both without groups alone. benchmarks/reliability.py holds all stated
probabilities against the truth. No real judge is run.
"""

import argparse
import time
from collections.abc import Sequence

import numpy as np
from figures import add_json_option, renew
from scipy.special import stdtrit
from simulated_groups import JUDGES, PLAIN, Simulated, budgets, simulated
from simulated_judge import REGIMES, Array, mean_spearman
from weak_signal import arena_calls

from harness.ranking.comparisons import Fit
from harness.ranking.judge_stats.agreement import Share
from harness.ranking.margins import fit_margins
from harness.ranking.pooled import fit_pooled

ALL = "all"
POOLS = ("1", "8", "32", ALL)
BOTH_ORDERS = ("noisy", "biased by pair")
"""With every pair in both orders: what standing first is worth on a pair cancels, and must not widen the intervals."""
MANY = 10_000
SURE = 0.95
NOT_WORSE = 0.015


def fits_of(groups: Simulated, pool: int) -> list[Fit]:
    """Return the fits of groups, each pool of which has a judge of its own to learn."""
    return [fit for some in groups.slices(pool) for fit in fit_pooled(some)]


def rho(groups: Simulated, fits: Sequence[Fit]) -> float:
    """Return the mean correlation with the true order."""
    estimates: Array = np.array([fit.estimates for fit in fits], np.float64)
    return mean_spearman(estimates, groups.quality)[0]


def covered(groups: Simulated, fits: Sequence[Fit]) -> Array:
    """Return of each group's true qualities, about their mean, the share that lies in the 90 % intervals, (G,)."""
    away = groups.quality - groups.quality.mean(axis=1, keepdims=True)
    means: Array = np.array([fit.mean for fit in fits], np.float64)
    reach = np.array([float(stdtrit(fit.dof, 0.95)) * np.sqrt(fit.covariance.diagonal()) for fit in fits])
    return (np.abs(means - away) <= reach).mean(axis=1)


def claims(groups: Simulated, fits: Sequence[Fit]) -> str:
    """Return how often a claim of 95 % or more is right."""
    stated = np.array([fit.p_best() for fit in fits])
    sure = stated.max(axis=1) >= SURE
    right = stated.argmax(axis=1)[sure] == groups.quality.argmax(axis=1)[sure]
    if not sure.any():
        return "      no claim"
    share = Share(int(right.sum()), int(sure.sum()))
    low, high = share.interval
    return f"{right.mean():8.1%} of {share.whole:<5}[{low:.2f}, {high:.2f}]{'!' if high < SURE else ''}"


def described(groups: Simulated, fits: Sequence[Fit]) -> list[str]:
    """Return the correlation, the coverage and the claims of fits, as the table has them."""
    return [f"{rho(groups, fits):7.3f}", f"{covered(groups, fits).mean():8.1%}", claims(groups, fits)]


def describe(groups: Simulated, pools: Sequence[str]) -> list[list[str]]:
    """Print the lines of one judge, and return their cells: judge, fit and figures."""
    fits = [fit_margins(calls) for calls in groups.groups]
    least = rho(groups, fits) - NOT_WORSE
    rows = [[groups.name, "margins", *described(groups, fits)]]
    print(f"  {groups.name:21}margins  {''.join(rows[0][2:])}")
    for size in (len(groups.groups) if pool == ALL else int(pool) for pool in pools):
        fits = fits_of(groups, size)
        worse = " worse" if rho(groups, fits) < least else ""
        rows.append([groups.name, f"pool {size}", *described(groups, fits)])
        print(f"  {'':21}pool {size:<5}{''.join(rows[-1][2:])}{worse}", flush=True)
    return rows


def designs_of(n: int) -> dict[int, tuple[str, Sequence[str], Sequence[str]]]:
    """Return, by the number of calls, in which orders they are made, for which judges, and for pools of which sizes."""
    few, *more = budgets(n)
    return {
        few: ("one order", JUDGES, POOLS),
        **dict.fromkeys(more, ("one order", PLAIN, POOLS[1:])),
        n * (n - 1): ("both orders", BOTH_ORDERS, POOLS[1:]),
    }


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=1600)
    parser.add_argument("--sizes", default="4,8,16")
    parser.add_argument("--pools", default=",".join(POOLS))
    parser.add_argument("--judges", default=";".join(JUDGES))
    parser.add_argument("--rng", type=int, default=0)
    add_json_option(parser)
    options = parser.parse_args()
    rows: list[list[str]] = []
    print(f"{options.groups:,} groups a cell, rng {options.rng}: rho, coverage of 90 % intervals, right when >= 95 %")
    for n in map(int, options.sizes.split(",")):
        for budget, (orders, judges, pools) in designs_of(n).items():
            print(f"\nN = {n}, {budget} calls in {orders}")
            for judge in (judge for judge in options.judges.split(";") if judge in judges):
                groups = simulated(judge, n, budget, options.groups, options.rng)
                of_judge = describe(groups, [pool for pool in options.pools.split(",") if pool in pools])
                rows += [[str(n), str(budget), *row] for row in of_judge]
    renew(options.json, ("N", "calls", "judge", "fit", "rho", "covered", "right"), rows)
    print()
    of_a_design = simulated("sharp", 8, 28, MANY, options.rng).groups
    of_arena = arena_calls(REGIMES[0], 8, MANY, options.rng, equal=False)
    for what, many in (("28 calls of one design", of_a_design), ("arena's calls, a design each", of_arena)):
        began = time.process_time()
        fit_pooled(many)
        print(f"fit of {MANY:,} groups of 8 with {what}: {time.process_time() - began:.1f} s of CPU")


if __name__ == "__main__":
    main()
