"""Which step it was, with forks: the agents of credit.py, of which one rollout is forked until its step is named.

    python benchmarks/forks.py [--groups K] [--rng N] [--json FILE]

A case is a group of 8 rollouts of six calls, and one of them with a step worth 1.5 or more; rollouts differ by 0.8
(`equal`: any; no step is worth anything, while those of other groups of the run are). `auto`: branches where
`auto_points` says, for 10 calls or a little more at a time, until a step is named or 84 calls are made. `everywhere`:
four branches from each of the six calls, as many calls. Margins are as those of judged pools of 200 in credit.py:
drawn to the mean, and off by 0.19 (sharp) or 0.45 (noisy).

A line says: in how many cases a step is named, and the right one; the new calls a case, and of all that forking
everywhere takes; and the share of true credits in their 95 % intervals, of all steps of that rollout and of the
decisive one. The last lines count what `all` buys: the judged trajectories of equal calls.
"""

import argparse
import math
from dataclasses import dataclass, field

import numpy as np
from credit import DEPTH, Agent, N, Walk
from figures import add_json_option, renew

from harness.ranking.comparisons import Floats
from harness.ranking.credit import GroupMargins, group_credit
from harness.ranking.fork_points import auto_points
from harness.ranking.path_graph import PathGraph, path_graph

WORLDS, POLICIES = ("one", "early", "few", "even", "equal"), ("everywhere", "auto")
ERRORS, SPREAD = {"sharp": 0.19, "noisy": 0.45}, 0.64
"""Of the margins, and the variance between rollouts, in worth."""
DECISIVE, AT_A_TIME, EVERYWHERE, AGENT_CALLS = 1.5, 10.5, 4, 5
ALL = EVERYWHERE * sum(range(1, DEPTH + 1))
"""The calls of forking everywhere."""
COLUMNS = ("world", "judge", "forks", "named", "right", "calls", "of all", "covered", "worth", "nothing", "decisive")


@dataclass
class Forked:
    """A group of rollouts and branches; the margin of each is off by a normal error."""

    agent: Agent
    error: float
    walks: list[Walk] = field(default_factory=list[Walk])
    replayed: list[int] = field(default_factory=list[int])
    judged: list[float] = field(default_factory=list[float])

    def add(self, rollout: int | None = None, call: int = 0) -> int:
        """Add a rollout, or a branch from a call of one; return how many calls it made."""
        walk = self.agent.walk(self.walks[rollout] if rollout is not None else None, call)
        self.walks.append(walk)
        self.replayed.append(call)
        noise = self.error / math.sqrt(1 - self.error**2 / SPREAD)
        self.judged.append(sum(walk.worth) + noise * self.agent.rng.standard_normal())
        return len(walk.states) - call

    def known(self) -> tuple[PathGraph, GroupMargins, float]:
        """Return what credit goes by."""
        n, marks = len(self.walks), (1 - self.error**2 / SPREAD) * np.array(self.judged)
        margins = GroupMargins(marks - marks.mean(), self.error**2 * (np.eye(n) - 1 / n))
        return path_graph([walk.states for walk in self.walks], self.replayed), margins, SPREAD


def case(world: str, judge: str, policy: str, rng: np.random.Generator) -> Floats | None:
    """Return of a case whether a step is named and rightly, its calls, how many steps there are of all, of those worth
    something, nothing and most, and how many of each are covered; None without a case."""
    group = Forked(Agent(world, rng), ERRORS[judge])
    for _ in range(N):
        group.add()
    chosen = [at for at, walk in enumerate(group.walks) if world == "equal" or np.abs(walk.worth).max() >= DECISIVE]
    if not chosen:
        return None
    truth = np.array(group.walks[chosen[0]].worth)
    spent, steps = 0, group_credit(*group.known()).steps[chosen[0]]
    while not any(step.named for step in steps):
        if policy == "auto":
            points = auto_points(*group.known(), min(AT_A_TIME, ALL - spent), chosen[:1])
            calls = [point.call for point in points]
        else:
            calls = [] if spent else [*range(DEPTH)] * EVERYWHERE
        if not calls:
            break
        spent += sum(group.add(chosen[0], call) for call in calls)
        steps = group_credit(*group.known()).steps[chosen[0]]
    covered = [step.interval[0] <= worth <= step.interval[1] for worth, step in zip(truth, steps, strict=True)]
    at = int(np.abs(truth).argmax())
    parts = np.array([truth < math.inf, truth != 0, truth == 0, np.arange(len(truth)) == at], float)
    right = truth[at] != 0 and steps[at].named == ("won" if truth[at] > 0 else "lost")
    return np.array([any(step.named for step in steps), right, spent, *parts.sum(axis=1), *parts @ covered], float)


def economics(forks: int) -> str:
    """Count the judged trajectories of rollouts of five calls, each forked at all of them, and of rollouts alone."""
    calls = AGENT_CALLS + forks * sum(range(1, AGENT_CALLS + 1))
    forked, alone = 1 + forks * AGENT_CALLS, calls / AGENT_CALLS
    return f"a fork at each of {AGENT_CALLS} calls x {forks}: {calls} calls, {forked} against {alone:.0f} trajectories"


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--rng", type=int, default=0)
    add_json_option(parser)
    options = parser.parse_args()
    print(f"{options.groups:,} groups a line, rng {options.rng}")
    print("".join(f"{name:>12}" for name in COLUMNS))
    rows: list[list[str]] = []
    for world in WORLDS:
        for judge in ERRORS:
            for policy in POLICIES:
                rng, found = np.random.default_rng(options.rng), list[Floats]()
                while len(found) < options.groups:
                    found += [one] if (one := case(world, judge, policy, rng)) is not None else []
                named, right, calls, *counts = np.mean(found, axis=0)
                told = [f"{named:.1%}", f"{right:.1%}", f"{calls:.1f}", f"{calls / ALL:.1%}"]
                covered = (f"{held / of:.1%}" if of else "-" for of, held in zip(counts[:4], counts[4:], strict=True))
                rows.append([world, judge, policy, *told, *covered])
                print("".join(f"{cell:>12}" for cell in rows[-1]), flush=True)
    renew(options.json, COLUMNS, rows)
    for forks in (1, 2, 4):
        print(economics(forks))


if __name__ == "__main__":
    main()
