"""The story: roll a query out, rank the rollouts, archive everything; judge an archived run again.

Read this first. Each stage is a room of its own; this file only passes their records on.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio.lowlevel

from harness.archive import RunInfo, RunReader, RunStore, missing_of, redacted_of
from harness.core.errors import UsageError, did_you_mean, quoted
from harness.core.records import Query, Rollout
from harness.core.settings import Settings
from harness.core.wording import call, switch
from harness.endpoints import AGENT_URL, Credentials
from harness.judging import VerdictCache
from harness.pipeline.concurrency import for_each
from harness.pipeline.costs import ceiling_of, check_prices
from harness.pipeline.cut_short import one_error
from harness.pipeline.instructions import with_recorded_instructions
from harness.pipeline.plan import (
    PLAIN_RESCORE,
    RUNS_OWN,
    JudgingPlan,
    NamedAddresses,
    Prepared,
    RescoreOptions,
    as_begun,
    rescoring,
)
from harness.pipeline.quote import lending_fault, quote_rescoring
from harness.pipeline.rank_groups import OpenRanking, open_lenders, open_ranking
from harness.pipeline.resolve import AgentSpec, redactor_of, replay_env, resolve_agent
from harness.pipeline.run_info import new_run_info, package_versions
from harness.pipeline.stages import open_engine
from harness.pipeline.surroundings import Surroundings
from harness.pipeline.totals import Size, counted_stream
from harness.pipeline.trust import agent_of_run, attest_judge, attested, trust_in, trust_in_changed
from harness.rollouts import (
    Engine,
    LoadedAgent,
    RawCall,
    RecordedRollout,
    Replayed,
    ReplayOptions,
    replay_rollout,
    unpack,
)

_GROUPS_AT_ONCE = 8
"""Enough to keep the rollout limiter busy while other groups are judged; each open group is held in memory."""


@dataclass(frozen=True)
class RunResult:
    """What a run or a rescoring left behind: read it with RunReader(path).ranking(ranking_id)."""

    path: Path
    ranking_id: str
    stopped: str | None = None
    """Why it was not brought to an end: --max-cost. What was paid for is kept, and the ranking has no footer."""
    spent: float = 0.0
    """USD that it took, as far as prices are known."""
    given_up: str | None = None
    """Why it was not brought to an end: an endpoint gave no reply. The ranking has no footer."""


async def run_queries(
    prepared: Prepared, queries: Iterable[Query], surroundings: Surroundings, *, reuse: Sequence[Path] = ()
) -> RunResult:
    """Roll out, judge and rank every query into a new run; verdicts that the runs in `reuse` hold are not bought.

    Queries in a sequence are all written down before anything is spent, those of a stream as they come.
    Raises Refused where the endpoint turned the first call down: with nothing spent the run is taken away again.
    """
    agent, settings = prepared.agent, prepared.settings
    ceiling = ceiling_of(settings, prepared.judge, agent)
    redact = redactor_of(agent.loaded, settings, surroundings.environ)
    listed = queries if isinstance(queries, Sequence) else ()
    size = Size(len(queries) if isinstance(queries, Sequence) else None, settings.n)
    info = new_run_info(prepared, surroundings.clock, len(listed) or None, redact)
    with (
        open_lenders(reuse) as lenders,
        RunStore.create(settings.runs_dir, info, listed, redact=redact) as store,
        attested(store, surroundings, agent.loaded),
    ):
        surroundings.progress.opened(store.folder)
        stop, deadline = surroundings.stop, surroundings.deadline
        cache = VerdictCache(store, surroundings.progress, lenders, ceiling, stop=stop, deadline=deadline)
        with one_error(store, new=True):
            async with _open_stages(prepared, agent, store, cache, surroundings, size) as stages:

                async def work(query: Query) -> None:
                    store.add_query(query)
                    await stages.roll_out_and_rank(query)

                def learn(count: int) -> None:
                    surroundings.progress.total("rollouts", count * settings.n, count * settings.n)
                    stages.ranking.calls.learn(count)

                if size.queries is None:
                    surroundings.progress.total("rollouts", 0, None)
                    await for_each(counted_stream(queries, learn), work, _GROUPS_AT_ONCE)
                else:
                    learn(size.queries)
                    await for_each(queries, work, _GROUPS_AT_ONCE)
        given_up = surroundings.gates.given_up
        return RunResult(store.folder, stages.ranking.head.id, ceiling.stopped, ceiling.spent, given_up)


async def resume_run(
    folder: Path,
    loaded: LoadedAgent | Callable[[], LoadedAgent],
    surroundings: Surroundings,
    *,
    retry_failed: bool = False,
    accept_changed_agent: bool = False,
    changes: Mapping[str, Any] | None = None,
    rubric_word: str | None = None,
    named: NamedAddresses = RUNS_OWN,
    trust_archive: bool = False,
) -> RunResult | None:
    """Do what is missing of a run, under its own settings: rollouts, verdicts, a ranking. None if nothing is missing.

    `loaded` is the run's agent, or finds it; it is needed only if rollouts are missing. The newest record of a rollout
    counts, so one that is tried again replaces the one that failed. `changes` are settings in place of the run's own:
    a ceiling, prices; `rubric_word` names the run's rubric where the run does not hold its text.
    Raises UsageError also for an agent that is no longer the one of the run, unless that is accepted (and then
    written down).
    """
    with RunReader(folder) as before:
        info, missing = before.info, missing_of(before, retry_failed=retry_failed)
        if missing.nothing:
            return None
        _refuse_redacted(before, missing.rollouts)
        urls = named.base_url, named.judge_base_url
        trust = trust_in(before, surroundings.environ, *urls, trust_archive=trust_archive)
    plan = as_begun(info, missing.like, changes or {}, trust, named, rubric_word)
    if missing.rollouts:
        plan = replace(plan, settings=trust.checked(plan.settings, changes or {}))
    agent = (loaded() if callable(loaded) else loaded) if missing.rollouts else None
    redact = redactor_of(agent, trust.without_patterns(plan.settings), surroundings.environ)
    with RunStore(folder, surroundings.clock(), versions=package_versions(), redact=redact) as store:
        missing = missing_of(store.reader, retry_failed=retry_failed)  # another process may have gone on meanwhile
        if missing.nothing:
            return None
        surroundings.progress.opened(folder)
        check_prices(plan.settings, plan.judge)
        with one_error(store, new=False):
            at_work = agent if missing.rollouts else None
            if at_work and not (changes or {}).get("instructions"):
                at_work = with_recorded_instructions(at_work, info, plan.settings)
            spec = await _agent_of(info, at_work, plan.settings, plan.credentials) if at_work else None
            ceiling = ceiling_of(plan.settings, plan.judge, spec)
            cache = VerdictCache(store, surroundings.progress, ceiling=ceiling, stop=surroundings.stop)
            size = Size(len(store.reader.index.queries), plan.settings.n)
            async with _open_stages(plan, spec, store, cache, surroundings, size) as stages:
                if stages.engine:
                    await _check_agent(store, stages.engine, accept=accept_changed_agent)
                surroundings.progress.total("rollouts", missing.count, missing.count)
                work = partial(stages.complete, store.reader, missing.rollouts)
                await for_each(store.reader.queries(), work, _GROUPS_AT_ONCE)
        given_up = surroundings.gates.given_up
        return RunResult(folder, stages.ranking.head.id, ceiling.stopped, ceiling.spent, given_up)


@dataclass(frozen=True)
class _Stages:
    """A run at work: what rolls out (None where every rollout is there), and the ranking that is being written."""

    engine: Engine | None
    ranking: OpenRanking

    async def roll_out_and_rank(self, query: Query, kept: Sequence[Rollout] = ()) -> None:
        """Roll a query out, less the rollouts that are `kept`, and rank all of them."""
        assert self.engine, "there is an engine where rollouts are missing"  # noqa: S101 - for the type checker
        group = await self.engine.roll_out(query, kept)
        await self.ranking.rank_or_leave(group)

    async def complete(self, reader: RunReader, missing: Mapping[str, Sequence[int]], query: Query) -> None:
        """Run the rollouts that are missing of a query, and rank it."""
        group, indices = reader.group(query), missing.get(query.id, ())
        if self.engine and indices:
            await self.roll_out_and_rank(query, [r for r in group.rollouts if r.index not in indices])
        else:
            await self.ranking.rank(group)


@asynccontextmanager
async def _open_stages(
    plan: JudgingPlan,
    agent: AgentSpec | None,
    store: RunStore,
    cache: VerdictCache,
    surroundings: Surroundings,
    size: Size,
) -> AsyncGenerator[_Stages]:
    """Open an engine, if there is an agent to run, and a ranking."""
    async with AsyncExitStack() as opened:
        engine = None
        if agent:
            run_id, ceiling = store.reader.info.id, cache.ceiling
            opening = open_engine(agent, plan.settings, store, surroundings, run_id=run_id, ceiling=ceiling)
            engine = await opened.enter_async_context(opening)
        ranking = await opened.enter_async_context(open_ranking(plan, store, cache, surroundings, size))
        yield _Stages(engine, ranking)


async def rescore_run(
    folder: Path,
    changes: Mapping[str, Any],
    surroundings: Surroundings,
    options: RescoreOptions = PLAIN_RESCORE,
) -> RunResult:
    """Judge an archived run again under `changes` to its settings, buying only verdicts that it does not hold.

    The rollouts are read, never touched; the ranking is written beside those that are there.
    Raises UsageError, ArchiveLocked, ArchiveDamaged.
    """
    with open_lenders(options.reuse) as lenders:
        with RunReader(folder) as reader:
            trust = trust_in_changed(reader, changes, surroundings.environ, trust_archive=options.trust_archive)
            plan = rescoring(reader, changes, trust, options)
        if lending_fault(plan):  # raises if anything is to be bought
            await quote_rescoring(folder, changes, surroundings, options)
            plan = replace(plan, credentials=plan.credentials.without_calls())
        attest_judge(trust, surroundings, [member.base_url for member in plan.judge.members])
        patterns = plan.settings if "redact" in changes else trust.without_patterns(plan.settings)
        redact = redactor_of(None, patterns, surroundings.environ)
        ceiling = ceiling_of(plan.settings, plan.judge)
        with RunStore(folder, surroundings.clock(), versions=package_versions(), redact=redact) as store:
            surroundings.progress.opened(folder)
            cache = VerdictCache(store, surroundings.progress, lenders, ceiling, options.free, surroundings.stop)
            with one_error(store, new=False):
                async with open_ranking(plan, store, cache, surroundings, _size_of(store.reader)) as ranking:
                    for query in store.reader.queries():
                        await anyio.lowlevel.checkpoint()  # where nothing is bought, nothing else lets an interrupt in
                        await ranking.rank(store.reader.group(query))
            given_up = surroundings.gates.given_up
            return RunResult(folder, ranking.head.id, ceiling.stopped, ceiling.spent, given_up)


def _size_of(reader: RunReader) -> Size:
    """Return how many queries there are to rank, and of how many rollouts that ended well the largest is."""
    groups = [reader.index.rollouts.get(query, {}) for query in reader.index.queries]
    return Size(len(groups), max((sum(r.status == "ok" for r in places.values()) for places in groups), default=0))


async def replay_run(
    folder: Path,
    loaded: LoadedAgent | None,
    environ: Mapping[str, str],
    *,
    query: str | None = None,
    rollout: int | None = None,
    live_tools: bool = False,
    trust_archive: bool = False,
) -> AsyncGenerator[Replayed]:
    """Drive the agent's code again on what an archived run recorded: free, offline, and nothing is written.

    Yields each rollout's outcome, of one query or rollout where named. Without `loaded` the run's agent is loaded: from
    where this machine's record says, else by its name. Raises UsageError, ArchiveDamaged.
    """
    with RunReader(folder) as reader:
        if next(_chosen(reader, query, rollout))[1].origin:
            raise UsageError(f"run {reader.info.id} was imported: it holds no model calls to replay")
        trust = trust_in(reader, environ, trust_archive=trust_archive)
        loaded = loaded or agent_of_run(reader.info, trust.attestation, Path.cwd(), "replay", folder)
        loaded = replace(loaded, instructions=reader.info.instructions)
        settings = trust.checked(reader.settings) if live_tools else trust.replayed(reader.settings)
        redact = redactor_of(loaded, settings, environ)
        for of_query, recorded in _chosen(reader, query, rollout):
            calls = _raw_calls(reader, recorded)
            yield await replay_rollout(
                loaded,
                replay_env(reader.info, settings, recorded, calls),
                RecordedRollout(of_query, recorded, calls),
                ReplayOptions(settings.max_turns, settings.timeout, redact, live_tools),
            )


def _raw_calls(reader: RunReader, recorded: Rollout) -> list[RawCall]:
    if not recorded.raw_calls:
        return []
    return unpack(reader.blobs.get(recorded.raw_calls), reader.blobs.get, reader.blobs.place(recorded.raw_calls))


def _refuse_redacted(reader: RunReader, missing: Mapping[str, Sequence[int]]) -> None:
    """Refuse to run an agent on a query of which only the redacted text is there."""
    if lost := redacted_of(reader, missing):
        raise UsageError(
            f"query {lost.id!r} of run {reader.info.id} was redacted, and its true text is not kept: its missing "
            f"rollouts cannot be run; {call('rescore', reader.folder)} ranks those that are there"
        )


async def _agent_of(info: RunInfo, loaded: LoadedAgent, settings: Settings, credentials: Credentials) -> AgentSpec:
    """Resolve the agent to where it ran before, never to another place. Raises UsageError."""
    at_openai = info.endpoint is not None and info.endpoint.get("base_url") is None
    spec = await resolve_agent(loaded, settings, credentials.with_variables(**({AGENT_URL: ""} if at_openai else {})))
    if spec.offline and not info.agent_offline:
        raise UsageError(f"run {info.id} is no self-test, and there is no model now: set OPENAI_API_KEY")
    check_prices(settings, None, spec)
    return spec


async def _check_agent(store: RunStore, engine: Engine, *, accept: bool) -> None:
    """Compare the agent with the run's: a recorded rollout is begun anew and stopped before its first model call."""
    reader = store.reader
    recorded = next((r for q in reader.queries() for r in reader.group(q).rollouts if r.fingerprint), None)
    query = recorded and reader.query(recorded.query)
    if recorded is None or query is None:
        return
    if await engine.fingerprint(query, recorded.index) == recorded.fingerprint:
        return
    if not accept:
        raise UsageError(
            f"the agent is no longer the one of run {reader.info.id}: its instructions, tools, handoffs, output "
            f"schema, model or settings have changed ({call('replay')} shows where a request first differs); restore "
            f"it, or go on with {switch('accept_changed_agent')}"
        )
    store.accept("changed agent")


def _chosen(reader: RunReader, query: str | None, rollout: int | None) -> Iterator[tuple[Query, Rollout]]:
    """Yield the rollouts of a run that are meant. Raises UsageError where there are none."""
    queries = list(reader.queries())
    if query is not None and query not in (ids := [q.id for q in queries]):
        raise UsageError(f"no query {quoted(query)} in run {reader.info.id}{did_you_mean(query, ids)}")
    pairs = _rollouts_of(reader, [q for q in queries if query in (None, q.id)], rollout)
    if (first := next(pairs, None)) is None:
        raise UsageError(f"run {reader.info.id} has no rollout {'at all' if rollout is None else rollout}")
    yield first
    yield from pairs


def _rollouts_of(reader: RunReader, queries: Sequence[Query], rollout: int | None) -> Iterator[tuple[Query, Rollout]]:
    for query in queries:
        for recorded in reader.group(query).rollouts:
            if rollout in (None, recorded.index):
                yield query, recorded
