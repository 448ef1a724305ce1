"""Judging by batch, opened for a run: where its judges' batches are, and what is under way."""

import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from fractions import Fraction

from harness.archive.batch_log import BatchLog
from harness.archive.run_store import RunStore
from harness.core.errors import UsageError
from harness.core.settings import Settings
from harness.core.wording import option, switch
from harness.endpoints.batch_files import BatchFiles
from harness.judging.batches.desk import BatchDesk
from harness.judging.batches.rounds import BatchRounds
from harness.pipeline.plan import JudgingPlan
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import judge_endpoints
from harness.ranking.topologies import Entry, make_topology

_DRAWS = 20
"""Tournaments tried to find how many rounds one may take."""


@asynccontextmanager
async def open_batches(
    plan: JudgingPlan, store: RunStore, run_env: RunEnvironment, *, free: bool = False
) -> AsyncGenerator[BatchRounds | None]:
    """Give the batches of a run that is judged so; None for another. One question finds out whether there are any.

    A judging that is `free` asks nobody anything, and ranks by the verdicts that are there: None, too.

    Raises Refused for an endpoint without batches, UsageError for the embedded judge.
    """
    if free or not plan.settings.judge_batch or plan.settings.topology == "none":
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
        rounds = BatchRounds(store, log, desk, files, run_env.clock, run_env.progress)
        await rounds.check()
        await rounds.collect()
        yield rounds


def describe_batches(settings: Settings) -> str | None:
    """Return in words how many batches a judging by batch takes one after another; None where one is enough."""
    if not settings.judge_batch or settings.judge != "pairwise":
        return None
    rng = random.Random(settings.seed)
    rounds = max(_rounds(settings, rng) for _ in range(_DRAWS))
    if rounds <= 1:
        return None
    return (
        f"by batch: {settings.topology} needs up to {rounds} batches, one after another, since who meets whom depends "
        f"on the round before; {option('topology', 'cyclic')} needs 1"
    )


def _rounds(settings: Settings, rng: random.Random) -> int:
    """Return in how many rounds a tournament of rollouts that all differ asks its questions."""
    entry = Entry(range(settings.n), 0, settings.order, rng, settings.budget)
    topology, rounds = make_topology(settings.topology, entry), 0
    strength = [Fraction(place) for place in rng.sample(range(settings.n), settings.n)]
    while pairings := topology.pairings():
        rounds += 1
        for pairing in pairings:
            topology.record(pairing, strength[pairing.a], strength[pairing.b])
    return rounds
