"""Two agents of known quality under the simulated judge, as the records that a comparison holds."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from simulated_judge import Array, Regime, cross_match, draw

from harness.core.comparisons import ComparedQuery, ComparedRollout

SHARP = Regime("sharp", 1.5, 0.75, 0.40, 0.45, 0.4, 0.5)
NOISY = Regime("noisy", 1.5, 0.75, 1.20, 1.55, 0.6, 1.5)


@dataclass(frozen=True)
class Repeat:
    """One comparison: its queries, and how much the baseline's own pairs spread."""

    queries: list[ComparedQuery]
    spread: float


def repeats(
    regime: Regime | None, count: int, queries: int, rng: np.random.Generator, *, worse_by: float = 0.0, pairs: int = 2
) -> Iterator[Repeat]:
    """Yield comparisons of a baseline with an agent whose rollouts are worse by `worse_by` standard deviations.

    Without a regime the judge likes whoever stands first.
    """
    for _ in range(count):
        calls = simulated_calls(regime, queries, pairs, rng, worse_by)
        yield Repeat([_query(number, calls[number], pairs) for number in range(queries)], _spread(calls, pairs))


def simulated_calls(
    regime: Regime | None, queries: int, pairs: int, rng: np.random.Generator, worse_by: float
) -> Array:
    """Return scores [Q, 2 K, 2 K, 2] of every pair of both agents' K samples, the baseline's first."""
    if regime is None:
        return np.broadcast_to(np.array([7.0, 4.0]), (queries, 2 * pairs, 2 * pairs, 2))
    groups = draw(regime, queries, 2 * pairs, rng, times=1).calls[:, 0]
    handicap = np.repeat([0.0, worse_by * regime.gamma / 2], pairs)
    shift = np.stack(np.broadcast_arrays(-handicap[:, None], -handicap[None, :]), axis=-1)
    return np.asarray(np.rint(10 * np.clip(groups + shift, 0, 10)) / 10, np.float64)


def _spread(calls: Array, pairs: int) -> float:
    """Return the spread of a query's win rate between equal agents, as a comparison takes it from the baseline's run.

    A pair of the baseline's own samples that did not tie lies one half off the middle.
    """
    i, j = np.triu_indices(pairs, 1)
    margins = calls[:, i, j, 0] - calls[:, i, j, 1] + calls[:, j, i, 1] - calls[:, j, i, 0]
    return float(np.sqrt((np.abs(margins) > 0.01).mean() / 4 / pairs))


def _query(number: int, calls: Array, pairs: int) -> ComparedQuery:
    name = f"{number:05}"
    rollouts = tuple(
        tuple(ComparedRollout(index=i, role="sample", status="ok", transcript=f"{side}-{i}") for i in range(pairs))
        for side in "AB"
    )
    matches = tuple(cross_match(i, np.stack([calls[i, pairs + i], calls[pairs + i, i, ::-1]])) for i in range(pairs))
    return ComparedQuery(query=name, ids=(name, name), text=name, rollouts=rollouts, matches=matches)
