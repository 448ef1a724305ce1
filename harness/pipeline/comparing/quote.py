"""What a comparison would reuse and buy, before anything is spent."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio.lowlevel

from harness.archive.reader import FolderReader, RunReader
from harness.archive.store import ReadStore
from harness.core.errors import HarnessError, first_error
from harness.endpoints.costs import CostBounds
from harness.judging.juror import PairLedger
from harness.judging.verdict_cache import VerdictCache
from harness.pipeline.comparing.archived import is_complete, open_lending
from harness.pipeline.comparing.cross_judge import open_cross_judge
from harness.pipeline.comparing.plan import CompareOptions, ComparisonPlan, plan_comparison, without_calls
from harness.pipeline.comparing.sides import open_sides, shared_group
from harness.pipeline.costs import judge_cost, prices_by_name
from harness.pipeline.quote import Quote, lending_fault
from harness.pipeline.run_environment import RunEnvironment


@dataclass(frozen=True)
class ComparisonQuote(Quote):
    """What a comparison would reuse and buy, and of what."""

    queries: int = 0
    """Queries that all sides share."""
    pairs: int = 0
    """Pairs that are compared, the anchors' among them."""
    forfeits: int = 0
    """Those of them that need no judge: a rollout of theirs failed by the agent's own making."""
    rubric: str = ""
    offline: bool = False
    """Whether a side's model or the judge is embedded."""
    complete: bool = False
    """Whether the comparison is there already, with nothing missing."""


async def quote_comparison(
    folders: Sequence[Path], run_env: RunEnvironment, options: CompareOptions
) -> ComparisonQuote:
    """Tell what comparing runs would reuse and buy, without buying or writing anything. Raises UsageError."""
    with open_sides(folders) as readers:
        plan = plan_comparison(readers, run_env.environ, options)
        with open_lending(plan, readers, run_env) as reuse_sources:
            return await quote_plan(plan, readers, reuse_sources, run_env)


async def quote_plan(
    plan: ComparisonPlan, readers: Sequence[RunReader], reuse_sources: Sequence[FolderReader], run_env: RunEnvironment
) -> ComparisonQuote:
    """Tell what a planned comparison would reuse and buy. Raises UsageError if it would buy and has no key for it."""
    refusal = lending_fault(plan.judging)
    need = await _need(without_calls(plan), readers, reuse_sources, run_env)
    missing = len(need.missing)
    if missing and refusal:
        raise refusal
    settings, judge = plan.judging.settings, plan.judging.judge
    return ComparisonQuote(
        reused=len(need.reused),
        bought=(missing, missing),
        cost=judge_cost(settings, judge, (missing, missing)) if missing else CostBounds(0, 0),
        judge=judge.model,
        judge_places=judge.places,
        prices_by_name=tuple(prices_by_name(settings, judge)) if missing else (),
        queries=len(plan.matched.queries),
        pairs=need.pairs,
        forfeits=need.forfeits,
        rubric=plan.judging.rubric.name,
        offline=plan.offline,
        complete=is_complete(plan, run_env),
    )


@dataclass
class _Need:
    reused: set[str]
    missing: set[str]
    pairs: int = 0
    forfeits: int = 0


async def _need(
    plan: ComparisonPlan, readers: Sequence[RunReader], reuse_sources: Sequence[FolderReader], run_env: RunEnvironment
) -> _Need:
    """Compare with what is at hand; what is missing is told by the verdicts that could not be had."""
    need, cache = _Need(set(), set()), VerdictCache(ReadStore(list(reuse_sources)), free=True)
    try:
        async with open_cross_judge(plan, cache, run_env) as judge:
            for query in plan.matched.queries:
                await anyio.lowlevel.checkpoint()  # nothing else lets an interrupt in
                ledger, groups = PairLedger(), [shared_group(*at) for at in zip(readers, query.ids, strict=True)]
                compared = await judge(query, groups, ledger, lambda _: "")
                need.reused |= ledger.reused.keys()
                need.missing |= {*compared.failed_verdicts}
                need.pairs += len(compared.matches)
                need.forfeits += sum(match.forfeit is not None for match in compared.matches)
    except* HarnessError as errors:
        raise first_error(errors) from None
    return need
