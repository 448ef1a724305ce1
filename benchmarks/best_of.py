"""What stopping early costs and saves when only the best rollout is wanted.

    python benchmarks/best_of.py [GROUPS] [SURE ...] [--json FILE]

N = 8, `cyclic`, the simulated judge: how often the best rollout wins, how many calls that took, and how often a stop
before the last call names the best rollout. `pooled` on each group alone picks and stops; if `sure` is 1, `margins`.
SURE: the values of `sure` that are tried (1, .99, .95 and .9).
"""

import argparse

import numpy as np
from designs import Table, play
from figures import add_json_option, renew
from simulated_judge import REGIMES, draw

from harness.ranking.comparisons import Comparisons
from harness.ranking.fixed_pairs import Cyclic
from harness.ranking.margins import EarlyStop, fit_margins
from harness.ranking.pooled import fit_alone

N = 8
COLUMNS = ("judge", "sure", "top-1", "calls", "stopped", "right")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("groups", type=int, nargs="?", default=1000, metavar="GROUPS")
    parser.add_argument("values", type=float, nargs="*", default=(1.0, 0.99, 0.95, 0.9), metavar="SURE")
    add_json_option(parser)
    options = parser.parse_args()
    groups, values = options.groups, options.values
    print(f"{groups:,} groups of {N}, rng 1\n{COLUMNS[0]:10}" + "".join(f"{name:>9}" for name in COLUMNS[1:]))
    rows: list[list[str]] = []
    for regime in REGIMES:
        drawn = draw(regime, groups, N, np.random.default_rng(1))
        for sure in (None, *values):
            hits = calls = stopped = right = 0
            for g in range(groups):
                table = Table(drawn.calls[g])
                play(EarlyStop(range(N), sure=sure, fit=fit_alone) if sure else Cyclic(range(N)), table)
                made = Comparisons.of(N, *zip(*table.made, strict=True))
                fit = fit_margins(made) if sure == 1 else fit_alone(made)
                hit = int(fit.estimates.argmax() == drawn.quality[g].argmax())
                early = len(table.made) < N * (N - 1) // 2
                hits, calls = hits + hit, calls + len(table.made)
                stopped, right = stopped + early, right + (early and hit)
            share = f"{right / stopped:.3f}" if stopped else "-"
            figures = [str(sure or "all"), f"{hits / groups:.3f}", f"{calls / groups:.1f}", str(stopped), share]
            rows.append([regime.name, *figures])
            print(f"{regime.name:10}" + "".join(f"{figure:>9}" for figure in figures), flush=True)
    renew(options.json, COLUMNS, rows)


if __name__ == "__main__":
    main()
