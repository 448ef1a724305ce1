"""What `harness gate` promises, held against simulated agents: false alarms, what it finds, how often equals pass.

    python benchmarks/gate.py [--repeats 400] [--json FILE]

Agents, judge and noise are those of simulated_judge.py; K = 2 cross pairs a query, both orders, margin 0.05, rng 0.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from figures import add_json_option, renew
from simulated_gate import NOISY, SHARP, Repeat, repeats
from simulated_judge import Regime

from harness.comparison.gate import noise, orders_of, pass_probability
from harness.comparison.interim import InterimPlan
from harness.core.gates import InterimAnalysis

MARGIN = 0.05
WORSE_BY = 1.0
COLUMNS = ("agent", "judge", "queries", "looks", "forecast", "passed", "worse", "unsure", "refused", "judged")
WIDTHS = (16, 17, 8, 6, 10, 8, 7, 8, 9, 8)


@dataclass(frozen=True)
class Case:
    """A row of the table."""

    name: str
    regime: Regime | None
    """None: a judge that likes whoever stands first."""
    queries: int
    looks: int
    worse_by: float = 0.0


CASES = (
    *(Case("equal", SHARP, queries, 1) for queries in (20, 60, 200, 400)),
    *(Case("equal", SHARP, queries, 4) for queries in (80, 200, 400)),
    Case("equal", NOISY, 400, 4),
    Case("worse", SHARP, 200, 1, WORSE_BY),
    Case("worse", SHARP, 200, 4, WORSE_BY),
    Case("equal", None, 60, 1),
)


@dataclass(frozen=True)
class Outcome:
    """What the gates of a case said."""

    findings: Counter[str]
    foretold: float
    judged: float
    """Mean share of the queries that were judged."""

    def share(self, word: str) -> float:
        return self.findings[word] / self.findings.total()


def play(case: Case, count: int, seed: int = 0) -> Outcome:
    """Return what so many gates of a case say."""
    findings: Counter[str] = Counter()
    foretold: list[float] = []
    judged: list[float] = []
    rng = np.random.default_rng(seed)
    for repeat in repeats(case.regime, count, case.queries, rng, worse_by=case.worse_by):
        looks, probability = gate(repeat, case.looks)
        foretold.append(probability)
        judged.append(looks[-1].queries / case.queries)
        findings["refused" if noise(orders_of(repeat.queries)) else looks[-1].finding] += 1
    return Outcome(findings, float(np.mean(foretold)), float(np.mean(judged)))


def gate(repeat: Repeat, looks: int) -> tuple[Sequence[InterimAnalysis], float]:
    """Return the looks that a gate takes, and the foretold probability of a pass."""
    judged = {query.query: query for query in repeat.queries}
    plan = InterimPlan.of(list(judged), looks, MARGIN)
    return plan.analyses(judged), pass_probability(len(judged), MARGIN, repeat.spread, plan.shares)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=400)
    add_json_option(parser)
    options = parser.parse_args()
    count = options.repeats
    print(f"{count} gates a row, margin {MARGIN}, K = 2, rng 0; worse: by {WORSE_BY} standard deviations of a rollout")
    print(aligned(COLUMNS))
    rows: list[list[str]] = []
    for case in CASES:
        rows.append(cells(case, play(case, count)))
        print(aligned(rows[-1]), flush=True)
    renew(options.json, COLUMNS, rows)


def aligned(texts: Sequence[str]) -> str:
    """Return a line of the table: the first two columns begin, the others end at the same place."""
    sides = (str.ljust, str.ljust, *[str.rjust] * (len(texts) - 2))
    return "".join(side(text, width) for side, text, width in zip(sides, texts, WIDTHS, strict=True))


def cells(case: Case, outcome: Outcome) -> list[str]:
    """Return the cells of a line, in per cent."""
    figures = (
        outcome.foretold,
        *(outcome.share(word) for word in ("not worse", "worse", "cannot tell", "refused")),
        outcome.judged,
    )
    judge = case.regime.name if case.regime else "first side only"
    return [case.name, judge, str(case.queries), str(case.looks), *(f"{100 * figure:.1f}" for figure in figures)]


if __name__ == "__main__":
    main()
