"""Judging by batch, opened for a run: where its judges' batches are, and what is under way."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from harness.archive import BatchLog, RunStore
from harness.core.errors import UsageError
from harness.core.wording import option, switch
from harness.endpoints import BatchFiles
from harness.judging import BatchDesk, BatchRounds
from harness.pipeline.plan import JudgingPlan
from harness.pipeline.stages import judge_endpoints
from harness.pipeline.surroundings import Surroundings


@asynccontextmanager
async def open_batches(
    plan: JudgingPlan, store: RunStore, surroundings: Surroundings
) -> AsyncGenerator[BatchRounds | None]:
    """Give the batches of a run that is judged so; None for another. One question finds out whether there are any.

    Raises Refused for an endpoint without batches, UsageError for the embedded judge.
    """
    if not plan.settings.judge_batch or plan.settings.topology == "none":
        yield None
        return
    async with AsyncExitStack() as connections:
        files: dict[str, BatchFiles] = {}
        for member, endpoint in judge_endpoints(plan.judge, plan.settings, plan.credentials):
            if endpoint is None:
                raise UsageError(
                    f"{switch('judge_batch')}: the embedded judge has no batches; leave it out, or name a judge with "
                    f"{option('judge_model')}"
                )
            files[member.identity] = BatchFiles(endpoint, member.model, plan.settings.retries)
            connections.push_async_callback(files[member.identity].aclose)
        log = BatchLog(store.folder)
        desk = BatchDesk(store, log, files.keys())
        connections.callback(desk.close)
        rounds = BatchRounds(store, log, desk, files, surroundings.clock, surroundings.progress)
        await rounds.check()
        await rounds.collect()
        yield rounds
