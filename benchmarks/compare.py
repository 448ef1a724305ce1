"""What a comparison's figures are worth: how often its intervals hold the truth, and how often it finds a difference.

    python benchmarks/compare.py [COMPARISONS]

The simulated judge, two samples a side and query, two pairs that share no rollout, both orders. Queries that are alike
share half of the variance of a side's quality. The functions behind `harness.compare_scores` work the figures out.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from simulated_judge import REGIMES, Array, Regime, cross_match, draw

from harness import SideResult
from harness.comparison.intervals import interval_of_share, t_test_power
from harness.comparison.outcomes import Clusters, mean_by_query
from harness.comparison.side_results import side_result
from harness.core.comparisons import ComparedQuery, ComparedRollout

SHARP, NOISY = REGIMES[:2]
ALIKE = 0.5
"""Share of the variance of a side's quality that alike queries share."""
SAMPLES = 2


@dataclass(frozen=True)
class Setting:
    """What is compared: clusters of alike queries, and how far B's quality stands above A's, in its deviations."""

    regime: Regime
    clusters: int
    alike: int = 1
    lead: float = 0.0


def qualities(setting: Setting, rng: np.random.Generator) -> Array:
    """Return the quality [queries, 2 x SAMPLES] of A's rollouts and then B's."""
    shared = np.repeat(rng.standard_normal((setting.clusters, 2)), setting.alike, axis=0) * np.sqrt(ALIKE)
    if setting.alike == 1:
        shared[:] = 0.0
    shape = (setting.clusters * setting.alike, 2 * SAMPLES)
    own = rng.standard_normal(shape) * (np.sqrt(1 - ALIKE) if setting.alike > 1 else 1.0)
    return own + np.repeat(shared, SAMPLES, axis=1) + np.repeat([0.0, setting.lead], SAMPLES)


def judged(setting: Setting, rng: np.random.Generator) -> Array:
    """Return what both orders give each pair: [queries, pairs, order, side], in exact tenths; A stands first first."""
    quality = qualities(setting, rng)
    calls = draw(setting.regime, len(quality), 2 * SAMPLES, rng, times=1, quality=quality).calls[:, 0]
    pairs = [(i, SAMPLES + i) for i in range(SAMPLES)]
    return np.stack([np.stack([calls[:, a, b], calls[:, b, a, ::-1]], axis=1) for a, b in pairs], axis=1)


def comparisons(setting: Setting, count: int, seed: int) -> Iterator[Clusters]:
    """Yield what comparisons of A and B rest on."""
    rng = np.random.default_rng(seed)
    clusters = {f"q{i}": f"c{i // setting.alike}" for i in range(setting.clusters * setting.alike)}
    for _ in range(count):
        margins = np.rint(10 * (orders := judged(setting, rng))[..., 1].sum(axis=2) - 10 * orders[..., 0].sum(axis=2))
        outcomes = {f"q{i}": list((np.sign(pairs) + 1) / 2) for i, pairs in enumerate(margins)}
        yield Clusters.of(mean_by_query(outcomes), clusters)


def coverage(setting: Setting, count: int, seed: int = 0) -> float:
    """Return how often the interval of A against A holds one half."""
    intervals = [interval_of_share(clusters, seed=i) for i, clusters in enumerate(comparisons(setting, count, seed))]
    return float(np.mean([interval.low <= 0.5 <= interval.high for interval in intervals]))


def lead_for(regime: Regime, win_rate: float, queries: int) -> float:
    """Return how far B must stand above A to win that often, ties one half: by bisection on so many queries."""
    low, high = 0.0, 3.0
    for _ in range(14):
        middle = (low + high) / 2
        orders = judged(Setting(regime, queries, lead=middle), np.random.default_rng(1))
        margins = np.rint(10 * (orders[..., 1] - orders[..., 0]).sum(axis=2))
        low, high = (middle, high) if float((np.sign(margins).mean() + 1) / 2) < win_rate else (low, middle)
    return (low + high) / 2


def found(
    regime: Regime, win_rate: float, queries: int, count: int, *, seed: int = 0, calibration: int = 100_000
) -> tuple[float, float, float]:
    """Return how often B is shown to be better, the power stated for it, and the mean win rate."""
    setting = Setting(regime, queries, lead=lead_for(regime, win_rate, calibration))
    drawn = list(comparisons(setting, count, seed))
    spread = float(np.mean([clusters.spread for clusters in drawn if clusters.spread is not None]))
    stated = t_test_power((win_rate - 0.5) / spread, queries)
    found_better = [interval_of_share(clusters, seed=i).low > 0.5 for i, clusters in enumerate(drawn)]
    return float(np.mean(found_better)), stated, float(np.mean([clusters.mean for clusters in drawn]))


def compared_queries(orders: Array, lengths: Array) -> list[ComparedQuery]:
    """Return the records of judged pairs [queries, pairs, order, side] of answers of `lengths` [queries, pairs, 2]."""
    return [
        ComparedQuery(
            query=f"{number:06}",
            ids=("q", "q"),
            text="?",
            rollouts=tuple(
                tuple(
                    ComparedRollout(index=i, role="sample", status="ok", answer_length=int(pair[side]))
                    for i, pair in enumerate(of_query)
                )
                for side in range(2)
            ),
            matches=tuple(cross_match(place, pair) for place, pair in enumerate(orders[number])),
        )
        for number, of_query in enumerate(lengths)
    ]


def length_lover(longer: float, count: int, queries: int = 200, seed: int = 0) -> tuple[float, float, float]:
    """Compare equal agents by a judge that loves length, B's answers `longer` in the mean of the logarithm.

    Return the mean win rate, the mean win rate at equal length, and how often its interval holds one half.
    """
    rng = np.random.default_rng(seed)
    raw: list[float] = []
    controlled: list[float] = []
    holds: list[bool] = []
    for _ in range(count):
        lengths = np.rint(
            np.exp(rng.normal(6.5, 0.5, (queries, 1, 1)) + rng.normal([0.0, longer], 0.3, (queries, SAMPLES, 2)))
        )
        lean = 2.0 * np.log(lengths).swapaxes(1, 2).reshape(queries, 2 * SAMPLES)
        quality = rng.standard_normal((queries, 2 * SAMPLES)) + lean - lean.mean(axis=1, keepdims=True)
        calls = draw(NOISY, queries, 2 * SAMPLES, rng, times=1, quality=quality).calls[:, 0]
        pairs = [(i, SAMPLES + i) for i in range(SAMPLES)]
        orders = np.stack([np.stack([calls[:, a, b], calls[:, b, a, ::-1]], axis=1) for a, b in pairs], axis=1)
        result = side_result(compared_queries(orders, lengths), (0, 1), ("A", "B"))
        raw.append(result.win_rate)
        if result.length_controlled:
            controlled.append(result.length_controlled.value)
            holds.append(result.length_controlled.low <= 0.5 <= result.length_controlled.high)
    return float(np.mean(raw)), float(np.mean(controlled)), float(np.mean(holds))


def first_side_only(queries: int = 200, seed: int = 0) -> SideResult:
    """Compare by a judge that always names the side shown first, by 1 to 5 points."""
    rng = np.random.default_rng(seed)
    orders = np.array([[8.0, 5.0], [5.0, 8.0]]) + np.rint(rng.uniform(-1.5, 1.5, (queries, SAMPLES, 2, 2)))
    return side_result(compared_queries(orders, np.full((queries, SAMPLES, 2), 500.0)), (0, 1), ("A", "B"))


def main() -> None:
    """Print every claim with what was measured."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    started = time.perf_counter()
    print(f"{count:,} comparisons a line")
    for setting in (
        Setting(regime, clusters, alike)
        for clusters, alike in ((40, 5), (8, 5), (8, 1), (20, 1), (30, 1), (200, 1))
        for regime in (SHARP, NOISY)
    ):
        queries = f"{setting.clusters} clusters of {setting.alike}"
        print(
            f"A against A holds 50 %, {queries:18} {setting.regime.name:6} {coverage(setting, count):7.1%}", flush=True
        )
    for regime in (SHARP, NOISY):
        share, stated, rate = found(regime, 0.58, 200, count)
        print(f"B wins {rate:.1%}, 200 queries {regime.name:6} shown {share:.1%}, stated {stated:.1%}", flush=True)
    for longer in (0.1, 0.2, 0.4):
        raw, controlled, holds = length_lover(longer, max(1, count // 10))
        print(
            f"judge loves length, B longer by {longer}: {raw:.1%}, at equal length {controlled:.1%}, held {holds:.0%}"
        )
    biased = [first_side_only(seed=seed) for seed in range(max(1, count // 10))]
    flips = sum(result.flips for result in biased) / sum(result.both_orders for result in biased)
    rate = float(np.mean([result.win_rate for result in biased]))
    shown = sum(result.shown is not None for result in biased)
    print(f"judge names the first side: {rate:.1%}, shown {shown}, flips {flips:.0%}")
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
