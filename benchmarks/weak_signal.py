"""What the cut-off of signal `weak` catches: how often groups fall below it, and how well those are ranked.

    python benchmarks/weak_signal.py [GROUPS]

The simulated judge, every pair once in one order (`cyclic`), `margins`. "equal" groups have rollouts all equally good.
"""

import sys
from dataclasses import replace

import numpy as np
from ranking import Table, play
from simulated_judge import REGIMES, Array, Groups, Regime, draw, mean_spearman

from harness.ranking import Cyclic
from harness.ranking.comparisons import Comparisons, Fit
from harness.ranking.conclusions import WEAK_BELOW
from harness.ranking.margins import fit_margins


def fitted(groups: Groups) -> tuple[Array, Array]:
    """Return reliability [G] and estimates [G, N] of every group."""
    size, n = groups.quality.shape
    fits: list[Fit] = []
    for g in range(size):
        table = Table(groups.calls[g])
        play(Cyclic(range(n)), table)
        fits.append(fit_margins(Comparisons.of(n, *zip(*table.made, strict=True))))
    return np.array([f.reliability for f in fits], np.float64), np.array([f.estimates for f in fits], np.float64)


def row(regime: Regime, n: int, groups: int, *, equal: bool) -> str:
    """Return a line of the table."""
    judge = replace(regime, gamma=0.0, alpha=0.0) if equal else regime
    drawn = draw(judge, groups, n, np.random.default_rng(2))
    reliability, estimates = fitted(drawn)
    weak = reliability < WEAK_BELOW
    line = f"{n:4} {'equal, ' if equal else ''}{regime.name:10}".ljust(24) + f"{weak.mean():8.3f}"
    if equal or weak.sum() < 2:
        return line
    kinds = (mean_spearman(estimates[k], drawn.quality[k])[0] for k in (weak, ~weak))
    return line + "".join(f"{rho:10.3f}" for rho in kinds)


def main() -> None:
    """Print the table."""
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{groups:,} groups a row, rng 2; weak below a reliability of {WEAK_BELOW}")
    print(f"{'   N group':24}{'weak':>8}{'rho weak':>10}{'rho else':>10}")
    for n in (4, 8, 16):
        for regime in REGIMES[:2]:
            for equal in (True, False):
                print(row(regime, n, groups, equal=equal))


if __name__ == "__main__":
    main()
