"""What a comparison takes, of runs and of agents that are rolled out for it, before anything is spent."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import anyio.lowlevel

from harness.archive.reader import FolderReader, RunReader
from harness.archive.store import ReadStore
from harness.core.errors import HarnessError, UsageError, first_error
from harness.core.wording import option
from harness.endpoints.costs import CostBounds, total_bounds
from harness.judging.jury import PairLedger
from harness.judging.verdict_cache import VerdictCache
from harness.pipeline.comparing.plan import (
    CompareOptions,
    ComparisonPlan,
    check_offline,
    is_complete,
    open_cross_judge,
    plan_judging,
)
from harness.pipeline.comparing.sides import SIDE_LABELS, shared_group
from harness.pipeline.costs import judge_cost, prices_by_name
from harness.pipeline.plan import Prepared
from harness.pipeline.rescoring import Quote
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import judge_fault


@dataclass(frozen=True)
class ComparisonQuote(Quote):
    """What a comparison would reuse and buy, and of what."""

    queries: int = 0
    pairs: int = 0
    """Pairs that are compared, the anchors' among them."""
    forfeits: int = 0
    """Those of them that need no judge: a rollout of theirs failed by the agent's own making."""
    rubric: str = ""
    offline: bool = False
    complete: bool = False


async def quote_plan(
    plan: ComparisonPlan, readers: Sequence[RunReader], reuse_sources: Sequence[FolderReader], run_env: RunEnvironment
) -> ComparisonQuote:
    """Tell what a planned comparison would reuse and buy. Raises UsageError if it would buy and has no key for it."""
    refusal = judge_fault(plan.judging)
    reused, absent, pairs, forfeits = set[str](), set[str](), 0, 0
    try:
        cache = VerdictCache(ReadStore(list(reuse_sources)), free=True)
        async with open_cross_judge(plan.without_calls, cache, run_env) as cross_judge:
            for query in plan.queries:
                await anyio.lowlevel.checkpoint()  # nothing else lets an interrupt in
                ledger, groups = PairLedger(), [shared_group(*at) for at in zip(readers, query.ids, strict=True)]
                compared = await cross_judge(query, groups, ledger, lambda _: "")
                reused |= ledger.reused.keys()
                absent |= {*compared.failed_verdicts}
                pairs += len(compared.matches)
                forfeits += sum(match.forfeit is not None for match in compared.matches)
    except* HarnessError as errors:
        raise first_error(errors) from None
    missing = len(absent)
    if missing and refusal:
        raise refusal
    settings, judge = plan.judging.settings, plan.judging.judge
    return ComparisonQuote(
        reused=len(reused),
        bought=(missing, missing),
        cost=judge_cost(settings, judge, (missing, missing)) if missing else CostBounds(0, 0),
        judge=judge.model,
        judge_places=judge.places,
        prices_by_name=tuple(prices_by_name(settings, judge)) if missing else (),
        queries=len(plan.queries),
        pairs=pairs,
        forfeits=forfeits,
        rubric=plan.judging.rubric.name,
        offline=plan.offline,
        complete=is_complete(plan, run_env),
    )


_LEAST_ROLLOUTS = 2
AnySide = Prepared | Path
"""A side of a comparison: an agent that is to be rolled out, or the folder of a run."""


@dataclass(frozen=True)
class RollOutQuote:
    """What rolling agents out and comparing them takes."""

    queries: int
    agent_runs: int
    judge_calls: tuple[int, int]
    """The fewest, where every rollout fails, and the most, repair turns aside."""
    agent_cost: CostBounds | None
    judge_cost: CostBounds | None
    """USD; None where a price is unknown."""
    places: tuple[tuple[str, str], ...]
    """The label of each side that is rolled out, and where it is asked: model@host."""
    judge: str
    judge_places: str
    rubric: str
    offline: bool

    @property
    def cost(self) -> CostBounds | None:
        """What all of it is taken to cost; None if any price is unknown."""
        return total_bounds(self.agent_cost, self.judge_cost)


def quote_roll_out(
    sides: Sequence[AnySide], queries: int, run_env: RunEnvironment, options: CompareOptions
) -> RollOutQuote:
    """Tell what comparing sides takes, some of which are agents. Raises UsageError for what cannot be compared."""
    agents = [(SIDE_LABELS[at], side) for at, side in enumerate(sides) if isinstance(side, Prepared)]
    with ExitStack() as opened:
        runs = [opened.enter_context(RunReader(side)) for side in sides if isinstance(side, Path)]
        of_runs = iter(runs)
        judging = plan_judging(runs, run_env.environ, options)[1] if runs else agents[0][1]
        samples = [
            side.settings.n - 1
            if isinstance(side, Prepared)
            else max((len(places) for places in next(of_runs).index.rollouts.values()), default=0)
            for side in sides
        ]
        met = sum(min(options.pairs, a * b) + 1 for a, b in combinations(samples, 2))  # of samples, and the anchors'
        calls = 2 * met * judging.settings.judge_repeats * len(judging.judge.members) * queries
    embedded = [label for label, side in agents if side.agent.offline]
    check_offline(embedded, judging.judge, allowed=options.allow_offline)
    if fault := judge_fault(judging):
        raise fault
    for label, side in agents:
        if side.settings.n < _LEAST_ROLLOUTS:
            raise UsageError(
                f"{option('n', side.settings.n)}: side {label} would have no sample to compare, for rollout 0 is the "
                f"anchor; give at least {option('n', _LEAST_ROLLOUTS)}"
            )
    agents_cost: CostBounds | None = CostBounds(0, 0)
    for _, side in agents:
        agents_cost = total_bounds(agents_cost, side.agent_cost(queries))
    return RollOutQuote(
        queries=queries,
        agent_runs=sum(side.settings.n * queries for _, side in agents),
        judge_calls=(0, calls),
        agent_cost=agents_cost,
        judge_cost=judge_cost(judging.settings, judging.judge, (0, calls)),
        places=tuple((label, side.agent.place) for label, side in agents),
        judge=judging.judge.model,
        judge_places=judging.judge.places,
        rubric=judging.rubric.name,
        offline=judging.judge.offline or any(side.agent.offline for _, side in agents),
    )
