"""The best of N answers in Python, picked as `harness best` picks."""

import json
from typing import Any

from harness.api.groups import rank, rollout
from harness.archive import Store
from harness.core.errors import NothingRankable
from harness.core.rankings import GroupRanking
from harness.core.records import Group, Query, Rollout
from harness.judging import Judge

_DOUBLE_FROM = 16


async def best_of(
    agent: Any,
    query: str | Query,
    n: int = 8,
    judge: str | Judge | None = None,
    *,
    store: Store | None = None,
    **settings: Any,
) -> Any:
    """Run an agent `n` times on a query and return the best answer: a str, or the JSON value of a structured output.

    Picked as `harness best` picks: see `for_best`. Raises UsageError; HarnessError where no rollout ended well or
    the judge's verdicts could not be had.
    """
    with_design = for_best(n) | settings
    group = await rollout(agent, query, n, store=store, **with_design)
    return answer_of(group, await rank(group, judge, store=store, **with_design))


def for_best(n: int) -> dict[str, Any]:
    """Return the settings under which the first place is found best among `n`, and no more is paid for.

    Below 16 every pair meets once, until the leader is best with probability 0.95; from 16 on double elimination
    finds it more often for as many calls (benchmarks/ranking.py prints both). `margins` picks.
    """
    design = {"topology": "cyclic", "sure": 0.95} if n < _DOUBLE_FROM else {"topology": "double"}
    return design | {"estimator": "margins"}


def best_rollout(group: Group, ranking: GroupRanking) -> Rollout:
    """Return the best rollout. Raises HarnessError where there is none."""
    ok = {r.index: r for r in group.rollouts if r.status == "ok"}
    placed = [r for r in ranking.rollouts if r.rank is not None and r.index in ok]
    if len(ok) == 1:
        return next(iter(ok.values()))
    if not placed:
        why = "; ".join(ranking.notes) or "verdicts could not be had, so the rollouts could not be compared"
        raise NothingRankable(f"no best answer: {why}")
    return ok[min(placed, key=lambda r: (r.rank or 0.0, r.index)).index]


def answer_of(group: Group, ranking: GroupRanking) -> Any:
    """Return the best rollout's answer: text, or the value of a structured one. Raises as `best_rollout`."""
    best = best_rollout(group, ranking).trajectory
    return json.loads(best.answer) if best.answer_type == "json" else best.answer
