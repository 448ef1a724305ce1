"""Is a stated probability one? `p_best` of simulated groups against the truth, in bins.

    python benchmarks/reliability.py [--groups G] [--sizes 4,8,16] [--pool 8] [--estimator pooled|margins] [--rng SEED]

For each size and judge a line a bin: how often the rollout with the highest `p_best` is the best one, of how many
groups, with Wilson's interval, beside the mean of what was stated. `!` stands where what was stated lies outside of
the interval. The judge is learnt from pools of `--pool` groups (1: each group alone). Exits 1 where a stated 95 % or
more is right less often than chance allows, but for the judges for whom the model does not hold: a judge at its ceiling
is to be recognized. No real judge is run.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from pooled import SURE, Simulated, fits_of, simulated
from simulated_judge import Array

from harness.ranking import Share
from harness.ranking.ceiling import CEILING_FROM, share_at_ends
from harness.ranking.comparisons import Fit
from harness.ranking.margins import fit_margins

BINS = (0.0, 0.5, 0.65, 0.8, 0.9, SURE, 1.0001)
EXEMPT = ("ceiling", "differing")
"""The model does not hold for these judges, and the documentation says so."""


def stated(groups: Simulated, fits: Sequence[Fit]) -> tuple[Array, "np.ndarray[tuple[int], np.dtype[np.bool_]]"]:
    """Return the highest `p_best` of each group, and whether the rollout that has it is the best."""
    p: Array = np.array([fit.p_best() for fit in fits], np.float64)
    return np.asarray(p.max(axis=1), np.float64), p.argmax(axis=1) == groups.quality.argmax(axis=1)


def bins(groups: Simulated, fits: Sequence[Fit]) -> Iterator[tuple[float, Share]]:
    """Yield for each bin that holds a group the mean of what was stated, and the share that was right."""
    highest, right = stated(groups, fits)
    for low, high in pairwise(BINS):
        inside = (highest >= low) & (highest < high)
        if inside.any():
            yield float(highest[inside].mean()), Share(int(right[inside].sum()), int(inside.sum()))


def describe(groups: Simulated, fits: Sequence[Fit]) -> bool:
    """Print a judge's lines; return whether what was stated with certainty is right as often as stated."""
    certain = True
    ends = share_at_ends(groups.groups)
    known = f" (recognized: ceiling, {ends:.0%} of the scores at the ends)" if ends >= CEILING_FROM else ""
    print(f"  {groups.name}{known}")
    for mean, share in bins(groups, fits):
        low, high = share.interval
        outside = not low <= mean <= high
        print(
            f"    stated {mean:6.1%}  right {share.part / share.whole:6.1%} of {share.whole:5}  "
            f"[{low:.1%}, {high:.1%}]{' !' if outside else ''}",
            flush=True,
        )
        if mean >= SURE:
            certain = high >= SURE
    return certain or groups.name in EXEMPT


def main() -> None:
    """Simulate and print. Exits 1 where a stated certainty is none."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=1600)
    parser.add_argument("--sizes", default="4,8,16")
    parser.add_argument("--pool", type=int, default=8)
    parser.add_argument("--estimator", choices=("pooled", "margins"), default="pooled")
    parser.add_argument("--rng", type=int, default=0)
    options = parser.parse_args()
    print(f"{options.groups:,} groups a cell, {options.estimator}, pools of {options.pool}, rng {options.rng}")
    failed: list[str] = []
    for n in map(int, options.sizes.split(",")):
        budget = min(2 * (n - 1), n * (n - 1) // 2)
        print(f"N = {n}, {budget} calls in one order")
        for groups in simulated(n, budget, options.groups, options.rng):
            if options.estimator == "pooled":
                fits = fits_of(groups.groups, options.pool)
            else:
                fits = [fit_margins(calls) for calls in groups.groups]
            if not describe(groups, fits):
                failed.append(f"N = {n}, {groups.name}")
    if failed:
        sys.exit(f"a stated {SURE:.0%} is not right as often as chance allows: {'; '.join(failed)}")


if __name__ == "__main__":
    main()
