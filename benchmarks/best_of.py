"""What stopping early costs and saves when only the best rollout is wanted.

    python benchmarks/best_of.py [GROUPS]

N = 8, `cyclic` by `margins`, the simulated judge: how often the best rollout wins, and how many calls that took.
"""

import sys

import numpy as np
from ranking import Table, play
from simulated_judge import REGIMES, draw

from harness.ranking import Cyclic, EarlyStop
from harness.ranking.comparisons import Comparisons
from harness.ranking.margins import fit_margins

N = 8


def main() -> None:
    """Print the table."""
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{groups:,} groups of {N}, rng 1\n{'regime':10}{'sure':>8}{'top-1':>8}{'calls':>8}")
    for regime in REGIMES:
        drawn = draw(regime, groups, N, np.random.default_rng(1))
        for sure in (None, 1.0, 0.99, 0.95, 0.9):
            hits = calls = 0
            for g in range(groups):
                cyclic, table = Cyclic(range(N)), Table(drawn.calls[g])
                play(EarlyStop(cyclic, range(N), sure) if sure else cyclic, table)
                fit = fit_margins(Comparisons.of(N, *zip(*table.made, strict=True)))
                hits += int(fit.estimates.argmax() == drawn.quality[g].argmax())
                calls += len(table.made)
            print(f"{regime.name:10}{sure or 'all':>8}{hits / groups:8.3f}{calls / groups:8.1f}")


if __name__ == "__main__":
    main()
