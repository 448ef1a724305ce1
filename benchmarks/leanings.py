"""What probes buy under a judge that leans to length: `pooled` without them, with them, and told the leanings exactly.

    python benchmarks/leanings.py [--groups G] [--pool K] [--rng SEED] [--json FILE]

To the simulated judge one standard deviation of length is worth LEAN of quality; the lengths of a group of 8 differ by
35 % (e^.35), whatever the quality, and so does their formatting, to which the judge does not lean. Runs of K groups,
each with 40 calls on probes of its own: pairs of one quality, of which one text is longer by rule, or formatted, or
speaks of itself. `arena` takes about 24 calls of a group of 8, and 24 more evenly spread ones stand beside them. A line
says rho, how many claims of 95 % or more are right, what 90 % intervals cover, and which share of groups of equals is
`ok`. Exits 1 where a bound is broken, as the last lines say. No real judge is run.
"""

import argparse
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from designs import Table, designs, play
from figures import add_json_option, renew
from pooled import SURE, covered, rho
from simulated_groups import Simulated
from simulated_judge import REGIMES, Array, Regime, draw
from weak_signal import ok

from harness.ranking.comparisons import WEAK, Comparisons, Fit, Leanings
from harness.ranking.fixed_pairs import Cyclic
from harness.ranking.judge_stats.agreement import Share
from harness.ranking.leanings import ProbeResult, learn_leanings
from harness.ranking.pooled import fit_pooled

N, LENGTH_SD = 8, 0.35
LEANS = (0.0, 0.3, 1.0)
PADDED, FORMATTED, OF_ITSELF = (np.log(2), np.log(3)), 0.8, 0.5
"""By how much the two texts of a probe differ."""
LEAST_RHO, LEAST_RIGHT, MOST_LOST, MOST_EQUAL = 0.75, 0.93, 0.01, 0.05
"""Of a noisy judge with a lean of 1: rho, but on calls of `arena`, where leanings that are known exactly do not give it
either; of all: how many claims are right, what probes lose of rho where there is no lean, and groups of equals that are
`ok` (Wilson's intervals of shares lie wholly beyond)."""
WAYS = ("without", "40 calls", "exact")
Pairs = Callable[[Array], list[tuple[int, int, float, float]]]


def probes(regime: Regime, lean: float, rng: np.random.Generator) -> Leanings:
    """Return the leanings that 14 probes of length, 3 of formatting and 3 of talk of itself show."""
    differences = np.zeros((20, 3))
    differences[:14, 0] = np.resize(PADDED, 14)
    differences[14:17, 1], differences[17:, 2] = FORMATTED, OF_ITSELF
    quality = rng.standard_normal((20, 1)) + lean * np.c_[differences[:, 0] / LENGTH_SD, np.zeros(20)]
    calls = draw(regime, 20, 2, rng, times=1, quality=quality).calls[:, 0]
    leads = (calls[:, 0, 1] - calls[:, 1, 0]) @ (0.5, -0.5)
    return learn_leanings([ProbeResult(*row) for row in zip(differences.tolist(), leads.tolist(), strict=True)])


def arena(calls: Array) -> list[tuple[int, int, float, float]]:
    """Return the calls that `arena` makes."""
    table = Table(calls)
    (design,) = (design for design in designs(N) if design.name == "arena")
    play(design.start(N, random.Random(0)), table)
    return table.made


def spread(calls: Array, budget: int | None = None) -> list[tuple[int, int, float, float]]:
    """Return so many calls, evenly spread over the pairs; None: every pair once."""
    table = Table(calls)
    play(Cyclic(range(N), None, budget), table)
    return table.made


DESIGNS: dict[str, Pairs] = {"arena": arena, "24 spread": partial(spread, budget=24), "every pair": spread}


@dataclass(frozen=True)
class Cell:
    """What comes of a judge's groups by one fit."""

    rho: float
    right: Share
    covered: float
    equal: Share
    """Groups of equals that are `ok`."""

    @property
    def words(self) -> list[str]:
        """The figures as the table has them."""
        right = f"{self.right.value:.1%} of {self.right.whole}" if self.right.value is not None else "no claim"
        return [f"{self.rho:.3f}", right, f"{self.covered:.1%}", f"{self.equal.value:.1%}"]


def judged(regime: Regime, lean: float, pairs: Pairs, quality: Array, rng: np.random.Generator) -> Simulated:
    """Return groups of these qualities under a judge that leans, as `pairs` asks it."""
    groups = len(quality)
    length = rng.standard_normal((groups, N))
    features = np.stack([LENGTH_SD * length, rng.random((groups, N)), 0.3 * rng.random((groups, N))], axis=-1)
    calls = draw(regime, groups, N, rng, times=1, quality=quality + lean * length).calls
    made = [Comparisons.of(N, *zip(*pairs(c), strict=True), features=x) for c, x in zip(calls, features, strict=True)]
    return Simulated(regime.name, regime.gamma * quality, made)


def cells(regime: Regime, lean: float, pairs: Pairs, options: argparse.Namespace) -> list[Cell]:
    """Return the figures of each of WAYS; in each run one group in eleven is of equals."""
    rng, pool = np.random.default_rng(options.rng), options.pool
    exact = Leanings(np.array([regime.gamma * lean / LENGTH_SD, 0.0, 0.0]), np.zeros((3, 3)))
    parts: list[Simulated] = []
    fits: tuple[list[Fit], ...] = [], [], []
    of_equals: tuple[list[Fit], ...] = [], [], []
    for _ in range(options.groups // pool):
        quality = np.r_[rng.standard_normal((pool, N)), np.zeros((pool // 10, N))]
        run, shown = judged(regime, lean, pairs, quality, rng), probes(regime, lean, rng)
        parts.append(Simulated(run.name, run.quality[:pool], run.groups[:pool]))
        for at, leanings in enumerate((None, shown, exact)):
            of_run = fit_pooled(run.groups, replace(WEAK, leanings=leanings))
            fits[at].extend(of_run[:pool])
            of_equals[at].extend(of_run[pool:])
    whole = Simulated(regime.name, np.concatenate([p.quality for p in parts]), [g for p in parts for g in p.groups])
    return [cell(whole, *of_fit) for of_fit in zip(fits, of_equals, strict=True)]


def cell(groups: Simulated, fits: list[Fit], of_equals: list[Fit]) -> Cell:
    """Return the figures of fits of groups, and of groups of equals."""
    stated = np.array([fit.p_best() for fit in fits])
    sure = stated.max(axis=1) >= SURE
    right = int((stated.argmax(axis=1) == groups.quality.argmax(axis=1))[sure].sum())
    equal = Share(int(ok(of_equals).sum()), len(of_equals))
    return Cell(rho(groups, fits), Share(right, int(sure.sum())), float(covered(groups, fits).mean()), equal)


def main() -> None:
    """Simulate and print. Exits 1 where a bound is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--pool", type=int, default=25)
    parser.add_argument("--rng", type=int, default=0)
    add_json_option(parser)
    options = parser.parse_args()
    rows, broken, claims = list[list[str]](), list[str](), Share(0, 0)
    print(f"{options.groups:,} groups of {N} a cell, runs of {options.pool}, rng {options.rng}")
    print(f"{'calls':12}{'judge':10}{'lean':>5}  {'probes':8}{'rho':>6}{'right':>16}{'covered':>9}{'equal: ok':>11}")
    for design, pairs in DESIGNS.items():
        for regime in REGIMES:
            for lean in LEANS:
                of_ways = cells(regime, lean, pairs, options)
                without, probed, _ = of_ways
                for way, of_fit in zip(WAYS, of_ways, strict=True):
                    rows.append([design, regime.name, f"{lean:g}", way, *of_fit.words])
                    rho_, right, covers, equal = of_fit.words
                    line = f"{rho_:>6}{right:>16}{covers:>9}{equal:>11}"
                    print(f"{design:12}{regime.name:10}{lean:5g}  {way:8}{line}", flush=True)
                claims = Share(claims.part + probed.right.part, claims.whole + probed.right.whole)
                broken += [f"{design}, {regime.name}, lean {lean:g}: {why}" for why in faults(without, probed, lean)]
                if design != "arena" and (regime.name, lean) == ("noisy", 1) and probed.rho < LEAST_RHO:
                    broken.append(f"{design}: rho of {probed.rho:.3f} under a lean of 1, at least {LEAST_RHO}")
    renew(options.json, ("calls", "judge", "lean", "probes", "rho", "right", "covered", "equal"), rows)
    share = claims.part / max(1, claims.whole)
    print(f"with probes, of all {claims.whole:,} claims of {SURE:.0%} or more {share:.1%} are right")
    if share < LEAST_RIGHT:
        broken.append(f"{share:.1%} of all claims are right, at least {LEAST_RIGHT:.0%}")
    if broken:
        sys.exit("; ".join(broken))


def faults(without: Cell, probed: Cell, lean: float) -> list[str]:
    """Return which bounds a cell breaks."""
    right, equal = probed.right, probed.equal
    return [
        *(
            [f"probes lose {without.rho - probed.rho:.3f} of rho"]
            if not lean and without.rho - probed.rho > MOST_LOST
            else []
        ),
        *(
            [f"{right.value:.1%} of claims right"]
            if right.value is not None and right.interval[1] < LEAST_RIGHT
            else []
        ),
        *([f"{equal.value:.1%} of equals ok"] if equal.interval[0] > MOST_EQUAL else []),
    ]


if __name__ == "__main__":
    main()
