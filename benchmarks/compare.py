"""What a comparison's figures are worth: how often its intervals hold the truth, and how often it finds a difference.

    python benchmarks/compare.py [COMPARISONS] [--clusters] [--json FILE]

--clusters prints, and --json writes, the table of clusters that differ in size alone.

The simulated judge, two samples a side and query, two pairs that share no rollout, both orders. Queries that are alike
share half of the variance of a side's quality. The functions behind `harness.compare_scores` work the figures out.
"""

import argparse
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
from figures import add_json_option, renew
from simulated_judge import REGIMES, Array, Regime, cross_match, draw

from harness import SideResult
from harness.comparison.gate import pass_forecast
from harness.comparison.intervals import interval_of_share, t_test_power
from harness.comparison.outcomes import Clusters, mean_by_query
from harness.comparison.side_results import side_result
from harness.core.comparisons import ComparedQuery, ComparedRollout

SHARP, NOISY = REGIMES[:2]
ALIKE = 0.5
"""Share of the variance of a side's quality that alike queries share."""
SAMPLES = 2
MARGIN = 0.05
COLUMNS = ("clusters", "compare holds", "slice holds", "passes at margin", "equal passes", "forecast")
SHAPES = {
    "one of 30, 20 of 1": (30, *[1] * 20),
    "30, four of 5, ten of 1": (30, *[5] * 4, *[1] * 10),
    "24 / rank": tuple(round(24 / rank) for rank in range(1, 25)),
    "three of 30, 30 of 1": (*[30] * 3, *[1] * 30),
    "20 of 5": (5,) * 20,
}


@dataclass(frozen=True)
class Setting:
    """What is compared: clusters of alike queries, and how far B's quality stands above A's, in its deviations."""

    regime: Regime
    sizes: tuple[int, ...]
    lead: float = 0.0

    @property
    def clusters(self) -> dict[str, str]:
        """The cluster of each query."""
        places = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return {f"q{i}": f"c{place}" for i, place in enumerate(places)}


def qualities(setting: Setting, rng: np.random.Generator) -> Array:
    """Return the quality [queries, 2 x SAMPLES] of A's rollouts and then B's."""
    alike = ALIKE if max(setting.sizes) > 1 else 0.0
    shared = np.repeat(rng.standard_normal((len(setting.sizes), 2)), setting.sizes, axis=0) * np.sqrt(alike)
    own = rng.standard_normal((sum(setting.sizes), 2 * SAMPLES)) * np.sqrt(1 - alike)
    return own + np.repeat(shared, SAMPLES, axis=1) + np.repeat([0.0, setting.lead], SAMPLES)


def judged(setting: Setting, rng: np.random.Generator) -> Array:
    """Return what both orders give each pair: [queries, pairs, order, side], in exact tenths; A stands first first."""
    quality = qualities(setting, rng)
    calls = draw(setting.regime, len(quality), 2 * SAMPLES, rng, times=1, quality=quality).calls[:, 0]
    pairs = [(i, SAMPLES + i) for i in range(SAMPLES)]
    return np.stack([np.stack([calls[:, a, b], calls[:, b, a, ::-1]], axis=1) for a, b in pairs], axis=1)


def comparisons(setting: Setting, count: int, seed: int) -> Iterator[Clusters]:
    """Yield what comparisons of A and B rest on."""
    for means in drawn_means(setting, count, seed):
        yield Clusters.of(means, setting.clusters)


def drawn_means(setting: Setting, count: int, seed: int) -> Iterator[dict[str, float]]:
    """Yield each query's win rate in comparisons of A and B."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        margins = np.rint(10 * (orders := judged(setting, rng))[..., 1].sum(axis=2) - 10 * orders[..., 0].sum(axis=2))
        outcomes = {f"q{i}": list((np.sign(pairs) + 1) / 2) for i, pairs in enumerate(margins)}
        yield mean_by_query(outcomes)


def coverage(setting: Setting, count: int, seed: int = 0) -> float:
    """Return how often the interval of A against A holds one half."""
    intervals = [interval_of_share(clusters, seed=i) for i, clusters in enumerate(comparisons(setting, count, seed))]
    return float(np.mean([interval.low <= 0.5 <= interval.high for interval in intervals]))


@dataclass(frozen=True)
class Uneven:
    """Shares of comparisons whose clusters differ in size."""

    compare: float
    """The interval of A against A holds one half."""
    slice: float
    """So does that of every second query."""
    at_margin: float
    """A gate lets an agent pass that is worse by just the margin."""
    equal: float
    """It lets an equal agent pass."""
    forecast: float
    """How often it does so by the forecast."""


def uneven(regime: Regime, sizes: tuple[int, ...], count: int, *, calibration: int = 100_000) -> Uneven:
    """Return what comparisons and gates with a margin of 0.05 say of clusters of these sizes."""
    equals, worse = Setting(regime, sizes), Setting(regime, sizes, -lead_for(regime, 0.5 + MARGIN, calibration))
    drawn = list(drawn_means(equals, count, seed=0))
    halves = [dict(list(means.items())[::2]) for means in drawn]
    whole, half, by_margin = (
        [interval_of_share(Clusters.of(means, equals.clusters), seed=i) for i, means in enumerate(of)]
        for of in (drawn, halves, drawn_means(worse, count, seed=1))
    )
    of_pairs = judged(Setting(regime, (1,) * calibration), np.random.default_rng(2))
    decided = (np.rint(10 * (of_pairs[..., 1] - of_pairs[..., 0]).sum(axis=2)) != 0).mean()
    spread = float(np.sqrt(decided / 4 / SAMPLES))  # as a gate takes it from the baseline's own pairs
    return Uneven(
        compare=_share(interval.low <= 0.5 <= interval.high for interval in whole),
        slice=_share(interval.low <= 0.5 <= interval.high for interval in half),
        at_margin=_share(interval.low > 0.5 - MARGIN for interval in by_margin),
        equal=_share(interval.low > 0.5 - MARGIN for interval in whole),
        forecast=pass_forecast(sum(sizes), MARGIN, spread, sizes=(sizes,)).probability,
    )


def _share(told: Iterable[bool]) -> float:
    return float(np.mean([*told]))


def lead_for(regime: Regime, win_rate: float, queries: int) -> float:
    """Return how far B must stand above A to win that often, ties one half: by bisection on so many queries."""
    low, high = 0.0, 3.0
    for _ in range(14):
        middle = (low + high) / 2
        orders = judged(Setting(regime, (1,) * queries, lead=middle), np.random.default_rng(1))
        margins = np.rint(10 * (orders[..., 1] - orders[..., 0]).sum(axis=2))
        low, high = (middle, high) if float((np.sign(margins).mean() + 1) / 2) < win_rate else (low, middle)
    return (low + high) / 2


def found(
    regime: Regime, win_rate: float, queries: int, count: int, *, seed: int = 0, calibration: int = 100_000
) -> tuple[float, float, float]:
    """Return how often B is shown to be better, the power stated for it, and the mean win rate."""
    setting = Setting(regime, (1,) * queries, lead=lead_for(regime, win_rate, calibration))
    drawn = list(comparisons(setting, count, seed))
    spread = float(np.mean([clusters.as_equal[0][1] for clusters in drawn]))
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


def uneven_rows(count: int) -> Iterator[list[str]]:
    """Print and yield the rows of the table of clusters that differ in size."""
    print(COLUMNS)
    for shape, sizes in SHAPES.items():
        row = [shape, *(f"{share:.1%}" for share in asdict(uneven(NOISY, sizes, count)).values())]
        print(row, flush=True)
        yield row


def main() -> None:
    """Print the claims, or the table of clusters."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=1000)
    parser.add_argument("--clusters", action="store_true")
    add_json_option(parser)
    options = parser.parse_args()
    if options.clusters:
        renew(options.json, COLUMNS, [*uneven_rows(options.count)])
    else:
        print_claims(options.count)


def print_claims(count: int) -> None:
    """Print every claim with what was measured."""
    started = time.perf_counter()
    print(f"{count:,} comparisons a line")
    for clusters, alike in ((40, 5), (8, 5), (8, 1), (20, 1), (30, 1), (200, 1)):
        for regime in (SHARP, NOISY):
            queries, held = f"{clusters} clusters of {alike}", coverage(Setting(regime, (alike,) * clusters), count)
            print(f"A against A holds 50 %, {queries:18} {regime.name:6} {held:7.1%}", flush=True)
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
