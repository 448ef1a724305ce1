"""The story: roll a query out, rank the rollouts, archive everything; judge an archived run again.

Read this first. Each stage is a room of its own; this file only passes their records on.
"""

import secrets
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio.lowlevel

from harness.archive import ReadStore, RunInfo, RunReader, RunStore, missing_of, new_run_id, redacted_of
from harness.core.clock import Clock
from harness.core.errors import CannotWrite, HarnessError, Refused, UsageError, did_you_mean, first_error
from harness.core.records import Query, Rollout
from harness.core.settings import Settings, as_written, without_credentials
from harness.core.settings_sources import load
from harness.endpoints import Bounds
from harness.formats import Format, ImportedRun, read_trajectories
from harness.pipeline.concurrency import for_each
from harness.pipeline.plan import (
    Prepared,
    as_begun,
    ceiling_of,
    check_prices,
    judge_cost,
    judge_prices,
    most_calls,
    rescoring,
)
from harness.pipeline.rank_groups import Buying, judge_counter, lenders_of, open_ranking, rank_by, taking_part
from harness.pipeline.resolve import AgentSpec, agent_of, make_jury, open_engine, redactor_of, replay_env, resolve_agent
from harness.pipeline.surroundings import Surroundings
from harness.pipeline.validation import Validation, check_run
from harness.rollouts import Engine, LoadedAgent, RecordedRollout, Replayed, ReplayOptions, replay_rollout, unpack

_VERSIONS = ("arena-harness", "openai-agents", "openai", "pydantic")
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


async def run_queries(
    prepared: Prepared, queries: Iterable[Query], surroundings: Surroundings, *, reuse: Sequence[Path] = ()
) -> RunResult:
    """Roll out, judge and rank every query into a new run; verdicts that the runs in `reuse` hold are not bought.

    Queries in a sequence are all written down before anything is spent, those of a stream as they come.
    Raises Refused where the endpoint turned the first call down: with nothing spent the run is taken away again.
    """
    spec, settings, progress = prepared.agent, prepared.settings, surroundings.progress
    ceiling = ceiling_of(settings, prepared.judge, spec)
    buying = Buying(lenders_of(reuse), ceiling)
    redact = redactor_of(spec.loaded, settings, surroundings.environ)
    listed = queries if isinstance(queries, Sequence) else ()
    info = _info(prepared, surroundings.clock, len(listed) or None)
    with RunStore.create(settings.runs_dir, info, listed, redact=redact) as store:
        progress.opened(store.folder)
        with _one_reason(store, new=True):
            async with (
                open_engine(
                    spec,
                    settings,
                    run_id=store.reader.info.id,
                    store=store,
                    surroundings=surroundings,
                    ceiling=ceiling,
                ) as engine,
                open_ranking(prepared, store, surroundings, buying) as ranking,
            ):

                async def one(query: Query) -> None:
                    store.add_query(query)
                    group = await engine.roll_out(query)
                    await ranking.rank_or_leave(group)

                await for_each(queries, one, _GROUPS_AT_ONCE)
        return RunResult(store.folder, ranking.head.id, ceiling.stopped)


@dataclass(frozen=True)
class Quote:
    """What a rescoring would reuse and buy: verdicts, the fewest and the most bought, and what they may cost."""

    reused: int
    bought: tuple[int, int]
    cost: Bounds | None
    judge: str


async def resume_run(
    folder: Path,
    loaded: LoadedAgent | Callable[[], LoadedAgent],
    surroundings: Surroundings,
    *,
    retry_failed: bool = False,
    accept_changed_agent: bool = False,
    max_cost: float | None = None,
) -> RunResult | None:
    """Do what is missing of a run, under its own settings: rollouts, verdicts, a ranking. None if nothing is.

    `loaded` is the run's agent, or finds it; it is needed only if rollouts are missing. The newest record of a rollout
    counts, so one that is tried again replaces the one that failed. `max_cost` is a ceiling in place of the run's own.
    Raises UsageError also for an agent that is no longer the one of the run, unless that is accepted (and then
    written down).
    """
    environ, before = surroundings.environ, RunReader(folder)
    missing, info = missing_of(before, retry_failed=retry_failed), before.info
    if missing.nothing:
        return None
    _refuse_redacted(before, missing.rollouts)
    prepared = as_begun(info, missing.like, max_cost, environ)
    agent = (loaded() if callable(loaded) else loaded) if missing.rollouts else None
    redact = redactor_of(agent, prepared.settings, environ)
    with RunStore(folder, surroundings.clock(), versions=_versions(), redact=redact) as store:
        missing = missing_of(store.reader, retry_failed=retry_failed)  # another process may have gone on meanwhile
        if missing.nothing:
            return None
        surroundings.progress.opened(folder)
        check_prices(prepared.settings, judge_prices(prepared.judge))
        ceiling = ceiling_of(prepared.settings, prepared.judge)
        with _one_reason(store, new=False):
            async with AsyncExitStack() as held:
                engine = None
                if agent and missing.rollouts:
                    spec = await _agent_of(info, agent, prepared.settings, environ)
                    check_prices(prepared.settings, [("the agent's model", spec.priced)])
                    ceiling = ceiling_of(prepared.settings, prepared.judge, spec)
                    engine = await held.enter_async_context(
                        open_engine(
                            spec,
                            prepared.settings,
                            run_id=info.id,
                            store=store,
                            surroundings=surroundings,
                            ceiling=ceiling,
                        )
                    )
                    await _check_agent(store, engine, accept=accept_changed_agent)
                ranking = await held.enter_async_context(
                    open_ranking(prepared, store, surroundings, Buying((), ceiling))
                )

                async def one(query: Query) -> None:
                    group, open_ = store.reader.group(query), missing.rollouts.get(query.id, ())
                    if engine and open_:
                        group = await engine.roll_out(query, [r for r in group.rollouts if r.index not in open_])
                        await ranking.rank_or_leave(group)
                    else:
                        await ranking.rank(group)

                await for_each(store.reader.queries(), one, _GROUPS_AT_ONCE)
        return RunResult(folder, ranking.head.id, ceiling.stopped)


async def rescore_run(
    folder: Path,
    changes: Mapping[str, Any],
    surroundings: Surroundings,
    *,
    reuse: Sequence[Path] = (),
    free: bool = False,
) -> RunResult:
    """Judge an archived run again under `changes` to its settings, buying only verdicts that it does not hold.

    Verdicts that the runs in `reuse` hold are not bought either; with `free` none is. The rollouts are read, never
    touched; the ranking is written beside those that are there. Raises UsageError, ArchiveLocked, ArchiveDamaged.
    """
    lenders = lenders_of(reuse)
    prepared = rescoring(RunReader(folder), changes, surroundings.environ, free=free)
    redact = redactor_of(None, prepared.settings, surroundings.environ)
    with RunStore(folder, surroundings.clock(), versions=_versions(), redact=redact) as store:
        surroundings.progress.opened(folder)
        buying = Buying(lenders, ceiling_of(prepared.settings, prepared.judge), free)
        with _one_reason(store, new=False):
            async with open_ranking(prepared, store, surroundings, buying) as ranking:
                for query in store.reader.queries():
                    await anyio.lowlevel.checkpoint()  # where nothing is bought, nothing else lets an interrupt in
                    await ranking.rank(store.reader.group(query))
        return RunResult(folder, ranking.head.id, buying.ceiling.stopped, buying.ceiling.spent)


async def quote_rescoring(
    folder: Path, changes: Mapping[str, Any], surroundings: Surroundings, *, reuse: Sequence[Path] = ()
) -> Quote:
    """Tell what `rescore_run` would reuse and buy, without buying or writing anything. Raises as `rescore_run` does."""
    reader = RunReader(folder)
    prepared = rescoring(reader, changes, surroundings.environ)
    settings, counter = prepared.settings, judge_counter(prepared.judge)
    jury, close = make_jury(
        prepared.judge,
        prepared.rubric,
        settings,
        surroundings,
        store=ReadStore([reader, *lenders_of(reuse)]),
        free=True,
    )
    reused = low = high = 0
    try:
        for query in reader.queries():
            await anyio.lowlevel.checkpoint()  # nothing else lets an interrupt in
            group = reader.group(query)
            found = await rank_by(group, jury, settings, counter)
            missing = len(found.failed_verdicts) + len(found.absent_verdicts)
            most = most_calls(settings, taking_part(group, settings), prepared.judge, missing + found.reused)
            reused, low = reused + found.reused, low + missing
            high += max(missing, most - found.reused) if missing else 0
    except* HarnessError as errors:
        raise first_error(errors) from None
    finally:
        await close()
    cost = judge_cost(settings, prepared.judge, (low, high)) if high else Bounds(0, 0)
    return Quote(reused, (low, high), cost, prepared.judge.model)


def validate_run(folder: Path, clock: Clock, *, repair: bool = False) -> Validation:
    """Look at everything in a run's archive, and play its rankings again; see `harness.pipeline.validation`."""
    return check_run(folder, rank_by, clock, repair=repair)


async def replay_run(
    folder: Path,
    loaded: LoadedAgent | None,
    environ: Mapping[str, str],
    *,
    query: str | None = None,
    rollout: int | None = None,
    live_tools: bool = False,
) -> AsyncGenerator[Replayed]:
    """Drive the agent's code again on what an archived run recorded: free, offline, and nothing is written.

    Yields each rollout's outcome, of one query or rollout where named. Without `loaded` the run's agent is looked for
    by its name. Raises UsageError, ArchiveDamaged.
    """
    reader = RunReader(folder)
    if next(_chosen(reader, query, rollout))[1].origin:
        raise UsageError(f"run {reader.info.id} was imported: it holds no model calls to replay")
    loaded, settings = loaded or agent_of(reader.info, Path.cwd()), load(dict(reader.info.settings))
    redact = redactor_of(loaded, settings, environ)
    for query_, one in _chosen(reader, query, rollout):
        calls = unpack(reader.blobs.get(one.raw_calls), reader.blobs.get) if one.raw_calls else []
        yield await replay_rollout(
            loaded,
            replay_env(reader.info, settings, one, calls),
            RecordedRollout(query_, one, calls),
            ReplayOptions(settings.max_turns, settings.timeout, redact, live_tools),
        )


def import_trajectories(
    files: Sequence[Path],
    settings: Settings,
    surroundings: Surroundings,
    *,
    format: Format | None = None,  # noqa: A002 - the option's name
    first_is_anchor: bool = False,
    name: str = "imported",
) -> tuple[Path, Mapping[str, int]]:
    """Make a run of trajectories made elsewhere; return its folder and how many rollouts each query has.

    All files are read once before anything is written. Raises UsageError naming file and line.
    """
    at = surroundings.clock()
    counting = ImportedRun("", at)
    for foreign in read_trajectories(files, format):
        counting.rollout(foreign)
    settings = replace(settings, n=min(max(counting.counts.values()), 256))
    info = RunInfo(
        schema_version=1,
        id=new_run_id(name, at, secrets.token_hex(8)),
        created_at=at,
        agent=name,
        judge={},
        settings=as_written(settings),
        offline=False,
        versions=_versions(),
    )
    redact = redactor_of(None, settings, surroundings.environ)
    with RunStore.create(settings.runs_dir, info, redact=redact) as store:
        importing = ImportedRun(info.id, at, first_is_anchor)
        for foreign in read_trajectories(files, format):
            if query := importing.query(foreign):
                store.add_query(query)
            store.add_rollout(importing.rollout(foreign))
        return store.folder, importing.counts


def what_is_kept(folder: Path | None) -> str:
    """Return what became of a run that was cut short, and the command that goes on with it."""
    if folder is None:
        return "Nothing had begun"
    ended = _ended(folder)
    kept = f"{ended.count('ok')} of {len(ended)} rollouts that were begun ended well; all are kept in {folder}"
    return f"{kept}; `harness resume {folder}` does what is missing"


def _ended(folder: Path) -> list[str]:
    return [place.status for group in RunReader(folder).index.rollouts.values() for place in group.values()]


@contextmanager
def _one_reason(store: RunStore, *, new: bool) -> Generator[None]:
    """Raise one error for a group of them; a new run that cost nothing is taken away, what is kept is said."""
    try:
        yield
    except* Refused as group:
        if new and store.is_empty:
            store.discard()
            raise first_error(group) from None
        elsewhere = f", `harness rescore {store.folder} --judge-model MODEL` takes another judge"
        kept = what_is_kept(store.folder) + (elsewhere if "ok" in _ended(store.folder) else "")
        raise type(first_error(group))(f"{first_error(group)}. {kept}") from None
    except* CannotWrite as group:
        told = f"{first_error(group)}; make room, then `harness resume {store.folder}`"
        raise CannotWrite(told) from None
    except* HarnessError as group:
        if new and store.is_empty:
            store.discard()
        raise first_error(group) from None


def _refuse_redacted(reader: RunReader, missing: Mapping[str, Sequence[int]]) -> None:
    """Refuse to run an agent on a query of which only the redacted text is there."""
    if lost := redacted_of(reader, missing):
        raise UsageError(
            f"query {lost.id!r} of run {reader.info.id} was redacted, and its true text is not kept: its missing "
            f"rollouts cannot be run; `harness rescore {reader.folder}` ranks those that are there"
        )


async def _agent_of(info: RunInfo, loaded: LoadedAgent, settings: Settings, environ: Mapping[str, str]) -> AgentSpec:
    """Resolve the agent to where it ran before, never to another place. Raises UsageError."""
    at_openai = info.endpoint is not None and info.endpoint.get("base_url") is None
    spec = await resolve_agent(loaded, settings, {**environ, **({"OPENAI_BASE_URL": ""} if at_openai else {})})
    if spec.offline and not info.agent_offline:
        raise UsageError(f"run {info.id} is no self-test, and there is no model now: set OPENAI_API_KEY")
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
            "schema, model or settings have changed (`harness replay` shows where a request first differs); restore "
            "it, or go on with --accept-changed-agent"
        )
    store.accept("changed agent")


def _chosen(reader: RunReader, query: str | None, rollout: int | None) -> Iterator[tuple[Query, Rollout]]:
    """Yield the rollouts of a run that are meant. Raises UsageError where there are none."""
    queries = list(reader.queries())
    if query is not None and query not in (ids := [q.id for q in queries]):
        raise UsageError(f"no query {query!r} in run {reader.info.id}{did_you_mean(query, ids)}")
    found = False
    for one in (q for q in queries if query in (None, q.id)):
        for done in (r for r in reader.group(one).rollouts if rollout in (None, r.index)):
            found = True
            yield one, done
    if not found:
        raise UsageError(f"run {reader.info.id} has no rollout {'at all' if rollout is None else rollout}")


def _versions() -> dict[str, str]:
    return {name: version(name) for name in _VERSIONS}


def _info(prepared: Prepared, clock: Clock, queries: int | None) -> RunInfo:
    at, loaded, endpoint = clock(), prepared.agent.loaded, prepared.agent.endpoint
    return RunInfo(
        schema_version=1,
        id=new_run_id(loaded.name, at, secrets.token_hex(8)),
        created_at=at,
        agent=loaded.name,
        agent_file=loaded.file.name if loaded.file else None,
        settings=as_written(prepared.settings),
        judge=prepared.judge.model_dump(mode="json"),
        offline=prepared.offline,
        agent_offline=prepared.agent.offline,
        agent_api=endpoint.api if endpoint else None,
        endpoint=endpoint and {"base_url": without_credentials(endpoint.base_url), "api": endpoint.api},
        agent_word=loaded.word,
        rubric=prepared.rubric.label,
        queries=queries,
        versions=_versions(),
    )
