"""What signal `weak` catches: how many groups of equals, how many real ones, and how well those are ranked.

    python benchmarks/weak_signal.py [GROUPS] [--json FILE]

The simulated judge, every pair once in one order (`cyclic`). "equal" groups have rollouts all equally good. The first
table is of `margins`, a group at a time. The second is of `pooled`: which share of equal groups is called `ok` in
a pool of such groups, and scattered among real ones (one in eleven); and which share of the real ones is weak. The
third is the same of `pooled` as the secondary fit beside `tiers`, on the calls of `arena`, which has another pairing
in each group and judges each pair in both orders; its last columns are of queries ranked alone (as many as in a row
with four rollouts, else a fifth), by no profile and by that of the judge's kind. FILE gets the last two tables.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from designs import Table, designs, play
from figures import add_json_option, renew
from simulated_judge import REGIMES, Array, Groups, Regime, draw, mean_spearman

from harness.ranking.comparisons import WEAK, Comparisons, Fit
from harness.ranking.conclusions import MOST_OF_EQUALS, WEAK_BELOW
from harness.ranking.fixed_pairs import Cyclic
from harness.ranking.margins import fit_margins
from harness.ranking.pooled import fit_alone, fit_pooled
from harness.ranking.profile import lent_prior, profile_of_kind


def fitted(groups: Groups) -> tuple[Array, Array]:
    """Return reliability [G] and estimates [G, N] of every group."""
    size, n = groups.quality.shape
    fits: list[Fit] = []
    for g in range(size):
        table = Table(groups.calls[g])
        play(Cyclic(range(n)), table)
        fits.append(fit_margins(Comparisons.of(n, *zip(*table.made, strict=True))))
    return np.array([f.reliability for f in fits], np.float64), np.array([f.estimates for f in fits], np.float64)


def row(regime: Regime, n: int, groups: int, *, equal: bool) -> str:
    """Return a line of the table."""
    judge = replace(regime, gamma=0.0, alpha=0.0) if equal else regime
    drawn = draw(judge, groups, n, np.random.default_rng(2))
    reliability, estimates = fitted(drawn)
    weak = reliability < WEAK_BELOW
    line = f"{n:4} {'equal, ' if equal else ''}{regime.name:10}".ljust(24) + f"{weak.mean():8.3f}"
    if equal or weak.sum() < 2:
        return line
    kinds = (mean_spearman(estimates[k], drawn.quality[k])[0] for k in (weak, ~weak))
    return line + "".join(f"{rho:10.3f}" for rho in kinds)


def drawn_calls(regime: Regime, n: int, groups: int, seed: int, *, equal: bool) -> list[Comparisons]:
    """Return the calls of simulated groups."""
    judge = replace(regime, gamma=0.0, alpha=0.0) if equal else regime
    first, second = np.array([order for pairing in Cyclic(range(n)).pairings() for order in pairing.orders]).T
    scores = draw(judge, groups, n, np.random.default_rng(seed), times=1).calls[:, 0, first, second]
    return [Comparisons.of(n, first, second, of[:, 0], of[:, 1]) for of in scores]


def arena_calls(regime: Regime, n: int, groups: int, seed: int, *, equal: bool) -> list[Comparisons]:
    """Return the calls that `arena` asks for in simulated groups."""
    judge = replace(regime, gamma=0.0, alpha=0.0) if equal else regime
    tables = [Table(calls) for calls in draw(judge, groups, n, np.random.default_rng(seed), times=1).calls]
    (arena,) = (design for design in designs(n) if design.name == "arena")
    for table in tables:
        play(arena.start(n, random.Random(0)), table)
    return [Comparisons.of(n, *zip(*table.made, strict=True)) for table in tables]


def ok(fits: Sequence[Fit]) -> Array:
    """Return which of the groups have a signal of `ok` by `pooled`."""
    return np.array([(fit.p_value or 0.0) <= MOST_OF_EQUALS for fit in fits])


def pooled_row(regime: Regime, n: int, groups: int, calls_of: Callable[..., list[Comparisons]]) -> list[str]:
    """Return the cells of a line of a table of `pooled`, on the calls of a design."""
    equal = calls_of(regime, n, groups, 2, equal=True)
    real = calls_of(regime, n, groups, 3, equal=False)
    few, scattered = groups // 10, list[Array]()
    fits_of_real: list[Fit] = []
    for at in range(0, 10 * few, few):
        fits = fit_pooled([*real, *equal[at : at + few]])
        fits_of_real = fits[:groups]
        scattered.append(ok(fits[groups:]))
    shares = [ok(fit_pooled(equal)).mean(), np.concatenate(scattered).mean(), 1 - ok(fits_of_real).mean()]
    alone, kind = groups if n == 4 else groups // 5, lent_prior(profile_of_kind(regime.name, "judge", "rubric", 1))
    for prior in (WEAK, kind) if calls_of is arena_calls else ():
        shares += [ok([fit_alone(calls, prior) for calls in equal[:alone]]).mean()]
        shares += [1 - ok([fit_alone(calls, prior) for calls in real[:alone]]).mean()]
    return [str(n), regime.name, *(f"{share:.3f}" for share in shares)]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("groups", type=int, nargs="?", default=1000, metavar="GROUPS")
    add_json_option(parser)
    options = parser.parse_args()
    groups, rows = options.groups, list[list[str]]()
    print(f"{groups:,} groups a row, rng 2; `margins` weak below a reliability of {WEAK_BELOW}")
    print(f"{'   N group':24}{'weak':>8}{'rho weak':>10}{'rho else':>10}")
    for n in (4, 8, 16):
        for regime in REGIMES[:2]:
            for equal in (True, False):
                print(row(regime, n, groups, equal=equal))
    tables = (("pooled", drawn_calls, (4, 8, 16)), ("beside tiers, on arena's calls", arena_calls, (3, 4, 5, 8, 16)))
    for title, calls_of, sizes in tables:
        print(f"\n{title}, {groups:,} groups a row")
        alone = f"{'alone: ok':>12}{'weak':>12}{'of kind: ok':>12}{'weak':>12}" if calls_of is arena_calls else ""
        print(f"{'   N judge':24}{'equal: ok':>12}{'scattered':>12}{'real: weak':>12}{alone}")
        for n in sizes:
            for regime in REGIMES:
                size, judge, *shares = pooled_row(regime, n, groups, calls_of)
                rows.append([title.partition(",")[0], size, judge, *shares[:3]])
                print(f"{size:>4} {judge:10}".ljust(24) + "".join(f"{share:>12}" for share in shares), flush=True)
    renew(options.json, ("fit", "N", "judge", "equal", "scattered", "weak"), rows)


if __name__ == "__main__":
    main()
