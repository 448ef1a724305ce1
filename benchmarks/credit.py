"""Which step it was: free credit of simulated agents, of whose every step it is known what it is worth.

    python benchmarks/credit.py [--groups G] [--rng N] [--json FILE]

An agent has two to four choices at a state, or forty, each with its probability and its worth, of mean 0 under the
agent; six steps are a rollout. What decides: `even`, all steps alike; `few`, one choice of six has all the worth;
`one`, one depth of a group has it; `early`, one of the first three; `idle`, six steps, and then up to five that are
worth nothing, so that rollouts of equal worth stop early or late; `equal`, nothing does. `certain` judges give the
worth itself, `sharp` and `noisy` ones 28 calls of a group of 8; pools of 200 groups teach `pooled` the judge.

A line says: the share of true credits in the 95 % intervals, and of the steps that are shared and that are not, and of
those that are worth something and those worth nothing; how many rollouts have a named step, and in how many of them it
is the right one; and the correlation of true credits with free credit, with equal credit to all steps, and with all
credit to the last. No real agent or judge is run.
"""

import argparse
import math
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from figures import add_json_option, renew
from simulated_judge import REGIMES, Array, draw

from harness.ranking.comparisons import Comparisons
from harness.ranking.credit import GroupMargins, StepCredit, group_credit, mean_spread
from harness.ranking.fixed_pairs import Cyclic
from harness.ranking.path_graph import path_graph
from harness.ranking.pooled import fit_pooled

WORLDS = ("even", "few", "one", "early", "idle", "equal")
JUDGES = ("certain", "sharp", "noisy")
N, DEPTH, CALLS, POOL = 8, 6, 28, 200
MANY = 40
COLUMNS = "world judge covered shared alone worth nothing named right free equal last".split()
State = tuple[int, ...]


@dataclass(frozen=True)
class Walk:
    """A rollout: its states, and what each step was worth."""

    states: list[State]
    worth: list[float]


@dataclass
class Agent:
    """An agent on one query. What a state offers is drawn when it is first seen."""

    world: str
    rng: np.random.Generator
    offers: dict[State, tuple[Array, Array]] = field(default_factory=dict[State, tuple[Array, Array]])

    def __post_init__(self) -> None:
        """Choose the depth that decides, where one does."""
        self.depth = int(self.rng.integers(3 if self.world == "early" else DEPTH))

    def _offer(self, state: State) -> tuple[Array, Array]:
        """Return how probable each choice is, and what it is worth."""
        if state not in self.offers:
            size = MANY if self.rng.random() < 0.15 * len(state) else int(self.rng.integers(2, 5))
            probable, worth = self.rng.dirichlet(np.ones(size)), self.rng.standard_normal(size)
            if self.world == "few":
                worth *= math.sqrt(DEPTH) * (self.rng.random(size) < 1 / DEPTH)
            elif self.world in {"one", "early"}:
                worth *= math.sqrt(DEPTH) * (len(state) == self.depth)
            elif self.world == "equal":
                worth *= 0
            self.offers[state] = probable, (worth - probable @ worth) / math.sqrt(DEPTH)
        return self.offers[state]

    def walk(self, of: Walk | None = None, call: int = 0) -> Walk:
        """Return a rollout, or a branch of one from a call."""
        walk = Walk(of.states[:call], of.worth[:call]) if of else Walk([], [])
        state = of.states[call] if of else State()
        for _ in range(call, DEPTH):
            probable, worth = self._offer(state)
            choice = int(self.rng.choice(len(probable), p=probable))
            walk.states.append(state)
            walk.worth.append(float(worth[choice]))
            state = (*state, choice)
        for _ in range(int(self.rng.integers(6)) if self.world == "idle" else 0):
            walk.states.append(state)
            walk.worth.append(0.0)
            state = (*state, 0)
        return walk


def judged(groups: Sequence[Sequence[Walk]], judge: str, rng: np.random.Generator) -> tuple[list[GroupMargins], float]:
    """Return the margins of groups, and how many of their points the worth of 1 is."""
    quality = np.array([[sum(walk.worth) for walk in group] for group in groups])
    if judge == "certain":
        return [GroupMargins(row, np.zeros((N, N))) for row in quality], 1.0
    regime = next(regime for regime in REGIMES if regime.name == judge)
    pairings = Cyclic(range(N), None, CALLS).pairings()
    first, second = np.array([order for pairing in pairings for order in pairing.orders]).T
    calls = draw(regime, len(groups), N, rng, times=1, quality=quality).calls[:, 0, first, second]
    pool = [Comparisons.of(N, first, second, sides[:, 0], sides[:, 1]) for sides in calls]
    fits = [fit for at in range(0, len(pool), POOL) for fit in fit_pooled(pool[at : at + POOL])]
    return [GroupMargins.of(fit) for fit in fits], regime.gamma


@dataclass
class Tally:
    """What was counted, step by step."""

    rows: list[tuple[float, ...]] = field(default_factory=list[tuple[float, ...]])
    named: int = 0
    right: int = 0

    def add(self, walk: Walk, scale: float, margin: float, steps: Sequence[StepCredit]) -> None:
        """Count a rollout."""
        truth = scale * np.array(walk.worth)
        for at, (worth, step) in enumerate(zip(truth, steps, strict=True)):
            low, high = step.interval
            last = margin if at + 1 == len(steps) else 0.0
            self.rows.append((low <= worth <= high, step.shared > 0, worth, step.credit, margin / len(steps), last))
            if step.named:
                self.named += 1
                toward = truth if step.named == "won" else -truth
                self.right += bool(toward[at] == toward.max() > 0)

    def cells(self, rollouts: int) -> list[str]:
        """Return the cells of a line."""
        covered, shared, truth, *told = np.array(self.rows, float).T
        known = truth.std() > 0
        parts = [shared >= 0, shared > 0, shared == 0, truth != 0, truth == 0]
        return [
            *(f"{covered[part].mean():.1%}" if part.any() else "-" for part in parts),
            f"{self.named / rollouts:.1%}",
            f"{self.right} of {self.named}",
            *(f"{np.corrcoef(truth, each)[0, 1]:.3f}" if known else "-" for each in told),
        ]


def measured(world: str, judge: str, groups: int, seed: int) -> list[str]:
    """Return the cells of a world and a judge."""
    rng, tally = np.random.default_rng(seed), Tally()
    agents = [Agent(world, rng) for _ in range(groups)]
    walks = [[agent.walk() for _ in range(N)] for agent in agents]
    margins, scale = judged(walks, judge, rng)
    spread = mean_spread(margins)
    for group, of_group in zip(walks, margins, strict=True):
        credit = group_credit(path_graph([walk.states for walk in group]), of_group, spread).steps
        away: list[float] = (of_group.means - of_group.means.mean()).tolist()
        for walk, margin, steps in zip(group, away, credit, strict=True):
            tally.add(walk, scale, margin, steps)
    return [world, judge, *tally.cells(groups * N)]


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=400)
    parser.add_argument("--many", type=int, default=5000, help="groups of 8 rollouts of 10 steps, to take the time of")
    parser.add_argument("--rng", type=int, default=0)
    add_json_option(parser)
    options = parser.parse_args()
    print(f"{options.groups:,} groups of {N} a line, pools of {POOL}, rng {options.rng}")
    print("".join(f"{name:>11}" for name in COLUMNS))
    rows: list[list[str]] = []
    for world in WORLDS:
        for judge in JUDGES if world != "equal" else JUDGES[1:]:
            rows.append(measured(world, judge, options.groups, options.rng))
            print("".join(f"{cell:>11}" for cell in rows[-1]), flush=True)
    renew(options.json, COLUMNS, rows)
    began = time.process_time()
    for at in range(options.many):
        paths = [[*range(at % 4 + 1), *((end, step) for step in range(9 - at % 4))] for end in range(N)]
        group_credit(path_graph(paths), GroupMargins(np.linspace(-1, 1, N), 0.1 * np.eye(N)), 1.0)
    spent, most = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{options.many:,} groups of 8 rollouts of 10 steps: {spent:.1f} s of CPU, {most} MB at most")


if __name__ == "__main__":
    main()
