"""What stopping early costs and saves when only the best rollout is wanted.

    python benchmarks/best_of.py [GROUPS] [SURE ...]

N = 8, `cyclic`, the simulated judge: how often the best rollout wins, how many calls that took, and how often a stop
before the last call names the best rollout. `pooled` on each group alone picks and stops; if `sure` is 1, `margins`.
SURE: the values of `sure` that are tried (1, .99, .95 and .9).
"""

import sys

import numpy as np
from designs import Table, play
from simulated_judge import REGIMES, draw

from harness.ranking.comparisons import Comparisons
from harness.ranking.early_stop import EarlyStop
from harness.ranking.fixed_pairs import Cyclic
from harness.ranking.margins import fit_margins
from harness.ranking.pooled import fit_alone

N = 8


def main() -> None:
    """Print the table."""
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    values = tuple(map(float, sys.argv[2:])) or (1.0, 0.99, 0.95, 0.9)
    print(
        f"{groups:,} groups of {N}, rng 1\n{'regime':10}{'sure':>8}{'top-1':>8}{'calls':>8}{'stopped':>9}{'right':>8}"
    )
    for regime in REGIMES:
        drawn = draw(regime, groups, N, np.random.default_rng(1))
        for sure in (None, *values):
            hits = calls = stopped = right = 0
            for g in range(groups):
                cyclic, table = Cyclic(range(N)), Table(drawn.calls[g])
                play(EarlyStop(cyclic, range(N), sure, fit_alone) if sure else cyclic, table)
                made = Comparisons.of(N, *zip(*table.made, strict=True))
                fit = fit_margins(made) if sure == 1 else fit_alone(made)
                hit = int(fit.estimates.argmax() == drawn.quality[g].argmax())
                early = len(table.made) < N * (N - 1) // 2
                hits, calls = hits + hit, calls + len(table.made)
                stopped, right = stopped + early, right + (early and hit)
            share = f"{right / stopped:8.3f}" if stopped else "       -"
            print(f"{regime.name:10}{sure or 'all':>8}{hits / groups:8.3f}{calls / groups:8.1f}{stopped:9}{share}")


if __name__ == "__main__":
    main()
