"""What people's labels beside a judge's verdicts promise: coverage of the intervals, and labels saved.

    python benchmarks/labels.py [--repeats 4000] [--json FILE]

Queries have a quality of their own in common, two pairs each; a label is drawn at random of a pair, rng 0
(`spread`: over the clusters, as `harness label` does). `off`: the
judge prefers B in 20 points more than people; `right`: it is right in 80 %, both outcomes equally frequent, no ties.
`saved`: how many fewer labels than labels alone take for the same width. Exit code 1 where coverage is not .93 to .97
(.93 and more of clusters that differ in size, whose intervals are the wider of two), or less than 30 % are saved.
"""

import argparse
import sys
from dataclasses import dataclass

import numpy as np
from figures import add_json_option, renew

from harness.comparison.outcomes import Numbers
from harness.comparison.rectified import LabelledSums, Rectified, drawing_weights

COVERAGE, SAVED = (0.93, 0.97), 0.30
PAIRS = 2
COLUMNS = ("judge", "clusters", "labels", "coverage", "labels alone", "half width", "saved")


@dataclass(frozen=True)
class Case:
    """A row of the table."""

    judge: str
    shape: str
    sizes: tuple[int, ...]
    labels: int
    right: tuple[float, float]
    """How often the judge says what people say, of pairs that A wins, and that B wins."""
    rate: float = 0.5
    alike: float = 0.0
    """The share of a cluster's pairs that has the cluster's own outcome."""
    uneven: bool = False
    """Labels are drawn up to three times as often of some pairs as of others."""
    spread: bool = False
    """Labels are spread over the clusters, as `harness label` spreads them."""
    saves: bool = False
    """The row must show the saving."""


OFF, RIGHT = (0.5, 0.9), (0.8, 0.8)
ZIPF = tuple(max(1, round(24 / rank)) for rank in range(1, 41))
CASES = (
    Case("off", "200 of 1", (1,) * 200, 20, OFF),
    Case("off", "200 of 1", (1,) * 200, 50, OFF, alike=0.5),
    Case("off", "200 of 1", (1,) * 200, 100, OFF, rate=0.6),
    Case("off", "200 of 1, drawn unevenly", (1,) * 200, 50, OFF, alike=0.5, uneven=True),
    Case("off", "40 of 5", (5,) * 40, 60, OFF, alike=0.3),
    Case("off", "40 of 5, spread", (5,) * 40, 60, OFF, alike=0.3, spread=True),
    Case("off", "Zipf 24/r", ZIPF, 50, OFF, alike=0.3),
    Case("off", "one of 30, 20 of 1", (30, *(1,) * 20), 40, OFF),
    Case("right", "300 of 1", (1,) * 300, 60, RIGHT, saves=True),
    Case("right", "300 of 1", (1,) * 300, 100, RIGHT, saves=True),
)


def simulate(case: Case, rng: np.random.Generator) -> LabelledSums:
    """Return one comparison, and the labels drawn from it."""
    cluster = np.repeat(np.arange(len(case.sizes)), PAIRS * np.array(case.sizes))
    count = len(cluster)
    own = (rng.random(len(case.sizes)) < case.rate)[cluster]
    people = np.where(rng.random(count) < case.alike, own, rng.random(count) < case.rate)
    judge = people ^ (rng.random(count) >= np.array(case.right)[people.astype(int)])
    chances = np.where(rng.random(count) < 0.5, 1.5, 0.5) if case.uneven else np.ones(count)
    numbers = rng.random(count)
    if case.spread:
        of_one = PAIRS * case.sizes[0]
        numbers = (rng.permuted(np.tile(np.arange(of_one), (len(case.sizes), 1)), axis=1).ravel() + numbers) / of_one
    drawn = np.argsort(numbers / chances)[: case.labels]
    weights = np.zeros(count)
    weights[drawn] = drawing_weights([*(1 / chances[drawn])], count)

    def sums(figures: Numbers) -> Numbers:
        return np.asarray(np.bincount(cluster, figures / PAIRS, len(case.sizes)), np.float64)

    return LabelledSums(
        sizes=np.array(case.sizes, np.float64),
        forfeited=np.zeros(len(case.sizes)),
        judged=sums(judge.astype(float)),
        weights=sums(np.ones(count)),
        drawn=sums(weights),
        said=sums(weights * people),
        foretold=sums(weights * judge),
        agreed=sums(weights * (judge == people)),
        labels=case.labels,
        pairs=count,
    )


@dataclass(frozen=True)
class Outcome:
    """What the repetitions of a case showed."""

    covered: float
    covered_alone: float
    half: float
    saved: float

    def holds(self, case: Case) -> bool:
        """Whether the bounds of the case hold."""
        low, high = COVERAGE
        most = high if len({*case.sizes}) == 1 else 1.0
        return low <= self.covered <= most and (not case.saves or self.saved >= SAVED)


def play(case: Case, count: int) -> Outcome:
    """Return what so many comparisons of a case show."""
    rng = np.random.default_rng(0)
    held, halves = np.zeros(2), np.zeros((2, count))
    for number in range(count):
        sums = simulate(case, rng)
        for at, tuned in enumerate((True, False)):
            interval = Rectified(sums, power_tuned=tuned).interval()
            held[at] += interval.low <= case.rate <= interval.high
            halves[at, number] = (interval.high - interval.low) / 2
    ours, alone = (halves**2).mean(1)
    shares = float(held[0] / count), float(held[1] / count)
    return Outcome(*shares, float(halves[0].mean()), 1 - float(ours / alone))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=4000)
    add_json_option(parser)
    options = parser.parse_args()
    rows: list[list[str]] = []
    failed = False
    for case in CASES:
        seen = play(case, options.repeats)
        shares = (f"{share:.3f}" for share in (seen.covered, seen.covered_alone, seen.half, seen.saved))
        rows.append([case.judge, case.shape, str(case.labels), *shares])
        print("  ".join(rows[-1]), "" if seen.holds(case) else "  fails", flush=True)
        failed |= not seen.holds(case)
    renew(options.json, COLUMNS, rows)
    sys.exit(failed)


if __name__ == "__main__":
    main()
