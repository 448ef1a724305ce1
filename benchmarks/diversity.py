"""What recipes (`--vary`) buy where no temperature makes samples differ, and whether `stats` finds the useless one.

    python benchmarks/diversity.py [--runs RUNS] [--queries QUERIES] [--json FILE]

Simulated judge, 8 rollouts, `cyclic`, `margins`. The quality of a sample is that of its recipe on its query, with
a standard deviation of BETWEEN, and its own draw, of WITHIN: a model without a temperature draws nearly the same
again. The anchor has a recipe of its own. `alike`: four such recipes. `useless`: one of them is lower by LOWER. `one`:
all samples have one recipe. `best` is the true mark, of 10, of the rollout that the judge puts first; `above one`, how
far it lies above that with one recipe.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from designs import Table, play
from figures import add_json_option, renew
from simulated_judge import REGIMES, Array, Regime, draw

from harness.core.rankings import GroupRanking, Ranked
from harness.core.recipes import Recipe
from harness.core.records import Group, Query, Rollout, Trajectory
from harness.core.settings_sources import load
from harness.ranking.comparisons import Comparisons, Floats
from harness.ranking.fixed_pairs import Cyclic
from harness.ranking.margins import fit_margins
from harness.report.summary.diversity import diversity
from harness.rollouts.variation import dealt

N, BETWEEN, WITHIN, LOWER = 8, 1.3, 0.3, 1.5
FOUR, ONE = "effort=minimal,low,medium,high", "effort=high"
USELESS = "effort=minimal"
COLUMNS = ("judge", "recipes", "best", "above one", "useless found", "another named")
ANSWERED = Trajectory(query="q", answer="a")


@dataclass(frozen=True)
class Simulation:
    """Ranked queries of one run, and the true quality of the rollout that is first in each."""

    groups: list[tuple[Group, GroupRanking]]
    best: list[float]


def simulated(vary: str, regime: Regime, queries: int, lower: float, rng: np.random.Generator) -> Simulation:
    """Return a run under a way to vary, whose useless recipe is worse by `lower`."""
    settings = load({"vary": vary, "n": N, "seed": int(rng.integers(2**31))})
    recipes = [[dealt(settings, str(query), index) for index in range(N)] for query in range(queries)]
    quality = np.array([_qualities(row, lower, rng) for row in recipes])
    judged = draw(regime, queries, N, rng, times=1, quality=quality)
    groups, best = list[tuple[Group, GroupRanking]](), list[float]()
    for at, row in enumerate(recipes):
        table = Table(judged.calls[at])
        play(Cyclic(range(N)), table)
        scores = fit_margins(Comparisons.of(N, *zip(*table.made, strict=True))).estimates
        groups.append(ranked(row, scores))
        best.append(float(quality[at, int(scores.argmax())]))
    return Simulation(groups, best)


def _qualities(recipes: Sequence[Recipe | None], lower: float, rng: np.random.Generator) -> Array:
    names = [recipe.name if recipe else "" for recipe in recipes]
    of_recipe = {name: rng.normal(-lower if name == USELESS else 0.0, BETWEEN) for name in sorted(set(names))}
    return np.array([rng.normal(of_recipe[name], WITHIN) for name in names])


def ranked(recipes: Sequence[Recipe | None], scores: Floats) -> tuple[Group, GroupRanking]:
    """Return a query's rollouts with their recipes, ranked by scores."""
    roles = ("anchor", *["sample"] * (N - 1))
    rollouts = tuple(
        Rollout.model_construct(index=at, role=role, recipe=recipe, status="ok", trajectory=ANSWERED)
        for at, (role, recipe) in enumerate(zip(roles, recipes, strict=True))
    )
    places = tuple(Ranked(index=i, rank=float((scores > scores[i]).sum()), score=float(scores[i])) for i in range(N))
    plain = GroupRanking(query="q", topology="cyclic", estimator="margins", status="complete", signal="ok")
    group = Group.model_construct(query=Query(id="q", text="q"), rollouts=rollouts)
    return group, plain.model_copy(update={"rollouts": places})


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--queries", type=int, default=100)
    add_json_option(parser)
    options = parser.parse_args()
    print(f"{options.runs} runs of {options.queries} queries\n" + "".join(f"{name:>15}" for name in COLUMNS))
    rows = list[list[str]]()
    for regime in REGIMES[:2]:  # the level of the third means nothing
        one = 0.0
        for name, vary, lower in (("one", ONE, 0.0), ("alike", FOUR, 0.0), ("useless", FOUR, LOWER)):
            rng, best, found, others = np.random.default_rng(1), list[float](), 0, 0
            for _ in range(options.runs):
                run = simulated(vary, regime, options.queries, lower, rng)
                dropped = {each.name for each in diversity(run.groups).recipes if each.drop}
                found += lower > 0 and USELESS in dropped
                others += bool(dropped - ({USELESS} if lower else set()))
                best += run.best
            mark = 6 + (regime.alpha + regime.gamma) / 2 * float(np.mean(best))  # beside an answer of quality 0
            one = one or mark
            share = f"{found / options.runs:.0%}" if lower else "-"
            above = f"{mark / one - 1:.1%}" if vary == FOUR else "-"
            rows.append([regime.name, name, f"{mark:.2f}", above, share, f"{others / options.runs:.0%}"])
            print("".join(f"{cell:>15}" for cell in rows[-1]), flush=True)
    renew(options.json, COLUMNS, rows)


if __name__ == "__main__":
    main()
