"""A judge made of random numbers, after which designs can be compared: its preferences, noise and biases are known.

The model and its regimes are those of the evidence that the benchmark reproduces: quality q ~ N(0, 1) a rollout; a call
with i first and j second gives each side an integer path and answer mark, drawn (sd 0.4) around a level

    6 + alpha (q_i + q_j)/2 +- [gamma (q_i - q_j) + bias + u_ij]/2 + c + e,

plus for the first side, minus for the second; u_ij is the pair's own and antisymmetric, c the call's, e the side's.
The bias is b (1 + N(0, 0.5^2)) for a group, and N(0, (b/2)^2) more for a pair, always for the side shown first.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core.comparisons import CrossMatch

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Regime:
    """How sharp a judge is. See the module's formula; `e`, `c` and `u` are standard deviations."""

    name: str
    gamma: float
    alpha: float
    u: float
    e: float
    c: float
    b: float


REGIMES = (
    Regime("sharp", 1.5, 0.75, 0.40, 0.45, 0.4, 0.5),
    Regime("noisy", 1.5, 0.75, 1.20, 1.55, 0.6, 1.5),
    Regime("relative", 1.5, 0.0, 1.20, 1.55, 0.6, 1.5),
)
DIFFERING = ", differing"
"""After the name of a judge: queries differ in level, spread and noise."""
MARK_SD = 0.4
RULER_STEP = 0.05
"""What a listwise judge's scores are rounded to."""


@dataclass(frozen=True)
class Groups:
    """Judged groups: `quality` is [G, N]; `calls` is [G, K, N, N, 2].

    `calls[g, k, i, j]` is the k-th time that i is shown first and j second: score of i, score of j, in tenths 0..10.
    """

    quality: Array
    calls: Array


@dataclass(frozen=True)
class Queries:
    """How queries differ, [G, 1] each: the level of their marks, how far qualities and noise are spread."""

    level: Array
    spread: Array
    noise: Array


def draw_queries(groups: int, rng: np.random.Generator) -> Queries:
    """Return queries whose level is N(0, 1.5^2), with qualities e^(z/2) as wide and noise e^(0.3 z) as wide."""
    level, spread, noise = rng.standard_normal((3, groups, 1))
    return Queries(1.5 * level, np.exp(0.5 * spread), np.exp(0.3 * noise))


def draw(
    regime: Regime,
    groups: int,
    n: int,
    rng: np.random.Generator,
    *,
    times: int = 2,
    quality: Array | None = None,
    queries: Queries | None = None,
) -> Groups:
    """Draw groups of `n` with every call that could be made, `times` over (a pair judged again is judged afresh).

    `quality` [groups, n]: in place of a drawn one. `queries`: the groups' queries, if they differ.
    """
    ones = np.ones((groups, 1))
    of = queries or Queries(0 * ones, ones, ones)
    q = rng.standard_normal((groups, n)) * of.spread if quality is None else quality
    pair = rng.standard_normal((groups, n, n)) * regime.u
    u = np.triu(pair, 1) - np.swapaxes(np.triu(pair, 1), 1, 2)
    of_pair = np.triu(rng.standard_normal((groups, n, n)) * regime.b / 2, 1)
    bias = regime.b * (1 + 0.5 * rng.standard_normal((groups, 1, 1))) + of_pair + np.swapaxes(of_pair, 1, 2)
    first, second = q[:, :, None], q[:, None, :]
    level = 6 + of.level[..., None] + regime.alpha * (first + second) / 2
    lead = (regime.gamma * (first - second) + bias + u) / 2
    shape = (groups, times, n, n)
    noise = of.noise[..., None, None]
    c = noise * rng.standard_normal(shape) * regime.c
    sides = np.stack([level + lead, level - lead], axis=-1)[:, None] + c[..., None]
    sides = sides + noise[..., None] * rng.standard_normal((*shape, 2)) * regime.e
    return Groups(q, _marked(sides, rng))


def listwise(regime: Regime, quality: Array, rng: np.random.Generator, calls: int) -> Array:
    """Return the mean score [G, N] of `calls` listwise calls, under the assumption stated in `ASSUMPTION`."""
    of_rollout = rng.standard_normal(quality.shape) * regime.u / np.sqrt(2)
    scores: list[Array] = []
    for _ in range(calls):
        place = np.argsort(rng.random(quality.shape), axis=1) / (quality.shape[1] - 1) - 0.5
        level = (
            6 + regime.gamma * quality + of_rollout - regime.b * place + rng.standard_normal(quality.shape) * regime.e
        )
        scores.append(np.clip(np.rint(level / 10 / RULER_STEP) * RULER_STEP, 0, 1))
    return np.asarray(np.stack(scores).mean(axis=0), np.float64)


ASSUMPTION = (
    "RULER: one listwise call scores rollout i at 6 + gamma q_i + N(0, u^2/2) of its own + N(0, e^2) for the call, "
    "less the regime's b from the first place shown to the last; over 10, rounded to 0.05. No real judge was run."
)


def _marked(level: Array, rng: np.random.Generator) -> Array:
    """Return 0.4 path + 0.6 answer of integer marks around each level, in exact tenths."""
    path, answer = (np.clip(np.rint(level + MARK_SD * rng.standard_normal(level.shape)), 0, 10) for _ in range(2))
    return np.rint(4 * path + 6 * answer) / 10


def cross_match(place: int, orders: Array) -> CrossMatch:
    """Return the match of the `place`-th pair of samples, whose two orders gave [order, side] scores in tenths."""
    scores = tuple((float(first), float(second)) for first, second in orders)
    first, second = (float(score) for score in np.rint(orders.sum(axis=0) * 10) / 20)
    leads = [np.sign(round(a - b, 1)) for a, b in scores]
    return CrossMatch(
        sides=(0, 1),
        role="sample",
        first=place,
        second=place,
        verdicts=("1", "2"),
        shown_first=("first", "second"),
        scores=scores,
        score_first=first,
        score_second=second,
        winner="tie" if first == second else "first" if first > second else "second",
        flipped=bool(leads[0] * leads[1] < 0),
        inconsistent=0 in leads and leads[0] != leads[1],
    )


def mean_spearman(scores: Array, quality: Array) -> tuple[float, float]:
    """Return the mean Spearman correlation of [G, N] scores with the truth, ties sharing ranks, and its standard error.

    A group whose scores are all equal counts as 0: it tells nothing.
    """
    a, b = _ranks(scores), _ranks(quality)
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    spread = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    rho = np.divide((a * b).sum(axis=1), spread, out=np.zeros(len(a)), where=spread > 0)
    return float(rho.mean()), float(rho.std(ddof=1) / np.sqrt(len(rho)))


def top_hits(scores: Array, quality: Array) -> float:
    """Return how often the highest score is the best rollout's; k on top together count 1/k."""
    top = scores == scores.max(axis=1, keepdims=True)
    best = np.take_along_axis(top, quality.argmax(axis=1)[:, None], axis=1)[:, 0]
    return float((best / top.sum(axis=1)).mean())


def _ranks(values: Array) -> Array:
    """Return ranks 0.. along the last axis, ties at the average of their places."""
    below = (values[:, None, :] < values[:, :, None]).sum(axis=2)
    level = (values[:, None, :] == values[:, :, None]).sum(axis=2)
    return below + (level - 1) / 2
