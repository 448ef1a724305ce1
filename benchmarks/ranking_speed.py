"""Seconds of one core to rank 10,000 groups of 8 from their stored matches. Run: `python benchmarks/ranking_speed.py`.

Each group's tournament is played again from its `Match` records, as judged, and ranked. "ranks alone" is the
estimator's ranks, rewards and advantages; "as stored" adds what a ranking always holds: the margins estimate with its
uncertainty, and each rollout's probability of being best. It prints its seed. Options: groups, then rollouts a group.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"

import numpy as np  # noqa: E402 - reads the settings above

from harness.core.rankings import Match  # noqa: E402
from harness.core.settings import EstimatorName  # noqa: E402
from harness.ranking.conclusions import Rule, collect_calls, conclude  # noqa: E402
from harness.ranking.estimators import fit_bt, tiers, win_shares  # noqa: E402
from harness.ranking.knockout import Arena  # noqa: E402
from harness.ranking.margins import fit_margins  # noqa: E402
from harness.ranking.rewards import place  # noqa: E402
from harness.ranking.score_table import rank_scores  # noqa: E402
from harness.ranking.topology import Standing, exact  # noqa: E402

SEED = 0
Matches = Sequence[Match]


def stored(groups: int, n: int) -> list[Matches]:
    """Return the matches of arenas among rollouts of normal quality, judged in both orders by a noisy judge."""
    rng, by_group = np.random.default_rng(SEED), list[Matches]()
    for _ in range(groups):
        quality = rng.normal(size=n)
        margin = quality[:, None] - quality + rng.normal(size=(n, n))
        shown = np.clip(6 + margin / 2, 0, 10).round(1).tolist(), np.clip(6 - margin / 2, 0, 10).round(1).tolist()
        by_group.append(rank_scores(lambda i, j, s=shown: (s[0][i][j], s[1][i][j]), n=n).matches)
    return by_group


def replayed(matches: Matches, n: int) -> Sequence[Standing]:
    """Return the standings after playing an arena again by its stored matches."""
    arena = Arena(range(n), 0)
    by_pairing = {(m.round, m.a, m.b): m for m in matches}
    while pairings := arena.pairings():
        for pairing in pairings:
            match = by_pairing[pairing.round, pairing.a, pairing.b]
            arena.record(pairing, exact(match.score_a), exact(match.score_b))
    return arena.standings()


def ranks_alone(estimator: EstimatorName, matches: Matches, n: int) -> object:
    """Rank one group, and nothing else."""
    standings = replayed(matches, n)
    if estimator == "tiers":
        return place(tiers(standings))
    if estimator == "wins":
        return place(win_shares(range(n), matches))
    fit = (fit_margins if estimator == "margins" else fit_bt)(collect_calls(range(n), matches))
    return place({i: round(float(e), 9) for i, e in enumerate(fit.estimates)})


def as_stored(estimator: EstimatorName, matches: Matches, n: int) -> object:
    """Rank one group with all that its ranking holds."""
    return conclude(replayed(matches, n), matches, rule=Rule(estimator))


def seconds(
    rank: Callable[[EstimatorName, Matches, int], object], name: EstimatorName, all_of: list[Matches], n: int
) -> float:
    """Return the processor's time for all groups, which a busy machine does not stretch as it does the clock's."""
    began = time.process_time()
    for matches in all_of:
        rank(name, matches, n)
    return time.process_time() - began


def main() -> None:
    """Print the table."""
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    all_of = stored(groups, n)
    print(f"{groups} groups of {n}, {sum(map(len, all_of))} stored matches, seed {SEED}; seconds on one core")
    print(f"{'estimator':<10}{'ranks alone':>12}{'as stored':>12}")
    names: tuple[EstimatorName, ...] = ("tiers", "wins", "margins", "bt")
    for name in names:
        print(f"{name:<10}{seconds(ranks_alone, name, all_of, n):>12.2f}{seconds(as_stored, name, all_of, n):>12.2f}")


if __name__ == "__main__":
    main()
