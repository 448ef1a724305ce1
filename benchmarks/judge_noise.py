"""How often `harness gate` refuses a judge as noise after judging, by what the judge is.

    python benchmarks/judge_noise.py [--repeats 4000] [--json FILE]

Judges are those of simulated_judge.py; two cross pairs a query, both orders, rng 0. `flips`: refused by the rule that
the share of flips must surely lie below one half, by which the gate went before.
"""

import argparse
from dataclasses import replace

import numpy as np
from figures import add_json_option, renew
from simulated_gate import NOISY, SHARP, simulated_calls
from simulated_judge import Array, Regime

from harness.comparison.gate import noise
from harness.ranking.judge_stats.agreement import Share
from harness.ranking.judge_stats.orders import OrderSums

PAIRS = 2
LEAN = replace(SHARP, name="sharp, first side +2", b=2.0)
CASES = ((SHARP, 0.0), (NOISY, 0.0), (NOISY, 1.0), (LEAN, 0.0), (LEAN, 1.0), (None, 0.0))
COLUMNS = ("judge", "B", "queries", "refused", "flips")


def leads(regime: Regime | None, queries: int, rng: np.random.Generator, worse_by: float) -> tuple[Array, Array]:
    """Return the leads of the side shown first, A's and B's, over all pairs; without a regime the judge is a coin."""
    if regime is None:
        calls = np.rint(10 * np.clip(6 + 1.5 * rng.standard_normal((queries, 2 * PAIRS, 2 * PAIRS, 2)), 0, 10)) / 10
    else:
        calls = simulated_calls(regime, queries, PAIRS, rng, worse_by)
    a, b = np.arange(PAIRS), np.arange(PAIRS, 2 * PAIRS)
    forth, back = (np.round(sides[..., 0] - sides[..., 1], 1).ravel() for sides in (calls[:, a, b], calls[:, b, a]))
    return forth, back


def sums(forth: Array, back: Array) -> OrderSums:
    """Return the sums that the gate makes of these leads."""
    preference, position = (forth - back) / 2, (forth + back) / 2
    squares = float(position @ position), float(preference @ preference)
    return OrderSums(len(forth), shift=float(position.sum()), shift_squares=squares[0], preference_squares=squares[1])


def refused(regime: Regime | None, queries: int, count: int, *, worse_by: float = 0.0) -> float:
    """Return the share of `count` gates that refuse the judge."""
    rng = np.random.default_rng(0)
    return sum(noise(sums(*leads(regime, queries, rng, worse_by))) is not None for _ in range(count)) / count


def flips_refused(regime: Regime | None, queries: int, count: int, worse_by: float) -> float:
    """Return the share of gates that the rule of flips would refuse."""
    rng, bad = np.random.default_rng(0), 0
    for _ in range(count):
        forth, back = leads(regime, queries, rng, worse_by)
        flips = Share(int((forth * back > 0).sum()), int((forth * back != 0).sum()))
        bad += flips.interval[1] >= 0.5
    return bad / count


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=4000)
    add_json_option(parser)
    options = parser.parse_args()
    rows: list[list[str]] = []
    for regime, worse_by in CASES:
        for queries in (20, 50):
            shares = (
                refused(regime, queries, options.repeats, worse_by=worse_by),
                flips_refused(regime, queries, options.repeats, worse_by),
            )
            name, b = regime.name if regime else "coin", "worse" if worse_by else "equal"
            rows.append([name, b, str(queries), *(f"{100 * share:.1f}" for share in shares)])
            print("  ".join(rows[-1]), flush=True)
    renew(options.json, COLUMNS, rows)


if __name__ == "__main__":
    main()
