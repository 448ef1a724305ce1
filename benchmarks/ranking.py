"""Which design ranks best for its judge calls: every topology, estimator, budget and judge, simulated.

    python benchmarks/ranking.py [--quick] [--groups G] [--sizes 4,8,16,32] [--rng SEED] [--plot FILE.png] [--csv FILE]
        [--json FILE]

Every number is a mean over G groups with its standard error; rho is Spearman's correlation with the true order, top-1
how often the best rollout comes out first. All designs see the same groups and the same replies, and go through the
project's own topologies and estimators. 1x is ArenaRL's cost, 4(N-1) calls in both orders. `pooled 8` learns the judge
from pools of eight groups, `pooled all` from all of a cell. A second table has queries that differ in level, spread and
noise. `--quick`: N = 8 alone, fewer groups, and pools of all groups alone.
Below the tables: the published figures, and what must hold of `pooled`. Exits 1 where 1,600 groups or more show that
it does not: a correlation by two standard errors, a loss on the same groups by what it is.
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
from designs import Design, Table, designs, play
from figures import add_json_option, renew
from simulated_judge import (
    ASSUMPTION,
    DIFFERING,
    REGIMES,
    Array,
    Groups,
    Regime,
    draw,
    draw_queries,
    listwise,
    mean_spearman,
    top_hits,
)

from harness.core.rankings import Match
from harness.ranking.comparisons import Comparisons
from harness.ranking.estimators import fit_bt, tiers, win_shares
from harness.ranking.margins import fit_margins
from harness.ranking.pooled import fit_pooled
from harness.ranking.rewards import place
from harness.ranking.topology import Played, Topology

Scores = Array
FULL, QUICK = 4000, 800
ALL = "all"
POOLS = ("1", "8", "32", ALL)
ESTIMATORS = ("tiers", "wins", "margins", "bt", *(f"pooled {pool}" for pool in POOLS))
JUDGES = (*(r.name for r in REGIMES), *(r.name + DIFFERING for r in REGIMES))
PUBLISHED = {
    ("arena afresh", "tiers"): (0.898, 0.674, 0.599),
    ("arena afresh", "margins"): (0.910, 0.697, 0.696),
    ("cyclic 1x", "margins"): (0.936, 0.772, 0.769),
}
"""rho at N = 8 (sharp, noisy, relative) of the evidence that this reproduces."""
MUST_HOLD = {
    (8, "cyclic 0.5x", ""): (0.895, 0.675, 0.635),
    (8, "cyclic 1x", ""): (0.935, 0.785, 0.760),
    (16, "cyclic 0.5x", ""): (0.92, 0.71, 0.67),
    (16, "cyclic 1x", ""): (0.95, 0.81, 0.79),
    (8, "cyclic 0.5x", DIFFERING): (0.87, 0.65, 0.62),
}
"""rho of `pooled all` at least (sharp, noisy, relative)."""
LOSE_LITTLE_FROM = 8
"""Eight groups of fewer rollouts hold too few calls to teach a judge as well as all: at N = 4 up to .025 is lost."""
LOST_BY_EIGHT, LOST_TO_MARGINS, HELD_FROM = 0.01, 0.015, 1600
"""How much less rho may be in pools of eight than in one of all, and than that of `margins`; from how many groups on
that is held against it."""


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


@dataclass(frozen=True)
class Task:
    """One design (beyond the last: RULER) for one judge and size; each task draws the same groups from the seed."""

    judge: str
    design: int
    n: int
    groups: int
    seed: int
    pools: tuple[str, ...]


def cell(design: Design, groups: Groups, task: Task) -> list[Row]:
    """Play every group by one design; a row an estimator."""
    size, n = groups.quality.shape
    by_estimator: dict[str, list[list[float]]] = {e: [] for e in ESTIMATORS}
    made: list[Comparisons] = []
    calls = 0
    for g in range(size):
        topology, table = design.start(n, random.Random(f"{task.seed}/{g}")), Table(groups.calls[g])
        play(topology, table)
        calls += len(table.made)
        made.append(Comparisons.of(n, *(zip(*table.made, strict=True) if table.made else ((), (), (), ()))))
        for estimator, scores in estimates(topology, table, n).items():
            by_estimator[estimator].append(scores)
    for pool in task.pools:
        by_estimator[f"pooled {pool}"] = _pooled(made, size if pool == ALL else int(pool))
    return [
        _row(task.judge, n, design.name, e, calls / size, np.array(s), groups.quality)
        for e, s in by_estimator.items()
        if s
    ]


def _pooled(made: Sequence[Comparisons], pool: int) -> list[list[float]]:
    parts = (made[at : at + pool] for at in range(0, len(made), pool))
    return [fit.estimates.tolist() for part in parts for fit in fit_pooled(part)]


def ruler_rows(judge: str, regime: Regime, groups: Groups, rng: np.random.Generator) -> Iterator[Row]:
    """Judge the groups by listwise calls, one and as many as ArenaRL reads transcripts for."""
    n = groups.quality.shape[1]
    for calls in (1, 8 * (n - 1) // n):
        name = f"RULER, {calls} call{'s' if calls > 1 else ''} of {n}"
        yield _row(judge, n, name, "mean", calls, listwise(regime, groups.quality, rng, calls), groups.quality)


def _row(regime: str, n: int, design: str, estimator: str, calls: float, scores: Scores, quality: Array) -> Row:
    return Row(regime, n, design, estimator, calls, *mean_spearman(scores, quality), top_hits(scores, quality))


def job(task: Task) -> list[Row]:
    """Draw the groups of a task, and play its design."""
    at = JUDGES.index(task.judge)
    regime, rng = REGIMES[at % len(REGIMES)], np.random.default_rng([task.seed, task.n, at % len(REGIMES)])
    queries = draw_queries(task.groups, rng) if task.judge.endswith(DIFFERING) else None
    groups = draw(regime, task.groups, task.n, rng, queries=queries)
    if task.design < len(designs(task.n)):
        return cell(designs(task.n)[task.design], groups, task)
    return list(ruler_rows(task.judge, regime, groups, rng)) if queries is None else []


def simulate(tasks: Sequence[Task], processes: int, show: Callable[[str], object]) -> list[Row]:
    """Run every cell, in so many processes."""
    rows: list[Row] = []
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for done, cell_rows in enumerate(pool.imap_unordered(job, tasks), 1):
            rows += cell_rows
            show(f"\r{done}/{len(tasks)} cells")
    return rows


def print_table(rows: Sequence[Row], n: int, judges: Sequence[str]) -> list[list[str]]:
    """Print the cells of one size: a line a design and estimator, a column a judge. Return its cells."""
    names = [d.name for d in designs(n)] + sorted({r.design for r in rows if r.n == n and r.design.startswith("RULER")})
    at = {(r.design, r.estimator, r.regime): r for r in rows if r.n == n}
    heads = "".join(f"{judge:>22}" for judge in judges)
    print(f"\nN = {n}, 1x = {4 * (n - 1)} calls; rho (+- standard error), top-1")
    print(f"{'design':24}{'estimator':11}{'calls':>7}{heads}")
    lines: list[list[str]] = []
    for design in names:
        for estimator in (*ESTIMATORS, "mean"):
            cells = [at.get((design, estimator, judge)) for judge in judges]
            if filled := [c for c in cells if c]:
                figures = "".join(f"  {c.rho:6.3f} +-{c.error:.3f} {c.top:5.3f}" for c in filled)
                calls = f"{np.mean([c.calls for c in filled]):7.1f}"
                print(f"{design:24}{estimator:11}{calls}{figures}")
                short = (f"{c.rho:.3f} {c.top:.3f}".replace("0.", ".") if c else "-" for c in cells)
                lines.append([str(n), design, estimator, calls, *short])
    return lines


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


def print_held(rows: Sequence[Row]) -> bool:
    """Print what must hold of `pooled` beside what is, and return whether it does."""
    at = {(r.n, r.design, r.regime, r.estimator): r for r in rows}
    print("\nmust hold of pooled:")
    held = list[bool]()
    for (n, design, differing), least in MUST_HOLD.items():
        for regime, bound in zip(REGIMES, least, strict=True):
            if row := at.get((n, design, regime.name + differing, f"pooled {ALL}")):
                what = f"N = {n}, {design}, {row.regime}: at least {bound:.3f}"
                held.append(_says(what, row.rho, row.rho >= bound, row.rho >= bound - 2 * row.error))
    pooled = [r for r in rows if r.estimator.startswith("pooled")]
    eights = [r for r in pooled if r.estimator == "pooled 8" and r.n >= LOSE_LITTLE_FROM]
    for some, other, bound in ((eights, f"pooled {ALL}", LOST_BY_EIGHT), (pooled, "margins", LOST_TO_MARGINS)):
        lost = [(beside.rho - r.rho, r) for r in some if (beside := at.get((r.n, r.design, r.regime, other)))]
        if lost:
            most, row = max(lost, key=lambda pair: pair[0])
            what = f"{len(lost)} cells, at most {bound:.3f} less than {other}; most: N = {row.n}, {row.design}, "
            held.append(_says(f"{what}{row.regime}, {row.estimator}", most, most <= bound, most <= bound))
    return all(held)


def _says(what: str, figure: float, holds: bool, by_chance: bool) -> bool:
    print(f"  {what}: {figure:.3f} {'holds' if holds else 'within two standard errors' if by_chance else 'FAILS'}")
    return by_chance


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
            for estimator, marker in (*zip(ESTIMATORS, "ovs^dhpD", strict=True), ("mean", "*")):
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


def _chosen(n: int, names: str | None) -> list[int]:
    """Return the numbers of the designs that are asked for; by default all, and RULER."""
    if not names:
        return list(range(len(designs(n)) + 1))
    return [at for at, design in enumerate(designs(n)) if design.name in names.split(",")]


def main() -> None:
    """Simulate, print, and draw if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"N = 8 and {QUICK:,} groups a cell")
    parser.add_argument("--groups", type=int, help=f"groups a cell ({FULL:,})")
    parser.add_argument("--sizes", default="4,8,16,32", help="numbers of rollouts a group")
    parser.add_argument("--designs", help="names of designs, with commas between them (all)")
    parser.add_argument("--pools", help=f"sizes of the pools of pooled ({','.join(POOLS)})")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rng", type=int, default=0, help="seed of all chance")
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    parser.add_argument("--csv", type=Path, metavar="FILE.csv")
    add_json_option(parser)
    options = parser.parse_args()
    sizes = [8] if options.quick else [int(s) for s in options.sizes.split(",")]
    groups, began = options.groups or (QUICK if options.quick else FULL), time.monotonic()
    shown = partial(print, end="", file=sys.stderr, flush=True) if sys.stderr.isatty() else str
    pools = tuple(options.pools.split(",")) if options.pools else (ALL,) if options.quick else POOLS
    tasks = [
        Task(judge, at, n, groups, options.rng, pools)
        for n in sizes
        for at in _chosen(n, options.designs)
        for judge in JUDGES
    ]
    rows = simulate(tasks, options.processes, shown)
    print(f"{groups:,} groups a cell, rng {options.rng}, {time.monotonic() - began:.0f} s\n{ASSUMPTION}")
    table: list[list[str]] = []
    for n in sizes:
        alike = print_table(rows, n, JUDGES[: len(REGIMES)])
        differing = {tuple(line[:3]): line[4:] for line in print_table(rows, n, JUDGES[len(REGIMES) :])}
        table += [line + differing.get(tuple(line[:3]), ["-"] * len(REGIMES)) for line in alike]
    renew(options.json, ("N", "design", "estimator", "calls", *JUDGES), table)
    print_check(rows)
    held = print_held(rows)
    if options.csv:
        with options.csv.open("w", newline="") as file:
            out = csv.writer(file)
            out.writerows([Row.__annotations__, *([*vars(r).values()] for r in rows)])
    if options.plot:
        plot(rows, options.plot)
    if not held and groups >= HELD_FROM:
        sys.exit("what must hold of pooled does not")


if __name__ == "__main__":
    main()
