"""Is a stated probability one? `p_best` of simulated groups against the truth, in bins.

    python benchmarks/reliability.py [--groups G] [--sizes 4,8,16] [--pool 8] [--batches 4] [--judges "noisy;ceiling"]
                                     [--estimator pooled|margins] [--rng SEED]

For each size and judge what 90 % intervals cover, `!` outside of 87 to 93 %, and a line a bin: how often the rollout
with the highest `p_best` is the best one, of how many groups, with Wilson's interval, beside the mean of what was
stated; `!` stands where that lies outside of the interval. The judge is learnt from pools of `--pool` groups (1: each
group alone). A judge who is seldom certain gets up to `--batches` times as many groups, until 50 claims of 95 % or more
stand. Below 20 the cell says `too few claims`, and the same judge is asked more: every pair once, then every pair in
both orders. Exits 1 where intervals cover less than 87 %, beyond three standard errors, and where the claims are right
less often than chance allows: so few right ones have a probability of less than 5 % over all cells together, if each
claim is right with 95 % (groups alone: with 90 %). A judge at its ceiling is exempt: it is to be recognized. No real
judge is run.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
from figures import add_json_option, renew
from juries import JURIES, judged
from pooled import SURE, covered, fits_of
from scipy.special import bdtr
from simulated_groups import JUDGES, Simulated, simulated
from simulated_judge import REGIMES, Array

from harness.ranking.comparisons import CEILING_FROM, Fit, share_at_ends
from harness.ranking.judge_stats.agreement import Share
from harness.ranking.margins import fit_margins

BINS = (0.0, 0.5, 0.65, 0.8, 0.9, SURE, 1.0001)
EXEMPT = ("ceiling",)
"""The model does not hold for this judge, and a note on each ranking says so."""
OF_JURIES = {f"jury: {jury.name.replace(';', ',')}": jury for jury in JURIES[:6] if jury.scales == (1.0, 1.0, 1.0)}
LEAST_COVERED, MOST_COVERED, ERRORS = 0.87, 0.93, 3.0
ENOUGH_CLAIMS, FEWEST_CLAIMS = 50, 20
ALONE = 0.9
"""What is to be right of the claims of groups alone, which hardly know their judge."""
CHANCE = 0.05
"""How probable it is that the benchmark fails although every claim of 95 % is one."""


@dataclass(frozen=True)
class Stated:
    """Of each group the highest `p_best`, and whether the rollout that has it is the best. Both (G,)."""

    name: str
    highest: Array
    right: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
    at_ends: float
    covered: Array
    """Of each group's qualities, the share that lies in the 90 % intervals, (G,)."""

    @property
    def covers_too_little(self) -> bool:
        """Whether intervals cover so little that chance does not explain it."""
        error = self.covered.std() / np.sqrt(len(self.covered))
        return float(self.covered.mean() + ERRORS * error) < LEAST_COVERED

    def share(self, low: float, high: float) -> tuple[float, Share]:
        """Return the mean of what was stated within these bounds, and the share that was right."""
        inside = (self.highest >= low) & (self.highest < high)
        mean = float(self.highest[inside].mean()) if inside.any() else 0.0
        return mean, Share(int(self.right[inside].sum()), int(inside.sum()))

    @property
    def claims(self) -> Share:
        """The groups in which one rollout is named with certainty."""
        return self.share(SURE, BINS[-1])[1]


def stated(name: str, batches: Iterator[Simulated], fit: Callable[[Simulated], Sequence[Fit]]) -> Stated:
    """Return what is stated of batches of groups, and read as many of them as it takes to have enough claims."""
    parts = list[Stated]()
    for batch in batches:
        fits = fit(batch)
        p: Array = np.array([f.p_best() for f in fits], np.float64)
        right = p.argmax(axis=1) == batch.quality.argmax(axis=1)
        at_ends, of_each = share_at_ends(batch.groups), covered(batch, fits)
        parts.append(Stated(name, np.asarray(p.max(axis=1), np.float64), right, at_ends, of_each))
        if sum(part.claims.whole for part in parts) >= ENOUGH_CLAIMS:
            break
    columns = zip(*((p.highest, p.right, p.covered) for p in parts), strict=True)
    highest, right, within = (np.concatenate(column) for column in columns)
    return Stated(name, highest, right, float(np.mean([part.at_ends for part in parts])), within)


def describe(cell: Stated) -> None:
    """Print a cell's lines."""
    ceiling = f" (recognized: ceiling, {cell.at_ends:.0%} of the scores at the ends)"
    print(f"  {cell.name}, {len(cell.right):,} groups{ceiling if cell.at_ends >= CEILING_FROM else ''}")
    covers = float(cell.covered.mean())
    print(f"    90 % intervals cover {covers:.1%}{'' if LEAST_COVERED <= covers <= MOST_COVERED else ' !'}")
    for low, high in pairwise(BINS):
        mean, share = cell.share(low, high)
        if share.whole:
            least, most = share.interval
            print(
                f"    stated {mean:6.1%}  right {share.part / share.whole:6.1%} of {share.whole:5}  "
                f"[{least:.1%}, {most:.1%}]{'' if least <= mean <= most else ' !'}",
                flush=True,
            )
    if cell.claims.whole < FEWEST_CLAIMS:
        print(f"    too few claims of {SURE:.0%} or more to tell")


def designs_of(n: int) -> dict[int, str]:
    """Return the numbers of calls that a judge is asked for, few first, and what that is of `n` rollouts."""
    pairs = n * (n - 1) // 2
    return {min(2 * (n - 1), pairs): "one order", pairs: "every pair once", 2 * pairs: "every pair in both orders"}


def cells_of(
    judge: str, n: int, options: argparse.Namespace, fit: Callable[[Simulated], Sequence[Fit]]
) -> list[Stated]:
    """Print and return what is stated of a judge's groups: by few calls, and by more until there is enough to judge."""
    cells = list[Stated]()
    for calls, design in designs_of(n).items():
        seeds = range(options.rng, options.rng + options.batches)
        name = f"{judge}, {calls} calls, {design}" if cells else judge
        cells.append(stated(name, (groups_of(judge, n, calls, options.groups, seed) for seed in seeds), fit))
        describe(cells[-1])
        if judge in EXEMPT or cells[-1].claims.whole >= FEWEST_CLAIMS:
            break
    return cells


def groups_of(judge: str, n: int, calls: int, groups: int, seed: int) -> Simulated:
    """Return groups of a judge, or of a jury with the true qualities as all of its jurors see them."""
    jury = OF_JURIES.get(judge)
    if not jury:
        return simulated(judge, n, calls, groups, seed)
    of_jury = judged(jury, n, min(calls, n * (n - 1) // 2), groups, seed)
    return replace(of_jury, quality=np.sqrt(1 - jury.taste) * REGIMES[0].gamma * of_jury.quality)


def is_beyond_chance(cell: Stated, cells: int, promised: float = SURE) -> bool:
    """Tell whether claims that are right as promised would hardly ever be right so seldom, in any of so many cells."""
    claims = cell.claims
    return claims.whole > 0 and float(bdtr(claims.part, claims.whole, promised)) < CHANCE / cells


def main() -> None:
    """Simulate and print. Exits 1 where a stated certainty is none."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=1600)
    parser.add_argument("--sizes", default="4,8,16")
    parser.add_argument("--pool", type=int, default=8)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--judges", default=";".join([*JUDGES, *OF_JURIES]))
    parser.add_argument("--estimator", choices=("pooled", "margins"), default="pooled")
    parser.add_argument("--rng", type=int, default=0)
    add_json_option(parser)
    options = parser.parse_args()
    print(f"{options.groups:,} groups a cell, {options.estimator}, pools of {options.pool}, rng {options.rng}")
    fit = partial(fits_of, pool=options.pool) if options.estimator == "pooled" else _by_margins
    cells = list[Stated]()
    for n in map(int, options.sizes.split(",")):
        print(f"N = {n}, {next(iter(designs_of(n)))} calls in one order")
        for judge in options.judges.split(";"):
            of_judge = cells_of(judge, n, options, fit)
            cells += [replace(cell, name=f"N = {n}, {cell.name}") for cell in of_judge if judge not in EXEMPT]
    renew(options.json, ("judge and calls", "groups", "covered", "stated", "right"), [summary(cell) for cell in cells])
    conclude(cells, ALONE if options.pool == 1 else SURE)


def summary(cell: Stated) -> list[str]:
    """Return a cell's name, its groups, what intervals cover, and of its certainties the mean and how often right."""
    mean, share = cell.share(SURE, BINS[-1])
    right = f"{share.part / share.whole:.1%} of {share.whole}" if share.whole else "no claim"
    covers = f"{cell.covered.mean():.1%}"
    return [cell.name, f"{len(cell.right):,}", covers, f"{mean:.1%}" if share.whole else "-", right]


def conclude(cells: Sequence[Stated], promised: float) -> None:
    """Say what the claims of all cells come to. Raises SystemExit where one is right too seldom."""
    claims = [cell.claims for cell in cells]
    right, made = sum(share.part for share in claims), sum(share.whole for share in claims)
    enough = sum(share.whole >= FEWEST_CLAIMS for share in claims)
    print(
        f"{len(cells)} cells, {enough} with {FEWEST_CLAIMS} claims of {SURE:.0%} or more: of all their {made:,} claims "
        f"{right / max(made, 1):.1%} are right"
    )
    if narrow := [cell.name for cell in cells if cell.covers_too_little]:
        sys.exit(f"90 % intervals cover less than {LEAST_COVERED:.0%}: {'; '.join(narrow)}")
    if failed := [cell.name for cell in cells if is_beyond_chance(cell, len(cells), promised)]:
        sys.exit(f"a stated {SURE:.0%} is right less often than chance allows of {promised:.0%}: {'; '.join(failed)}")


def _by_margins(batch: Simulated) -> list[Fit]:
    return [fit_margins(calls) for calls in batch.groups]


if __name__ == "__main__":
    main()
