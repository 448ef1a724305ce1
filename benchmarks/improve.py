"""What `harness improve` promises, held against planted prompts: what is found, for how much, and what is accepted.

    python benchmarks/improve.py [--runs 400] [--json FILE]

30 prompts of known worth, in standard deviations of a rollout: the root 0, 28 of N(0, 0.4^2) cut off at 0.6, the
planted best 1.4. A rollout is worth that, N(0, 0.5^2) for prompt and query, and N(0, 1). The judge is the noisy one of
simulated_judge.py, right in 68 % of its calls, on queries that differ in level and noise. A cross match is two calls.

The rival selects as GEPA does, by marks of the same judge for single rollouts: a child, with a parent drawn from the
Pareto front, is rolled out on three queries, and on the whole validation set if its marks sum to more than its
parent's; the best mean wins. It has the size of the validation set, and the budget, that find the planted best in 90 %
with the fewest rollouts; `as sharp` are marks in which a rollout's quality shows as much as in the leads of pairs.

At the end the candidate that was found, if it is probably better (LEAST_P_ABOVE), meets the root at a gate: 60 queries
never seen, two pairs each, three looks at margin 0, so that it passes where the interval lies above one half.

Answers' lengths are lognormal: 0.5 between queries, 0.3 within, the candidate's longer by a factor. A judge prefers
the longer answer by log odds of `love` an 1.6-fold length, or of `step` for any length; a better candidate has 1.2 more
at equal length, and each query its own N(0, 0.6^2).
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from figures import add_json_option, renew
from simulated_gate import NOISY, repeats
from simulated_judge import MARK_SD, Array, Regime, draw, draw_queries

from harness.comparison.gate import lead_by_length
from harness.comparison.interim import InterimPlan
from harness.comparison.outcomes import Pair
from harness.comparison.side_results import summarize_pairs
from harness.improving.selection import LEAST_P_ABOVE, ROOT, CrossLead, candidate_posterior, next_crosses

PROMPTS, TRAINING, HELD_OUT, LOOKS, MINIBATCH = 30, 60, 60, 3, 3
SPREAD, MOST, BEST_WORTH, PARTICULAR = 0.4, 0.6, 1.4, 0.5
BEST = PROMPTS - 1
BATCH, SURE = 60, 0.9
CALLS, CEILING, SHORT = 2, 2500, 600
"""A cross match is two calls; a call and a rollout cost 1 each. A search that is not sure yet ends at the
ceiling; where no prompt is the best, at the short one."""
LOVED = 1.5
"""How much better than it is a rollout looks to the training judge whose prompt holds the phrase that it loves."""
LOVES = ({"love": 1.0}, {"love": 3.0}, {"step": 2.0}, {"step": 9.0})
"""Judges of length alone."""
VALIDATION = (10, 15, 20, 30, 40, 60, 90)


def planted(rng: np.random.Generator) -> Array:
    """Return the worths [30] of the prompts."""
    others = np.minimum(SPREAD * rng.standard_normal(PROMPTS - 2), MOST)
    return np.concatenate([[0.0], others, [BEST_WORTH]])


def qualities(worths: Array, queries: int, rng: np.random.Generator) -> Array:
    """Return what a rollout of each prompt is worth on each query, [Q, N]."""
    shape = (queries, len(worths))
    return worths + PARTICULAR * rng.standard_normal(shape) + rng.standard_normal(shape)


@dataclass(frozen=True)
class Search:
    """What a search found, and what it took."""

    best: int
    challenger: int
    """The most probable one beside the root."""
    chance: float
    """How probably it is better than the root."""
    rollouts: int
    matches: int

    @property
    def cost(self) -> int:
        return self.rollouts + CALLS * self.matches


def search(worths: Array, rng: np.random.Generator, ceiling: int = CEILING) -> Search:
    """Let prompts meet until one is the best for 90 %, or the next match would cost more than is left."""
    queries = draw_queries(TRAINING, rng)
    calls = draw(NOISY, TRAINING, len(worths), rng, times=1, quality=qualities(worths, TRAINING, rng), queries=queries)
    names, leads = [f"{number:03}" for number in range(TRAINING)], list[CrossLead]()
    paid, left = np.zeros((TRAINING, len(worths)), bool), ceiling
    posterior = candidate_posterior(leads, len(worths))
    while max(posterior.p_best) < SURE:
        before = len(leads)
        for query, *sides in next_crosses(posterior, leads, names, BATCH):
            at, (one, other) = int(query), sides
            price = CALLS + int((~paid[at, sides]).sum())
            if price > left:
                break
            paid[at, sides], left = True, left - price
            (a, b), (d, c) = calls.calls[at, 0, one, other], calls.calls[at, 0, other, one]
            leads.append(CrossLead(query, one, other, float(b - a + d - c) / 2))
        if len(leads) == before:
            break
        posterior = candidate_posterior(leads, len(worths))
    challenger = 1 + int(np.argmax(posterior.p_best[1:]))
    chance = posterior.p_above(challenger, ROOT)
    return Search(posterior.best, challenger, chance, int(paid.sum()), len(leads))


def marks(worths: Array, queries: int, regime: Regime, rng: np.random.Generator) -> Array:
    """Return the judge's marks [Q, N] of single rollouts."""
    of, quality = draw_queries(queries, rng), qualities(worths, queries, rng)
    noise = of.noise * float(np.hypot(regime.c, regime.e))
    level = 6 + of.level + regime.alpha * quality + noise * rng.standard_normal(quality.shape)
    path, answer = (np.clip(np.rint(level + MARK_SD * rng.standard_normal(level.shape)), 0, 10) for _ in range(2))
    return (4 * path + 6 * answer) / 10


def rival(worths: Array, validation: int, regime: Regime, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Yield how many rollouts a GEPA-style selection has made, and which prompt it holds for the best."""
    seen = marks(worths, validation, regime, rng)
    pool, rollouts = [0], validation
    while len(pool) < len(worths):
        yield rollouts, pool[int(seen[:, pool].mean(0).argmax())]
        front = seen[:, pool] == seen[:, pool].max(1, keepdims=True)
        parent = int(rng.choice(pool, p=front.sum(0) / front.sum()))
        child = int(rng.choice(np.setdiff1d(np.arange(len(worths)), pool)))
        before, after = marks(worths[[parent, child]], MINIBATCH, regime, rng).sum(0)
        rollouts += 2 * MINIBATCH
        if after > before:
            pool.append(child)
            rollouts += validation
    yield rollouts, pool[int(seen[:, pool].mean(0).argmax())]


def rivals_budget(
    regime: Regime, runs: int, share: float = 0.9, sizes: Sequence[int] = VALIDATION
) -> tuple[int, int] | None:
    """Return the fewest rollouts with which the rival finds the best in this share of runs, and its validation set."""
    budgets: list[tuple[int, int]] = []
    for validation in sizes:
        found = np.zeros((runs, 3 * PROMPTS * (validation + 2 * MINIBATCH)), bool)
        for run in range(runs):
            rng = np.random.default_rng([run, 1])
            for rollouts, best in rival(planted(rng), validation, regime, rng):
                found[run, rollouts:] = best == BEST
        enough = np.flatnonzero(found.mean(0) >= share)
        budgets += [(int(enough[0]), validation)] if len(enough) else []
    return min(budgets, default=None)


def accepted(worth: float, rng: np.random.Generator) -> bool:
    """Tell whether a candidate that looks worth so much passes the gate against the root."""
    (repeat,) = repeats(NOISY, 1, HELD_OUT, rng, worse_by=-worth)
    judged = {query.query: query for query in repeat.queries}
    return InterimPlan.of([*judged], LOOKS, margin=0.0).analyses(judged)[-1].finding == "not worse"


def refused_by_length(
    factor: float, queries: int, rng: np.random.Generator, *, better: float = 0.0, love: float = 0.0, step: float = 0.0
) -> bool | None:
    """Tell whether a candidate is refused for its length that wins more than half of the pairs; None: it does not."""
    levels = 6.5 + 0.5 * rng.standard_normal((queries, 1, 1)) + np.array([0, np.log(factor)])
    lengths = np.rint(np.exp(levels + 0.3 * rng.standard_normal((queries, 2, 2)))).astype(int)
    longer = np.log(lengths[..., 1] / lengths[..., 0])
    odds = better + 0.6 * rng.standard_normal((queries, 1)) + love * longer / 0.5 + step * np.sign(longer)
    won = rng.random((queries, 2)) < 1 / (1 + np.exp(-odds))
    pairs = {
        f"{at:03}": [Pair(float(won[at, i]), lengths=(int(a), int(b))) for i, (a, b) in enumerate(of_query)]
        for at, of_query in enumerate(lengths)
    }
    result = summarize_pairs(pairs, ("root", "candidate"), clusters=None, floor=None, seed=0)
    return lead_by_length(result, pairs) is not None if result.shown == "better" else None


COLUMNS = ("prompts", "runs", "result", "measured", "must hold")
WIDTHS = (18, 6, 52, 24, 10)


def found_rows(runs: int) -> Iterator[tuple[str, ...]]:
    """Yield what finding the planted best takes, and what it takes the rival."""
    kind, count = "one is the best", str(runs)
    found = [search(planted(rng := np.random.default_rng([run, 0])), rng) for run in range(runs)]
    mine, matches = (float(np.mean(each)) for each in zip(*((s.rollouts, s.matches) for s in found), strict=True))
    yield kind, count, "found", percent([each.best == BEST for each in found]), ">= 90 %"
    yield kind, count, "rollouts, and calls of the judge", f"{mine:.0f}, {CALLS * matches:.0f}", ""
    yield (
        kind,
        count,
        "dearest search, of its ceiling",
        percent(max(s.cost for s in found) / CEILING),
        "<= 100 %",
    )
    for name, regime in (("marks", NOISY), ("marks as sharp", replace(NOISY, alpha=NOISY.gamma))):
        budget = rivals_budget(regime, runs)
        share = f"{budget[0]} on {budget[1]}: {percent(mine / budget[0])}" if budget else "more than all"
        yield kind, count, f"rival's rollouts, {name}; our share", share, "<= 50 %"


def gate_rows(runs: int) -> Iterator[tuple[str, ...]]:
    """Yield how often the gate lets through what is no better. The root itself never challenges."""
    rng = np.random.default_rng(3)
    worse, equal, loved = -0.1 - SPREAD * np.abs(rng.standard_normal(PROMPTS)), np.zeros(PROMPTS), np.zeros(PROMPTS)
    worse[0], loved[BEST] = 0.0, LOVED
    for kind, worths, seen, must in (
        ("all others worse", worse, worse, "<= 5 %"),
        ("all equal", equal, equal, "<= 2.5 %"),
        ("one is loved", equal, loved, ""),
    ):
        passed: list[tuple[bool, bool]] = []
        for run in range(runs):
            chance = np.random.default_rng([run, 2])
            found = search(seen, chance, SHORT)
            judged = [accepted(each[found.challenger], chance) for each in (seen, worths)]
            passed.append((judged[0] and found.chance >= LEAST_P_ABOVE, judged[1]))
        yield kind, str(runs), "accepted", percent([one for one, _ in passed]), must
    refused = [not second for first, second in passed if first]
    yield kind, str(len(refused)), "refused by a second judge", percent(refused), ">= 95 %"


def length_rows(runs: int) -> Iterator[tuple[str, ...]]:
    """Yield how often what wins the gate is refused for its length: where length alone wins it, and where it is better.

    `accepted` is of all candidates, `refused` of those that win more than half.
    """
    for queries in (13, 30, HELD_OUT):
        for factor in (1.3, 2.0, 4.0):
            rng = np.random.default_rng([queries, int(10 * factor)])
            said = [refused_by_length(factor, queries, rng, **LOVES[run % len(LOVES)]) for run in range(runs)]
            asked = [each for each in said if each is not None]
            what = f"{queries} held out, answers {factor:g} times as long"
            yield "wins by length", str(runs), f"accepted, {what}", percent([each is False for each in said]), "<= 5 %"
            yield "wins by length", str(len(asked)), f"refused, {what}", percent(asked), ">= 95 %"
        for factor in (1.0, 1.3, 2.0, 4.0):
            rng = np.random.default_rng([queries, int(10 * factor), 1])
            better = [refused_by_length(factor, queries, rng, better=1.2) for _ in range(runs)]
            asked = [each for each in better if each is not None]
            what = f"refused, {queries} held out, answers {factor:g} times as long"
            yield "better", str(len(asked)), what, percent(asked), ""


def percent(share: float | Sequence[bool]) -> str:
    """Return a share, or how many of these are true, in per cent."""
    return f"{100 * float(np.mean(share)):.1f} %"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400, help="gates a row; a fourth as many searches for the best")
    add_json_option(parser)
    options = parser.parse_args()
    lines: list[tuple[str, ...]] = []
    for cells in chain(
        [COLUMNS], found_rows(max(1, options.runs // 4)), gate_rows(options.runs), length_rows(options.runs)
    ):
        lines.append(cells)
        print("".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)).rstrip(), flush=True)
    renew(options.json, COLUMNS, lines[1:])


if __name__ == "__main__":
    main()
