"""Which design ranks best for its judge calls: every topology, estimator, budget and judge, simulated.

    python benchmarks/ranking.py [--quick] [--groups G] [--sizes 4,8,16,32] [--rng SEED] [--plot FILE.png] [--csv FILE]

Every number is a mean over G groups with its standard error; rho is Spearman's correlation with the true order, top-1
how often the best rollout comes out first. All designs see the same groups and the same replies, and go through the
project's own topologies and estimators. 1x is ArenaRL's cost, 4(N-1) calls in both orders. `--quick`: N = 8 alone,
and fewer groups.
"""

import argparse
import csv
import importlib
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from simulated_judge import ASSUMPTION, REGIMES, Array, Groups, Regime, draw, listwise, mean_spearman, top_hits

from harness.core.rankings import Match
from harness.core.settings import OrderPolicy, TopologyName
from harness.ranking import Entry, Played, Topology, exact, make_topology, place
from harness.ranking.arena import Arena
from harness.ranking.bt import fit_bt
from harness.ranking.comparisons import Comparisons
from harness.ranking.margins import fit_margins
from harness.ranking.pooled import fit_pooled
from harness.ranking.tiers import tiers
from harness.ranking.wins import win_shares

Scores = Array
FULL, QUICK = 4000, 800
ESTIMATORS = ("tiers", "wins", "margins", "bt", "pooled")
"""`pooled` learns the judge from all groups of a cell; benchmarks/pooled.py has smaller pools."""
PUBLISHED = {
    ("arena afresh", "tiers"): (0.898, 0.674, 0.599),
    ("arena afresh", "margins"): (0.910, 0.697, 0.696),
    ("cyclic 1x", "margins"): (0.936, 0.772, 0.769),
}
"""rho at N = 8 (sharp, noisy, relative) of the evidence that this reproduces."""


@dataclass(frozen=True)
class Design:
    """A topology as it is played: in which orders, for how many calls, and whether a pair is judged again."""

    name: str
    topology: TopologyName
    order: OrderPolicy | None = "both"
    budget: int | None = None
    afresh: bool = False

    def start(self, n: int, rng: random.Random) -> Topology:
        """Return the topology for entrants 0..n-1, the anchor being 0."""
        if self.afresh:
            return Arena(range(n), 0, self.order or "both", reuse=False)
        return make_topology(self.topology, Entry(range(n), 0, self.order, rng, self.budget))


@dataclass(frozen=True)
class Row:
    """One cell of the table."""

    regime: str
    n: int
    design: str
    estimator: str
    calls: float
    rho: float
    error: float
    top: float


def designs(n: int) -> list[Design]:
    """Return what is compared among `n` rollouts."""
    once = 4 * (n - 1)
    budgets = [(f"cyclic {x:g}x", round(x * once)) for x in (0.5, 0.75, 1, 1.5, 2)]
    return [
        Design("arena", "arena"),
        Design("arena afresh", "arena", afresh=True),
        Design("arena one order", "arena", "balanced"),
        Design("anchor", "anchor"),
        Design("single", "single"),
        Design("double", "double"),
        Design("swiss", "swiss"),
        Design("round robin", "round_robin"),
        Design("round robin one order", "round_robin", "balanced"),
        *(Design(name, "cyclic", None, budget) for name, budget in budgets if budget <= n * (n - 1)),
    ]


class Table:
    """A group's replies. A call made again is judged afresh; `made` lists the calls in order."""

    def __init__(self, calls: Array) -> None:
        """Take calls [K, N, N, 2]."""
        self._calls, self._times = calls, dict[tuple[int, int], int]()
        self.made: list[tuple[int, int, float, float]] = []

    def ask(self, first: int, second: int) -> tuple[Fraction, Fraction]:
        """Return the scores of one call."""
        k = self._times.get((first, second), 0)
        self._times[first, second] = k + 1
        a, b = self._calls[k, first, second].tolist()
        self.made.append((first, second, a, b))
        return exact(a), exact(b)


def play(topology: Topology, table: Table) -> None:
    """Play to the end; a match's score is the mean over its orders."""
    while open_now := topology.pairings():
        for pairing in open_now:
            total = {pairing.a: Fraction(), pairing.b: Fraction()}
            for first, second in pairing.orders:
                for entrant, score in zip((first, second), table.ask(first, second), strict=True):
                    total[entrant] += score
            topology.record(pairing, *(total[e] / len(pairing.orders) for e in (pairing.a, pairing.b)))


def estimates(topology: Topology, table: Table, n: int) -> dict[str, list[float]]:
    """Return what each estimator makes of one tournament: a number an entrant, the higher the better."""
    scores = {"tiers": _ranks(tiers(topology.standings()), n), "wins": _ranks(_wins(topology, n), n)}
    if table.made:
        calls = Comparisons.of(n, *zip(*table.made, strict=True))
        scores |= {name: fit(calls).estimates.tolist() for name, fit in (("margins", fit_margins), ("bt", fit_bt))}
    return scores


def _wins(topology: Topology, n: int) -> dict[int, Fraction]:
    def match(played: Played) -> Match:
        a, b, ahead = played.pairing.a, played.pairing.b, played.score_a - played.score_b
        return Match.model_construct(a=a, b=b, winner=a if ahead > 0 else b if ahead < 0 else None)

    return win_shares(range(n), [match(p) for p in topology.matches])


def _ranks(keys: Any, n: int) -> list[float]:
    places = place(keys)
    return [-places[e].rank for e in range(n)]


def cell(design: Design, groups: Groups, regime: str, seed: int) -> list[Row]:
    """Play every group by one design; a row an estimator."""
    size, n = groups.quality.shape
    by_estimator: dict[str, list[list[float]]] = {e: [] for e in ESTIMATORS}
    made: list[Comparisons] = []
    calls = 0
    for g in range(size):
        topology, table = design.start(n, random.Random(f"{seed}/{g}")), Table(groups.calls[g])
        play(topology, table)
        calls += len(table.made)
        made.append(Comparisons.of(n, *(zip(*table.made, strict=True) if table.made else ((), (), (), ()))))
        for estimator, scores in estimates(topology, table, n).items():
            by_estimator[estimator].append(scores)
    by_estimator["pooled"] = [fit.estimates.tolist() for fit in fit_pooled(made)]
    return [
        _row(regime, n, design.name, e, calls / size, np.array(s), groups.quality) for e, s in by_estimator.items() if s
    ]


def ruler_rows(regime: Regime, groups: Groups, rng: np.random.Generator) -> Iterator[Row]:
    """Judge the groups by listwise calls, one and as many as ArenaRL reads transcripts for."""
    n = groups.quality.shape[1]
    for calls in (1, 8 * (n - 1) // n):
        name = f"RULER, {calls} call{'s' if calls > 1 else ''} of {n}"
        yield _row(regime.name, n, name, "mean", calls, listwise(regime, groups.quality, rng, calls), groups.quality)


def _row(regime: str, n: int, design: str, estimator: str, calls: float, scores: Scores, quality: Array) -> Row:
    return Row(regime, n, design, estimator, calls, *mean_spearman(scores, quality), top_hits(scores, quality))


def job(task: tuple[int, int, int, int]) -> list[Row]:
    """Do one design of one regime and size; every job draws the same groups from the seed."""
    which, n, size, seed = task
    regime, design = REGIMES[which % len(REGIMES)], which // len(REGIMES)
    rng = np.random.default_rng([seed, n, which % len(REGIMES)])
    groups = draw(regime, size, n, rng)
    if design == len(designs(n)):
        return list(ruler_rows(regime, groups, rng))
    return cell(designs(n)[design], groups, regime.name, seed)


def simulate(sizes: Sequence[int], groups: int, seed: int, show: Callable[[str], object]) -> list[Row]:
    """Run every cell, on all cores."""
    tasks = [(w, n, groups, seed) for n in sizes for w in range(len(REGIMES) * (len(designs(n)) + 1))]
    rows: list[Row] = []
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for done, cell_rows in enumerate(pool.imap_unordered(job, tasks), 1):
            rows += cell_rows
            show(f"\r{done}/{len(tasks)} cells")
    return rows


def print_table(rows: Sequence[Row], n: int) -> None:
    """Print the cells of one size: a line a design and estimator, a column a regime."""
    names = [d.name for d in designs(n)] + sorted({r.design for r in rows if r.n == n and r.design.startswith("RULER")})
    at = {(r.design, r.estimator, r.regime): r for r in rows if r.n == n}
    heads = "".join(f"{r.name:>22}" for r in REGIMES)
    print(f"\nN = {n}, 1x = {4 * (n - 1)} calls; rho (+- standard error), top-1")
    print(f"{'design':24}{'estimator':10}{'calls':>7}{heads}")
    for design in names:
        for estimator in (*ESTIMATORS, "mean"):
            cells = [at.get((design, estimator, r.name)) for r in REGIMES]
            if filled := [c for c in cells if c]:
                figures = "".join(f"  {c.rho:6.3f} +-{c.error:.3f} {c.top:5.3f}" for c in filled)
                print(f"{design:24}{estimator:10}{np.mean([c.calls for c in filled]):7.1f}{figures}")


def print_check(rows: Sequence[Row]) -> None:
    """Print the published figures beside these; agreement is 0.01 and two standard errors."""
    at = {(r.design, r.estimator, r.regime): r for r in rows if r.n == 8}
    print("\nagainst the published figures (N = 8):")
    for (design, estimator), figures in PUBLISHED.items():
        for regime, figure in zip(REGIMES, figures, strict=True):
            if row := at.get((design, estimator, regime.name)):
                fits = abs(row.rho - figure) <= 0.01 + 2 * row.error
                published = f"published {figure:.3f}  here {row.rho:.3f}  {'agrees' if fits else 'DIFFERS'}"
                print(f"  {design:14}{estimator:9}{regime.name:10} {published}")


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw rho against calls, a panel a regime and size. Raises SystemExit without matplotlib."""
    try:
        plt: Any = importlib.import_module("matplotlib.pyplot")
    except ModuleNotFoundError:
        raise SystemExit("--plot needs matplotlib: pip install -e '.[plots]'") from None
    sizes = sorted({r.n for r in rows})
    figure, axes = plt.subplots(len(sizes), len(REGIMES), figsize=(15, 4.5 * len(sizes)), squeeze=False)
    for line, n in zip(axes, sizes, strict=True):
        for axis, regime in zip(line, REGIMES, strict=True):
            for estimator, marker in (*zip(ESTIMATORS, "ovs^D", strict=True), ("mean", "*")):
                shown = [r for r in rows if (r.n, r.regime, r.estimator) == (n, regime.name, estimator)]
                axis.plot([r.calls for r in shown], [r.rho for r in shown], marker, label=estimator, alpha=0.7)
                for r in shown:
                    if estimator in {"margins", "mean"}:
                        axis.annotate(r.design, (r.calls, r.rho), fontsize=6)
            axis.set(title=f"{regime.name}, N = {n}", xlabel="judge calls", ylabel="rho with the truth")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"plot: {path}")


def main() -> None:
    """Simulate, print, and draw if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"N = 8 and {QUICK:,} groups a cell")
    parser.add_argument("--groups", type=int, help=f"groups a cell ({FULL:,})")
    parser.add_argument("--sizes", default="4,8,16,32", help="numbers of rollouts a group")
    parser.add_argument("--rng", type=int, default=0, help="seed of all chance")
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    parser.add_argument("--csv", type=Path, metavar="FILE.csv")
    options = parser.parse_args()
    sizes = [8] if options.quick else [int(s) for s in options.sizes.split(",")]
    groups, began = options.groups or (QUICK if options.quick else FULL), time.monotonic()
    shown = partial(print, end="", file=sys.stderr, flush=True) if sys.stderr.isatty() else str
    rows = simulate(sizes, groups, options.rng, shown)
    print(f"{groups:,} groups a cell, rng {options.rng}, {time.monotonic() - began:.0f} s\n{ASSUMPTION}")
    for n in sizes:
        print_table(rows, n)
    print_check(rows)
    if options.csv:
        with options.csv.open("w", newline="") as file:
            out = csv.writer(file)
            out.writerows([Row.__annotations__, *([*vars(r).values()] for r in rows)])
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
