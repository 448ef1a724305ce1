"""What a rescoring would reuse and buy, before anything is spent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio.lowlevel

from harness.archive.reader import RunReader
from harness.archive.store import ReadStore
from harness.core.errors import HarnessError, UsageError, first_error
from harness.endpoints.costs import CostBounds
from harness.judging.verdict_cache import VerdictCache
from harness.pipeline.costs import judge_cost, prices_by_name
from harness.pipeline.plan import PLAIN_RESCORE, JudgingPlan, RescoreOptions, rescoring
from harness.pipeline.rank_groups import open_lenders, rank_part, taking_part
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import judge_endpoints, open_ranker
from harness.pipeline.trust import trust_in_changed


@dataclass(frozen=True)
class Quote:
    """What a rescoring would reuse and buy: verdicts, the fewest and the most bought, and what they may cost."""

    reused: int
    bought: tuple[int, int]
    cost: CostBounds | None
    judge: str
    judge_places: str
    """Where the judge would be asked: model@host of each member."""
    outdated: int = 0
    """Verdicts at hand that it would reuse, had their transcripts not been written in an older way."""
    prices_by_name: tuple[str, ...] = ()
    """Which jurors take the list price of their name (--price-by-name)."""


async def quote_rescoring(
    folder: Path,
    changes: Mapping[str, Any],
    run_env: RunEnvironment,
    options: RescoreOptions = PLAIN_RESCORE,
) -> Quote:
    """Tell what `rescore_run` would reuse and buy, without buying or writing anything. Raises as `rescore_run` does."""
    with RunReader(folder) as reader, open_lenders(options.reuse) as reuse_sources:
        trust = trust_in_changed(reader, changes, run_env.environ, trust_archive=options.trust_archive)
        plan = rescoring(reader, changes, trust, options)
        refusal = lending_fault(plan)
        plan = replace(plan, credentials=plan.credentials.without_calls())
        readers = [reader, *reuse_sources]
        reused, (low, high) = await _need(plan, readers, run_env)
        if high and refusal:
            raise refusal
        oldest = min(run.info.rendering for run in readers)
        outdated = 0
        if high and oldest < plan.rendering:
            outdated, _ = await _need(replace(plan, rendering=oldest), readers, run_env)
        cost = judge_cost(plan.settings, plan.judge, (low, high)) if high else CostBounds(0, 0)
        named = tuple(prices_by_name(plan.settings, plan.judge)) if high else ()
        return Quote(reused, (low, high), cost, plan.judge.model, plan.judge.places, outdated, named)


def lending_fault(plan: JudgingPlan) -> UsageError | None:
    """Return why a judge of a plan cannot be asked: a key may not go there, or is missing. None where each can."""
    try:
        judge_endpoints(plan.judge, plan.settings, plan.credentials)
    except UsageError as exc:
        return exc
    return None


async def _need(
    plan: JudgingPlan, readers: Sequence[RunReader], run_env: RunEnvironment
) -> tuple[int, tuple[int, int]]:
    """Return how many verdicts of the runs a ranking of the first would reuse, and the fewest and the most missing."""
    reader, cache = readers[0], VerdictCache(ReadStore(list(readers)), free=True)
    reused = low = high = 0
    try:
        async with open_ranker(plan, cache, run_env) as ranker:
            for query in reader.queries():
                await anyio.lowlevel.checkpoint()  # nothing else lets an interrupt in
                group = reader.group(query)
                ranking = await rank_part(ranker, group, plan.settings)
                missing = len(ranking.failed_verdicts) + len(ranking.absent_verdicts)
                reused, low, high = reused + ranking.reused, low + missing, high + missing
                if missing and ranker.adaptive:  # what is missing now may ask for more
                    ok = sum(r.status == "ok" for r in taking_part(group, plan.settings).rollouts)
                    most = ranker.call_bounds(max(1, ok))[1] - ranking.reused
                    high += max(0, most - missing)
    except* HarnessError as errors:
        raise first_error(errors) from None
    return reused, (low, high)
