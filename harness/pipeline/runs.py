"""The story: roll a query out, rank the rollouts, archive everything; judge an archived run again.

Read this first. Each stage is a room of its own; this file only passes their records on.
"""

import math
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from harness.archive.reader import RunReader
from harness.archive.run_info import RunInfo
from harness.archive.run_state import MissingWork, Remaining, count_remaining, find_missing_work, find_redacted
from harness.archive.store import RunStore
from harness.core.errors import UsageError, call, option, switch
from harness.core.records import Group, Query, Rollout
from harness.core.settings import Settings
from harness.endpoints.costs import Ceiling
from harness.endpoints.credentials import AGENT_URL
from harness.judging.batch_desk import BatchRounds
from harness.judging.verdict_cache import VerdictCache
from harness.pipeline.app_checks import check_app
from harness.pipeline.engines import open_engine
from harness.pipeline.judge_calls import Size
from harness.pipeline.judge_inputs import open_reuse_sources
from harness.pipeline.model_names import models_looked_up, models_of_agent, models_of_judge
from harness.pipeline.open_groups import OpenGroup, OpenGroups
from harness.pipeline.plan import JudgingPlan, NamedAddresses, Prepared, RescoreOptions, as_begun, new_run, rescoring
from harness.pipeline.rank_groups import OpenRanking, open_ranking, rank_for_free
from harness.pipeline.rescoring import quote_rescoring
from harness.pipeline.resolve import AgentSpec, check_prices, make_ceiling, make_redactor, resolve_agent
from harness.pipeline.run_environment import RunEnvironment, check_engine, package_versions
from harness.pipeline.stages import judge_fault, maker_elsewhere, open_batches
from harness.pipeline.trust import Trust, attempts_before, attest_judge, attested, one_error, trust_in
from harness.pipeline.varying import EqualAnswers
from harness.pipeline.ways import with_ways
from harness.report.summary.ranking import RankingSummary
from harness.rollouts.branches import branch_budget
from harness.rollouts.engine import Engine, GroupWatch
from harness.rollouts.loading import LoadedAgent

_MB = 1_000_000
_UNJUDGED_AT_LEAST = 8
"""Groups that may be open under a ceiling, however few make up all places for rollouts."""


@dataclass(frozen=True)
class RunResult:
    """What a run or a rescoring left behind: read it with RunReader(path).ranking(ranking_id)."""

    path: Path
    ranking_id: str
    stopped: str | None = None
    """Why it was not brought to an end: --max-cost. What was paid for is kept, and the ranking has no footer."""
    next_ceiling: float | None = None
    """A --max-cost under which the work would go on; None where it was not reached, or another one does not help."""
    spent: float = 0.0
    """USD that it took, as far as prices are known."""
    given_up: str | None = None
    """Why it was not brought to an end: an endpoint gave no reply. The ranking has no footer."""
    out_of_quota: bool = False
    """Whether that endpoint says that the quota is used up."""
    waiting: str | None = None
    """Which batches of judge calls the provider has, in words. The ranking has no footer; `resume_run` goes on."""
    why_never: Callable[[Iterable[str]], str | None] = lambda _: None
    """Called with the verdicts that are missing: why questions go into no batch any more; None where all may."""
    summary: RankingSummary | None = None
    """The ranking summed up, where that was done as it was made; else None."""
    way: str | None = None
    """The judging fingerprint under which extracts of its groups are kept; None where none are."""
    remaining: Remaining | None = None
    """What the run leaves to do, where that was found while its index was open; else None."""


async def run_queries(
    prepared: Prepared, queries: Iterable[Query], run_env: RunEnvironment, *, reuse: Sequence[Path] = ()
) -> RunResult:
    """Roll out, judge and rank every query into a new run; verdicts that the runs in `reuse` hold are not bought.

    A sequence is written down before anything is spent. Raises Refused where the endpoint turned the first call down.
    """
    (prepared,) = await with_ways([prepared], run_env)
    agent, settings = prepared.agent, prepared.settings
    ceiling = make_ceiling(settings, prepared.judge, agent)
    ceiling.spent += prepared.way_found.cost.known if prepared.way_found else 0.0
    redact = make_redactor(agent.loaded, settings, run_env.environ)
    listed = queries if isinstance(queries, Sequence) else ()
    size = Size(len(queries) if isinstance(queries, Sequence) else None, settings.n)
    info = new_run(prepared, run_env.clock, len(listed) or None, redact)
    with (
        open_reuse_sources(reuse) as reuse_sources,
        RunStore.create(settings.runs_dir, info, listed, redact=redact) as store,
        attested(store, run_env, agent.loaded),
    ):
        run_env.progress.opened(store.folder)
        stop, deadline = run_env.stop, run_env.deadline
        cache = VerdictCache(store, run_env.progress, reuse_sources, ceiling, stop=stop, deadline=deadline)
        with one_error(store, new=True):
            async with _open_stages(prepared, agent, store, cache, run_env, size) as stages:

                def learn(count: int) -> None:
                    run_env.progress.total("rollouts", count * settings.n, count * settings.n)
                    stages.ranking.calls.learn(count)

                def streamed() -> Iterator[Query]:
                    count = 0
                    for count, query in enumerate(queries, 1):  # noqa: B007 - counted for after the end
                        yield query
                    learn(count)

                if size.queries is None:
                    run_env.progress.total("rollouts", 0, None)
                else:
                    learn(size.queries)
                asked = streamed() if size.queries is None else queries
                await stages.open_groups.each(asked, stages.complete)
        return stages.result


def open_ended_run(prepared: Prepared, run_env: RunEnvironment) -> Path:
    """Make the folder of a run whose queries come later, with `resume_run`; nothing is asked yet."""
    loaded, settings = prepared.agent.loaded, prepared.settings
    redact = make_redactor(loaded, settings, run_env.environ)
    info = new_run(prepared, run_env.clock, None, redact)
    with RunStore.create(settings.runs_dir, info, redact=redact) as store, attested(store, run_env, loaded):
        return store.folder


async def resume_run(
    folder: Path,
    loaded: LoadedAgent | Callable[[], LoadedAgent],
    run_env: RunEnvironment,
    *,
    retry_failed: bool = False,
    accept_changed_agent: bool = False,
    changes: Mapping[str, Any] | None = None,
    rubric_word: str | None = None,
    named: NamedAddresses | None = None,
    trust_archive: bool = False,
    queries: Iterable[Query] | None = None,
    new: bool = False,
) -> RunResult | None:
    """Do what is missing of a run, under its own settings: rollouts, verdicts, a ranking. None if nothing is missing.

    `loaded`, the run's agent or what finds it, is needed only if rollouts are missing; their newest records count.
    `changes` are settings in place of the run's own, `rubric_word` names a rubric that it does not hold, `queries` are
    those to go on with in place of its own: new ones join. A `new` run that cost nothing is taken away if this fails.
    Raises UsageError also for an agent that is no longer the run's, unless accepted.
    """
    goes_on = queries is not None
    named = named or NamedAddresses()
    with RunReader(folder) as before:
        info, missing = before.info, find_missing_work(before, retry_failed=retry_failed)
        if missing.nothing and not goes_on:
            return None
        if not goes_on and (lost := find_redacted(before, missing.rollouts)):
            raise UsageError(
                f"query {lost.id!r} of run {info.id} was redacted, and its true text is not kept: its missing "
                f"rollouts cannot be run; {call('rescore', folder)} ranks those that are there"
            )
        urls = named.base_url, named.judge_base_url
        trust = trust_in(before, run_env.environ, *urls, trust_archive=trust_archive)
        if missing.rollouts and not goes_on:
            trust.check_queries(before)
        plan = await as_begun(before, missing.like, changes or {}, trust, named, rubric_word)
    check_engine(plan.settings)
    if missing.rollouts:
        plan = replace(plan, settings=trust.checked(plan.settings, changes or {}))
    agent = (loaded() if callable(loaded) else loaded) if missing.rollouts or goes_on else None
    _check_branches(info, agent, plan.settings, trust)
    redact = make_redactor(agent, trust.without_patterns(plan.settings), run_env.environ)
    with RunStore(folder, run_env.clock(), versions=package_versions(), redact=redact) as store:
        store.checkpoint_key = trust.attestation.checkpoint_key if trust.attestation else None
        missing = find_missing_work(store.reader, retry_failed=retry_failed)  # another process may have gone on
        if missing.nothing and not goes_on:
            return None
        run_env.progress.opened(folder)
        check_prices(plan.settings, plan.judge)
        with one_error(store, new=new):
            at_work = agent if missing.rollouts or goes_on else None
            spec = await _resolve_as_before(store.reader, at_work, plan, changes or {}) if at_work else None
            if spec:
                await check_app(spec, plan.settings, store.reader.queries())
            ceiling = make_ceiling(plan.settings, plan.judge, spec, run_env.side and run_env.side.among.ceiling)
            cache = VerdictCache(store, run_env.progress, ceiling=ceiling, stop=run_env.stop)
            wanted = [*map(info.wanted, store.reader.index.queries)]
            size = Size(len(wanted), max(wanted, default=plan.settings.n))
            async with _open_stages(plan, spec, store, cache, run_env, size, missing) as stages:
                if stages.engine:
                    await _check_agent(store, stages.engine, accept=accept_changed_agent)
                if not missing.rollouts and missing.like and stages.batches and stages.batches.waits_on:
                    return RunResult(folder, missing.like.id, waiting=stages.batches.describe())
                if missing.count:
                    run_env.progress.total("rollouts", missing.count, missing.count)
                await stages.open_groups.each(store.reader.queries() if queries is None else queries, stages.complete)
        return stages.result


def _check_branches(info: RunInfo, agent: LoadedAgent | None, settings: Settings, trust: Trust) -> None:
    """Raise UsageError where branches cannot be taken up, or their calls could not be counted."""
    if agent:
        trust.check_branches(info.branches, agent)
    if info.branches and settings.engine == "ray":
        raise UsageError(f"{option('engine', 'ray')}: branches are taken up on this machine; leave it out")
    if info.branch_calls is not None and settings.isolate == "process":
        instead = f"{option('max_cost')} holds there"
        raise UsageError(f"{option('budget', info.branch_calls)}: model calls in processes are not counted; {instead}")


@dataclass(frozen=True)
class _Stages:
    """A run at work: what rolls out (None where every rollout is there), and the ranking that is being written."""

    store: RunStore
    run_env: RunEnvironment
    ceiling: Ceiling
    missing: Mapping[str, Sequence[int]] | None
    """The rollouts to run, by query; None: all of a new run's."""
    engine: Engine | None
    ranking: OpenRanking
    open_groups: OpenGroups
    judging_places: anyio.Semaphore
    """For groups that need no rollout: more of them than there are judge calls at a time would only fill the memory."""
    batches: BatchRounds | None
    equal_answers: EqualAnswers

    @property
    def result(self) -> RunResult:
        """What the work left behind so far."""
        return RunResult(
            self.store.folder,
            self.ranking.head.id,
            stopped=self.ceiling.stopped,
            next_ceiling=self.ceiling.next_usd if self.ceiling.stopped else None,
            spent=self.ceiling.spent,
            given_up=self.run_env.gates.given_up,
            out_of_quota=self.run_env.gates.out_of_quota,
            waiting=self.batches.describe() if self.batches else None,
            why_never=self.batches.why_never if self.batches else lambda _: None,
        )

    async def complete(self, place: OpenGroup, query: Query) -> None:
        """Run the rollouts that are missing of a query, and rank it."""
        reader, kept, taker = self.store.reader, list[Rollout](), self.run_env.taker
        if taker:
            await taker.room()
        if self.missing is None or query.id not in reader.index.queries:
            self.store.add_query(query)
        elif self.engine and (missing := self.missing.get(query.id)):
            kept = [r for r in reader.group(query).rollouts if r.index not in missing]
        else:
            async with self.judging_places:
                place.placed()
                group = reader.group(query)
                place.holds(group)
                await (taker.take(group, self.ranking) if taker else self.ranking.rank(group))
            return
        assert self.engine, "there is an engine where rollouts are missing"  # noqa: S101 - for the type checker
        async with self.ranking.early() as early:

            def ended(group: Group) -> None:
                place.holds(group)
                self.ranking.prefetch(group, early)

            of_query = self.missing.get(query.id) if self.missing else None
            group = await self.engine.roll_out(query, kept, GroupWatch(place.placed, ended), of_query)
            self.equal_answers.look(group)
            place.placed()
            place.holds(group)
            await (taker.take(group, self.ranking) if taker else self.ranking.rank_or_leave(group, early))


@asynccontextmanager
async def _open_stages(
    plan: JudgingPlan,
    agent: AgentSpec | None,
    store: RunStore,
    cache: VerdictCache,
    run_env: RunEnvironment,
    size: Size,
    missing: MissingWork | None = None,
) -> AsyncGenerator[_Stages]:
    """Open an engine, if there is an agent to run, and a ranking; at the end hand in what is asked by batch."""
    settings, ceiling, most_groups = plan.settings, cache.ceiling, math.inf
    rollouts = missing.rollouts if missing else None
    if settings.max_cost is not None:  # no more rollouts are bought than can be judged soon
        most_groups = max(_UNJUDGED_AT_LEAST, 2 * math.ceil(settings.concurrency / settings.n))
    open_groups = OpenGroups(settings.max_unjudged * _MB, most_groups)
    async with open_batches(plan, store, run_env, free=cache.free) as batches:
        async with AsyncExitStack() as opened:
            engine, models = None, models_of_agent(agent, settings) if agent else []
            if settings.topology != "none":
                models += models_of_judge(plan.judge, settings, plan.credentials)
            await opened.enter_async_context(models_looked_up(models, run_env, on_refusal=agent is None))
            if agent:
                maker, info = maker_elsewhere(settings), store.reader.info
                before = attempts_before(store, rollouts or {}, run_env.progress.note)
                opening = open_engine(
                    agent,
                    settings,
                    store,
                    run_env,
                    maker,
                    run_id=info.id,
                    ceiling=ceiling,
                    attempts_before=before,
                    calls=branch_budget(info.branch_calls, missing, before),
                )
                engine = await opened.enter_async_context(opening)
            cache = replace(cache, batches=batches.desk if batches else None)
            ranking = await opened.enter_async_context(open_ranking(plan, store, cache, run_env, size))
            judging_places = anyio.Semaphore(settings.judge_concurrency)
            equal = EqualAnswers(settings, agent, run_env.progress.note)
            yield _Stages(
                store, run_env, ceiling, rollouts, engine, ranking, open_groups, judging_places, batches, equal
            )
        if batches and not run_env.stop.asked:
            await batches.hand_in()


async def rescore_run(
    folder: Path, changes: Mapping[str, Any], run_env: RunEnvironment, options: RescoreOptions
) -> RunResult:
    """Judge an archived run again under `changes`, buying only verdicts that it does not hold. Raises UsageError."""
    with open_reuse_sources(options.reuse) as reuse_sources:
        with RunReader(folder) as reader:
            trust, plan = await rescoring(reader, changes, run_env.environ, options)
        if judge_fault(plan):  # raises if anything is to be bought
            await quote_rescoring(folder, changes, run_env, options)
            plan = replace(plan, credentials=plan.credentials.without_calls())
        attest_judge(trust, run_env, [member.base_url for member in plan.judge.members])
        patterns = plan.settings if "redact" in changes else trust.without_patterns(plan.settings)
        redact = make_redactor(None, patterns, run_env.environ)
        ceiling = make_ceiling(plan.settings, plan.judge)
        with RunStore(folder, run_env.clock(), versions=package_versions(), redact=redact) as store:
            run_env.progress.opened(folder)
            cache = VerdictCache(store, run_env.progress, reuse_sources, ceiling, options.free, run_env.stop)
            queries, rollouts = store.reader.index.queries, store.reader.index.rollouts
            ended_well = (sum(place.status == "ok" for place in rollouts.get(name, {}).values()) for name in queries)
            size, summary = Size(len(queries), max(ended_well, default=0)), None
            none = MissingWork({}, ranking=True)
            with one_error(store, new=False):
                async with _open_stages(plan, None, store, cache, run_env, size, none) as stages:
                    if options.free:
                        summary = await rank_for_free(stages.ranking, store.reader)
                    else:
                        await stages.open_groups.each(store.reader.queries(), stages.complete)
            way = stages.ranking.way if options.free else None
            return replace(stages.result, summary=summary, way=way, remaining=count_remaining(store.reader))


async def _resolve_as_before(
    run: RunReader, loaded: LoadedAgent, plan: JudgingPlan, changes: Mapping[str, Any]
) -> AgentSpec:
    """Resolve the agent to where it ran before, with the instructions that it had. Raises UsageError."""
    info, settings, credentials = run.info, plan.settings, plan.credentials
    if not changes.get("instructions"):
        if settings.instructions is not None and info.instructions is None:
            raise UsageError(
                f"run {info.id} does not hold the text of its {option('instructions')}, and a file that a run names is "
                f"not read: name the file with {call('resume', run.typed_name, instructions='FILE')}"
            )
        loaded = replace(loaded, instructions=info.instructions)
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
    if not (recorded and query) or await engine.fingerprint(query, recorded.index) == recorded.fingerprint:
        return
    if not accept:
        raise UsageError(
            f"the agent is no longer the one of run {reader.info.id}: its instructions, tools, handoffs, output "
            f"schema, model or settings have changed ({call('replay')} shows where a request first differs); restore "
            f"it, or go on with {switch('accept_changed_agent')}"
        )
    store.accept("changed agent")
