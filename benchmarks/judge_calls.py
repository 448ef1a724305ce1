"""How many judge calls a group takes: plays the real topology on random scores and counts.

python benchmarks/judge_calls.py [--most ROLLOUTS]
"""

import argparse
import random
from fractions import Fraction
from statistics import fmean

from harness.core.settings import OrderPolicy
from harness.judging.prompt import Task, make_pair_prompt
from harness.judging.rubric import load_rubric
from harness.ranking.knockout import Arena, match_bounds
from harness.transcripts.transcript import Transcript

GROUPS = 2000
SEED = 0


def calls(n: int, order: OrderPolicy, rng: random.Random) -> int:
    """Play one tournament of n entrants whose scores are random, and return its judge calls."""
    arena, count = Arena(range(n), 0, order), 0
    while pairings := arena.pairings():
        for pairing in pairings:
            count += len(pairing.orders)
            arena.record(pairing, Fraction(rng.randint(0, 100), 10), Fraction(rng.randint(0, 100), 10))
    return count


def main() -> None:
    """Print the counts, and the size of what every call carries besides the transcripts."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--most", type=int, default=32, help="leave out larger groups; the others' figures stay")
    most = parser.parse_args().most
    rng = random.Random(SEED)
    print(f"judge calls a group, topology arena, {GROUPS} groups of random scores each, rng seed {SEED}")
    print(f"{'n':>3}  {'order':<9} {'fewest':>6} {'mean':>6} {'most':>6}   bounds stated before a run")
    for n in (size for size in (2, 4, 8, 16, 32) if size <= most):
        orders: tuple[OrderPolicy, ...] = ("both", "balanced", "single")
        for order in orders:
            counts = [calls(n, order, rng) for _ in range(GROUPS)]
            low, high = (b * (2 if order == "both" else 1) for b in match_bounds(n))
            print(f"{n:>3}  {order:<9} {min(counts):>6} {fmean(counts):>6.1f} {max(counts):>6}   {low} to {high}")
    empty = Transcript("", "")
    prompt = make_pair_prompt(load_rubric("writing"), Task("q", ""), empty, empty)
    print(f"fixed text in every call of the writing rubric: {len(prompt.system) + len(prompt.user)} characters")


if __name__ == "__main__":
    main()
