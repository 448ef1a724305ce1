"""The story: roll a query out, rank the rollouts, archive everything; judge an archived run again.

Read this first. Each stage is a room of its own; this file only passes their records on.
"""

import json
import random
import secrets
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import anyio.lowlevel

from harness.archive import (
    MemoryStore,
    RankingHead,
    RunInfo,
    RunReader,
    RunStore,
    Store,
    missing_of,
    new_run_id,
)
from harness.ceiling import Ceiling, Kind
from harness.checking import Checked, check
from harness.clock import Clock, now
from harness.costs import Bounds, Priced, agent_tokens, both, bounds, judge_tokens
from harness.errors import CannotWrite, HarnessError, NothingRankable, Refused, UsageError, did_you_mean
from harness.formats import Format, Importing, read_foreign
from harness.judging import Buyer, Judge, Jury, ListJury, ListRubric, Rubric, load_list_rubric, load_rubric
from harness.listwise import ESTIMATOR, TOPOLOGY, rank_list
from harness.progress import Progress, Silent
from harness.queries import query_from
from harness.ranking import calls_bounds, told, usual_order
from harness.records import Group, GroupRanking, Query, Ranked, Rollout
from harness.rollouts import Engine, LoadedAgent, Replayed, from_object, load_agent, replay_rollout, unpack
from harness.scaling import for_each
from harness.settings import OFFLINE_MODEL, Settings, changed, environment, load, without_credentials
from harness.tokens import ESTIMATE, counter_for, transcript_budget
from harness.tournament import Rules, rank_group
from harness.wiring import (
    AgentSpec,
    JudgeSpec,
    agent_of,
    make_jury,
    open_engine,
    redactor_of,
    replay_env,
    resolve_agent,
    resolve_judge,
)

_JUDGING = {"judge", "judge_model", "judge_base_url", "judge_api", "judge_label"}
_VERSIONS = ("arena-harness", "openai-agents", "openai", "pydantic")
_DOUBLE_FROM = 16
_GROUPS_AT_ONCE = 8
"""Enough to keep the rollout limiter busy while other groups are judged; each open group is held in memory."""


@dataclass(frozen=True)
class Prepared:
    """A run that is fully checked and has cost nothing yet."""

    agent: AgentSpec
    judge: JudgeSpec
    rubric: Rubric | ListRubric
    settings: Settings

    @property
    def offline(self) -> bool:
        """Whether any part of it is embedded, so that its ranks say nothing of an LLM."""
        return self.agent.offline or self.judge.offline

    def judge_calls(self, queries: int) -> tuple[int, int]:
        """Return the fewest and the most judge calls, repair turns aside."""
        low, high = _calls(self.settings, self.settings.n, self.judge)
        return low * queries, high * queries

    def agent_cost(self, queries: int) -> Bounds | None:
        """Return what the agent runs are taken to cost, None if their price is unknown."""
        runs = self.settings.n * queries
        return bounds((runs, runs), agent_tokens(self.settings.max_turns), self.agent.priced)

    def judge_cost(self, queries: int) -> Bounds | None:
        """Return what the judge calls are taken to cost, None if their price is unknown."""
        return _judge_cost(self.settings, self.judge, self.judge_calls(queries))

    def cost(self, queries: int) -> Bounds | None:
        """Return what all of it is taken to cost, None if any price is unknown."""
        return both(self.agent_cost(queries), self.judge_cost(queries))


@dataclass(frozen=True)
class Ran:
    """What a run or a rescoring left behind: read it with RunReader(path).ranking(ranking_id)."""

    path: Path
    ranking_id: str
    stopped: str | None = None
    """Why it was not brought to an end: --max-cost. What was paid for is kept, and the ranking has no footer."""


async def prepare(loaded: LoadedAgent, settings: Settings) -> Prepared:
    """Check everything that can be checked for free. Raises UsageError."""
    environ = environment()
    rubric = rubric_of(settings)
    redactor_of(loaded, settings, environ)("")  # a hook that does not work is found out here
    agent = await resolve_agent(loaded, settings, environ)
    judge = resolve_judge(settings, environ, agent.model, offline=agent.offline)
    _check_prices(settings, [("the agent's model", agent.priced), *_judge_prices(judge)])
    return Prepared(agent, judge, rubric, settings)


async def run(
    prepared: Prepared, queries: Iterable[Query], *, reuse: Sequence[Path] = (), progress: Progress | None = None,
    clock: Clock = now,
) -> Ran:  # fmt: skip
    """Roll out, judge and rank every query into a new run; verdicts that the runs in `reuse` hold are not bought.

    Queries in a sequence are all written down before anything is spent, those of a stream as they come.
    Raises Refused where the endpoint turned the first call down: with nothing spent the run is taken away again.
    """
    spec, settings, progress = prepared.agent, prepared.settings, progress or Silent()
    ceiling = _ceiling(settings, prepared.judge, spec)
    buying = Buying(_lenders(reuse), ceiling)
    redact = redactor_of(spec.loaded, settings, environment())
    known = queries if isinstance(queries, Sequence) else ()
    info = _info(prepared, clock, len(known) or None)
    with RunStore.create(settings.runs_dir, info, known, redact=redact) as store:
        progress.opened(store.folder)
        with _one_reason(store, new=True):
            async with (
                open_engine(
                    spec,
                    settings,
                    run_id=store.reader.info.id,
                    store=store,
                    progress=progress,
                    clock=clock,
                    ceiling=ceiling,
                ) as engine,
                _ranking(prepared, store, progress, clock, buying) as ranking,
            ):

                async def one(query: Query) -> None:
                    store.add_query(query)
                    group = await engine.roll_out(query)
                    await ranking.rank_or_leave(group)

                await for_each(queries, one, _GROUPS_AT_ONCE)
        return Ran(store.folder, ranking.head.id, ceiling.stopped)


@dataclass(frozen=True)
class Quote:
    """What a rescoring would reuse and buy: verdicts, the fewest and the most bought, and what they may cost."""

    reused: int
    bought: tuple[int, int]
    cost: Bounds | None
    judge: str


async def resume(
    folder: Path, loaded: LoadedAgent | Callable[[], LoadedAgent], *, retry_failed: bool = False,
    accept_changed_agent: bool = False, max_cost: float | None = None, progress: Progress | None = None,
    clock: Clock = now,
) -> Ran | None:  # fmt: skip
    """Do what is missing of a run, under its own settings: rollouts, verdicts, a ranking. None if nothing is.

    `loaded` is the run's agent, or finds it; it is needed only if rollouts are missing. The newest record of a rollout
    counts, so one that is tried again replaces the one that failed. `max_cost` is a ceiling in place of the run's own.
    Raises UsageError also for an agent that is no longer the one of the run, unless that is accepted (and then
    written down).
    """
    progress, before = progress or Silent(), RunReader(folder)
    missing, info = missing_of(before, retry_failed=retry_failed), before.info
    if missing.nothing:
        return None
    _refuse_redacted(before, missing.rollouts)
    prepared = _as_begun(info, missing.like, max_cost)
    agent = (loaded() if callable(loaded) else loaded) if missing.rollouts else None
    redact = redactor_of(agent, prepared.settings, environment())
    with RunStore(folder, clock(), versions=_versions(), redact=redact) as store:
        missing = missing_of(store.reader, retry_failed=retry_failed)  # another process may have gone on meanwhile
        if missing.nothing:
            return None
        progress.opened(folder)
        _check_prices(prepared.settings, _judge_prices(prepared.judge))
        ceiling = _ceiling(prepared.settings, prepared.judge)
        with _one_reason(store, new=False):
            async with AsyncExitStack() as held:
                engine = None
                if agent and missing.rollouts:
                    spec = await _agent_of(info, agent, prepared.settings)
                    _check_prices(prepared.settings, [("the agent's model", spec.priced)])
                    ceiling = _ceiling(prepared.settings, prepared.judge, spec)
                    engine = await held.enter_async_context(
                        open_engine(
                            spec,
                            prepared.settings,
                            run_id=info.id,
                            store=store,
                            progress=progress,
                            clock=clock,
                            ceiling=ceiling,
                        )
                    )
                    await _check_agent(store, engine, accept=accept_changed_agent)
                ranking = await held.enter_async_context(
                    _ranking(prepared, store, progress, clock, Buying((), ceiling))
                )

                async def one(query: Query) -> None:
                    group, open_ = store.reader.group(query), missing.rollouts.get(query.id, ())
                    if engine and open_:
                        group = await engine.roll_out(query, [r for r in group.rollouts if r.index not in open_])
                        await ranking.rank_or_leave(group)
                    else:
                        await ranking.rank(group)

                await for_each(store.reader.queries(), one, _GROUPS_AT_ONCE)
        return Ran(folder, ranking.head.id, ceiling.stopped)


async def rescore(
    folder: Path, changes: Mapping[str, Any], *, reuse: Sequence[Path] = (), free: bool = False,
    progress: Progress | None = None, clock: Clock = now,
) -> Ran:  # fmt: skip
    """Judge an archived run again under `changes` to its settings, buying only verdicts that it does not hold.

    Verdicts that the runs in `reuse` hold are not bought either; with `free` none is. The rollouts are read, never
    touched; the ranking is written beside those that are there. Raises UsageError, ArchiveLocked, ArchiveDamaged.
    """
    lenders = _lenders(reuse)
    prepared = _rescoring(RunReader(folder), changes, free=free)
    redact = redactor_of(None, prepared.settings, environment())
    with RunStore(folder, clock(), versions=_versions(), redact=redact) as store:
        progress = progress or Silent()
        progress.opened(folder)
        buying = Buying(lenders, _ceiling(prepared.settings, prepared.judge), free)
        with _one_reason(store, new=False):
            async with _ranking(prepared, store, progress, clock, buying) as ranking:
                for query in store.reader.queries():
                    await anyio.lowlevel.checkpoint()  # where nothing is bought, nothing else lets an interrupt in
                    await ranking.rank(store.reader.group(query))
        return Ran(folder, ranking.head.id, buying.ceiling.stopped)


async def quote(folder: Path, changes: Mapping[str, Any], *, reuse: Sequence[Path] = ()) -> Quote:
    """Tell what `rescore` would reuse and buy, without buying or writing anything. Raises as `rescore` does."""
    reader = RunReader(folder)
    prepared = _rescoring(reader, changes)
    settings, nowhere = prepared.settings, MemoryStore()
    jury, close = make_jury(
        prepared.judge, prepared.rubric, settings, environment(), store=nowhere, clock=now,
        lenders=[reader, *_lenders(reuse)], free=True,
    )  # fmt: skip
    rules = _rules(settings, judge_counter(prepared.judge))
    reused = low = high = 0
    try:
        for query in reader.queries():
            group = reader.group(query)
            found = await _rank(group, jury, rules, _rng(settings, query))
            missing = len(found.failed_verdicts) + len(found.absent_verdicts)
            most = _most_calls(settings, group, prepared.judge, missing + found.reused)
            reused, low = reused + found.reused, low + missing
            high += max(missing, most - found.reused) if missing else 0
    finally:
        await close()
    return Quote(reused, (low, high), _judge_cost(settings, prepared.judge, (low, high)), prepared.judge.model)


def _most_calls(settings: Settings, group: Group, judge: JudgeSpec, told: int) -> int:
    """Return how many verdicts a group may take; how many lists a listwise judge needs is `told` beforehand."""
    ok = sum(r.status == "ok" for r in group.rollouts)
    return told if settings.judge == "ruler" else _calls(settings, max(1, ok), judge)[1]


def design(settings: Settings) -> str | None:
    """Return in words what a budget of judge calls is spent on, for each query; None where there is no choice."""
    if settings.judge == "ruler" or settings.topology != "cyclic" or settings.n == 1:
        return None
    plan = f"cyclic: {told(settings.n, settings.order, settings.budget)}; ranked by {settings.estimator}"
    return plan if settings.budget is None else f"--budget {settings.budget} picks {plan}"


def validate(folder: Path, *, repair: bool = False) -> Checked:
    """Look at everything in a run's archive, and play its rankings again; see `harness.checking`."""
    return check(folder, _rank_again, repair=repair)


async def _rank_again(group: Group, jury: Jury, settings: Settings, counter: str) -> GroupRanking:
    return await _rank(group, jury, _rules(settings, counter), _rng(settings, group.query))


async def replay(
    folder: Path, loaded: LoadedAgent | None = None, *, query: str | None = None, rollout: int | None = None,
    live_tools: bool = False,
) -> AsyncGenerator[Replayed]:  # fmt: skip
    """Drive the agent's code again on what an archived run recorded: free, offline, and nothing is written.

    Yields each rollout's outcome, of one query or rollout where named. Without `loaded` the run's agent is looked for
    by its name. Raises UsageError, ArchiveDamaged.
    """
    reader = RunReader(folder)
    if next(_chosen(reader, query, rollout))[1].origin:
        raise UsageError(f"run {reader.info.id} was imported: it holds no model calls to replay")
    loaded, settings = loaded or agent_of(reader.info, Path.cwd()), load(dict(reader.info.settings))
    redact = redactor_of(loaded, settings, environment())
    for query_, one in _chosen(reader, query, rollout):
        calls = unpack(reader.blobs.get(one.raw_calls), reader.blobs.get) if one.raw_calls else []
        yield await replay_rollout(
            loaded, replay_env(reader.info, settings, one, calls), query_, one, calls, live_tools=live_tools,
            max_turns=settings.max_turns, timeout_s=settings.timeout, redact=redact,
        )  # fmt: skip


def import_trajectories(
    files: Sequence[Path], settings: Settings, *, format: Format | None = None, first_is_anchor: bool = False,  # noqa: A002 - the option's name
    name: str = "imported", clock: Clock = now,
) -> tuple[Path, Mapping[str, int]]:  # fmt: skip
    """Make a run of trajectories made elsewhere; return its folder and how many rollouts each query has.

    All files are read once before anything is written. Raises UsageError naming file and line.
    """
    at = clock()
    counting = Importing("", at)
    for foreign in read_foreign(files, format):
        counting.rollout(foreign)
    settings = settings.model_copy(update={"n": min(max(counting.counts.values()), 256)})
    info = RunInfo(
        schema_version=1, id=new_run_id(name, at, secrets.token_hex(8)), created_at=at, agent=name, judge={},
        settings=_plain(settings), offline=False, versions=_versions(),
    )  # fmt: skip
    with RunStore.create(settings.runs_dir, info, redact=redactor_of(None, settings, environment())) as store:
        importing = Importing(info.id, at, first_is_anchor)
        for foreign in read_foreign(files, format):
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
            raise _only(group) from None
        elsewhere = f", `harness rescore {store.folder} --judge-model MODEL` takes another judge"
        kept = what_is_kept(store.folder) + (elsewhere if "ok" in _ended(store.folder) else "")
        raise type(_only(group))(f"{_only(group)}. {kept}") from None
    except* CannotWrite as group:
        told = f"{_only(group)}; make room, then `harness resume {store.folder}`"
        raise CannotWrite(told) from None
    except* HarnessError as group:
        if new and store.is_empty:
            store.discard()
        raise _only(group) from None


def _refuse_redacted(reader: RunReader, missing: Mapping[str, Sequence[int]]) -> None:
    """Refuse to run an agent on a query of which only the redacted text is there."""
    for query in filter(None, map(reader.query, missing)):
        if query.redacted:
            raise UsageError(
                f"query {query.id!r} of run {reader.info.id} was redacted, and its true text is not kept: its missing "
                f"rollouts cannot be run; `harness rescore {reader.folder}` ranks those that are there"
            )


def _as_begun(info: RunInfo, like: RankingHead | None, max_cost: float | None) -> "Rescoring":
    """Return how a run is to be judged: as when it began, or as the ranking that is to be made again.

    The addresses are those of then, wherever the environment points now. Raises UsageError if the rubric has changed.
    """
    settings = load(dict(like.settings if like else info.settings))
    place = dict(info.endpoint or {})
    if place.get("base_url") and place["base_url"] != without_credentials(environment().get("OPENAI_BASE_URL")):
        settings = settings.model_copy(update={"base_url": place["base_url"]})
    if max_cost is not None:
        settings = load(settings.model_dump() | {"max_cost": max_cost})
    settings = settings.model_copy(update={"offline": info.agent_offline, "api": place.get("api", settings.api)})
    rubric, before = load_rubric(settings.rubric), like.rubric if like else info.rubric
    if before not in (None, rubric.label):
        raise UsageError(
            f"the rubric is no longer {before}, but {rubric.label}: restore it, or judge anew with `harness rescore`"
        )
    return Rescoring(JudgeSpec.model_validate(like.judge if like else info.judge), rubric, settings)


async def _agent_of(info: RunInfo, loaded: LoadedAgent, settings: Settings) -> AgentSpec:
    """Resolve the agent to where it ran before, never to another place. Raises UsageError."""
    at_openai = info.endpoint is not None and info.endpoint.get("base_url") is None
    spec = await resolve_agent(loaded, settings, dict(environment()) | ({"OPENAI_BASE_URL": ""} if at_openai else {}))
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
            "schema, model or settings have changed; restore it, or go on with --accept-changed-agent"
        )
    store.accept("changed agent")


def _rescoring(reader: RunReader, changes: Mapping[str, Any], *, free: bool = False) -> "Rescoring":
    settings = load(changed(reader.info.settings, changes))
    if not reader.info.judge:  # imported: nothing was judged yet
        judge = resolve_judge(settings, environment(), None, offline=False)
    else:
        judge = JudgeSpec.model_validate(reader.info.judge)
        if _JUDGING & changes.keys():
            judge = resolve_judge(_aimed(settings, judge, changes), environment(), judge.model, offline=judge.offline)
    if not free:
        _check_prices(settings, _judge_prices(judge))
    return Rescoring(judge, rubric_of(settings), settings)


@dataclass(frozen=True)
class Rescoring:
    """What ranking needs of a Prepared run, for rollouts that are there already."""

    judge: JudgeSpec
    rubric: Rubric | ListRubric
    settings: Settings


async def rollout(
    agent: Any, query: str | Query, n: int = 8, *, store: Store | None = None, progress: Progress | None = None,
    **settings: Any,
) -> Group:  # fmt: skip
    """Run an agent `n` times on a query and return the group: rollout 0 is the anchor at temperature 0.

    `agent` is an Agent, a function that builds one, or whatever --agent takes; `settings` are those of the command
    line (`temperature=1.0`, `base_url=...`). Failed rollouts are in the group with their cause. Nothing is written
    unless `store` is given. Raises UsageError.
    """
    chosen = load({"n": n, **settings})
    loaded = load_agent(agent, Path.cwd()) if isinstance(agent, str) else from_object(agent)
    spec = await resolve_agent(loaded, chosen, environment())
    try:
        async with open_engine(
            spec,
            chosen,
            run_id="",
            store=store or MemoryStore(redactor_of(loaded, chosen, environment())),
            progress=progress or Silent(),
            clock=now,
        ) as engine:
            return await engine.roll_out(query if isinstance(query, Query) else query_from(query))
    except* UsageError as group:
        raise _only(group) from None


async def rank(
    group: Group, judge: str | Judge | None = None, *, store: Store | None = None, progress: Progress | None = None,
    **settings: Any,
) -> GroupRanking:  # fmt: skip
    """Judge and rank a group. `judge` is a model's name, a Judge of your own, or None for the agent's own model.

    With a `store` verdicts that it holds are not bought again. A group rolled out on the embedded model is judged
    by the embedded judge unless another is named. Raises UsageError.
    """
    chosen, environ = load(settings), environment()
    store, close, counter = store or MemoryStore(), None, ESTIMATE
    ceiling, progress = Ceiling(chosen.max_cost), progress or Silent()
    if judge is None or isinstance(judge, str):
        models = [m for r in group.rollouts for m in r.effective.models]
        wanted = chosen.model_copy(update={"judge_model": judge or chosen.judge_model})
        spec = resolve_judge(wanted, environ, models[0] if models else None, offline=OFFLINE_MODEL in models)
        counter = judge_counter(spec)
        jury, close = make_jury(
            spec, rubric_of(chosen), chosen, environ, store=store, clock=now, progress=progress, ceiling=ceiling
        )
    else:
        jury = Jury([Buyer(judge, store, progress, ceiling=ceiling)])
    try:
        return await _rank(group, jury, _rules(chosen, counter), _rng(chosen, group.query))
    except* UsageError as errors:
        raise _only(errors) from None
    finally:
        if close:
            await close()


async def best_of(
    agent: Any, query: str | Query, n: int = 8, judge: str | Judge | None = None, *, store: Store | None = None,
    **settings: Any,
) -> Any:  # fmt: skip
    """Run an agent `n` times on a query and return the best answer: a str, or the JSON value of a structured output.

    Picked as `harness best` picks: see `for_best`. Raises UsageError; HarnessError where no rollout ended well or
    the judge's verdicts could not be had.
    """
    known = for_best(n) | settings
    group = await rollout(agent, query, n, store=store, **known)
    return answer_of(group, await rank(group, judge, store=store, **known))


def for_best(n: int) -> dict[str, Any]:
    """Return the settings under which the first place is found best among `n`, and no more is paid for.

    Below 16 every pair meets once, until the leader is best with probability 0.95; from 16 on double elimination
    finds it more often for as many calls (benchmarks/ranking.py prints both). `margins` picks.
    """
    design = {"topology": "cyclic", "sure": 0.95} if n < _DOUBLE_FROM else {"topology": "double"}
    return design | {"estimator": "margins"}


def winner_of(group: Group, ranking: GroupRanking) -> Rollout:
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
    """Return the best rollout's answer: text, or the value of a structured one. Raises HarnessError as `winner_of`."""
    best = winner_of(group, ranking).trajectory
    return json.loads(best.answer) if best.answer_type == "json" else best.answer


@dataclass(frozen=True)
class _Ranking:
    """A rankings file being written."""

    head: RankingHead
    jury: Jury | ListJury
    settings: Settings
    rules: Rules
    writer: Any

    async def rank(self, group: Group) -> None:
        ranked = await _rank(group, self.jury, self.rules, _rng(self.settings, group.query))
        self.writer.add(ranked.model_copy(update={"basis": group.basis}))

    async def rank_or_leave(self, group: Group) -> None:
        """Rank a group, unless --max-cost left some of its rollouts not begun."""
        missing = self.settings.n - len(group.rollouts)
        if missing > 0:
            self.leave(group, f"--max-cost left {missing} rollouts not begun")
        else:
            await self.rank(group)

    def leave(self, group: Group, why: str) -> None:
        """Write a group down as not ranked, for the reason given."""
        listed = isinstance(self.jury, ListJury)
        self.writer.add(GroupRanking(
            query=group.query.id, topology=TOPOLOGY if listed else self.settings.topology,
            estimator=ESTIMATOR if listed else self.settings.estimator,
            status="incomplete", signal="none", rollouts=tuple(Ranked(index=r.index) for r in group.rollouts),
            notes=(why,), basis=group.basis,
        ))  # fmt: skip


async def _rank(group: Group, jury: Jury | ListJury, rules: Rules, rng: random.Random) -> GroupRanking:
    """Rank a group by tournament, or in one list where its judges are listwise."""
    if isinstance(jury, ListJury):
        return await rank_list(group, jury, rules, rng)
    return await rank_group(group, jury, rules, rng)


@dataclass(frozen=True)
class Buying:
    """Within what verdicts are bought: the runs to look in first, the ceiling, whether anything may be bought."""

    lenders: Sequence[RunReader]
    ceiling: Ceiling
    free: bool = False


@asynccontextmanager
async def _ranking(
    prepared: Prepared | Rescoring,
    store: RunStore,
    progress: Progress,
    clock: Clock,
    buying: Buying,
) -> AsyncGenerator[_Ranking]:
    """Open a ranking of the run, and finish it if all goes well; the file is made with its first group."""
    settings, at, counter = prepared.settings, clock(), judge_counter(prepared.judge)
    before = store.reader.newest_ranking()
    if before:  # the newest counts, also if the clock has jumped back
        at = max(at, before.head.created_at + timedelta(microseconds=1))
    jury, close = make_jury(
        prepared.judge,
        prepared.rubric,
        settings,
        environment(),
        store=store,
        clock=clock,
        progress=progress,
        lenders=buying.lenders,
        ceiling=buying.ceiling,
        free=buying.free,
    )
    head = RankingHead(
        id=f"{at:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}", created_at=at,
        settings=_plain(settings) | {"order": settings.order or usual_order(settings.topology)},
        judge=prepared.judge.model_dump(mode="json") | {"identity": prepared.judge.identity, "counter": counter},
        rubric=prepared.rubric.label,
    )  # fmt: skip
    writer = store.open_ranking(head)
    try:
        yield _Ranking(head, jury, settings, _rules(settings, counter), writer)
        if not buying.ceiling.stopped:
            writer.finish()
    finally:
        writer.close()
        await close()


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


def judge_counter(judge: JudgeSpec) -> str:
    """Name how transcripts are counted for a judge, of a jury for its first; it stands in a ranking's header."""
    return ESTIMATE if judge.offline else counter_for(judge.members[0].model)


def _rng(settings: Settings, query: Query) -> random.Random:
    return random.Random(f"{settings.seed}/{query.id}")


def _calls(settings: Settings, n: int, judge: JudgeSpec) -> tuple[int, int]:
    """Return the fewest and the most judge calls for a group of n, those of all jurors."""
    jurors = len(judge.members)
    if settings.judge == "ruler":
        return jurors, max(1, n - 1) * jurors
    low, high = calls_bounds(settings.topology, n, settings.order, settings.budget)
    if settings.judge_when == "tied":
        low = 0
    elif settings.sure:
        low = min(low, n - 1)
    return low * settings.judge_repeats * jurors, high * settings.judge_repeats * jurors


def _judge_cost(settings: Settings, judge: JudgeSpec, calls: tuple[int, int]) -> Bounds | None:
    """Return what calls cost that are shared out evenly among the jurors."""
    least, most = judge_tokens(settings.judge_budget)
    low, high = ([member.priced.usd(tokens) for member in judge.members] for tokens in (least, most))
    known_low, known_high = [usd for usd in low if usd is not None], [usd for usd in high if usd is not None]
    if len(known_low) < len(low) or len(known_high) < len(high):
        return None
    return Bounds(calls[0] * fmean(known_low), calls[1] * fmean(known_high))


def _check_prices(settings: Settings, priced: Iterable[tuple[str, Priced]]) -> None:
    """Refuse a ceiling on what has no price."""
    if settings.max_cost is None:
        return
    for who, at in priced:
        if at.usd(judge_tokens(0)[0]) is None:
            where = f" at {at.base_url}" if at.base_url else ""
            raise UsageError(
                f"--max-cost {settings.max_cost:g} cannot be kept: the price of {who} "
                f"({at.model or 'one of its own'}{where}) is unknown; leave --max-cost out, or name a listed model"
            )


def _judge_prices(judge: JudgeSpec) -> list[tuple[str, Priced]]:
    return [("the judge", member.priced) for member in judge.members]


def _ceiling(settings: Settings, judge: JudgeSpec, agent: AgentSpec | None = None) -> Ceiling:
    expected: dict[Kind, float] = {}
    asked = [member.priced.usd(judge_tokens(settings.judge_budget)[0]) for member in judge.members]
    if known := [usd for usd in asked if usd is not None]:
        expected["judge"] = max(known)
    if agent and (usd := agent.priced.usd(agent_tokens(settings.max_turns)[0])) is not None:
        expected["agent"] = usd
    return Ceiling(settings.max_cost, expected)


def _lenders(folders: Iterable[Path]) -> list[RunReader]:
    """Open the runs of --reuse, and read where their verdicts are: damage is found before anything is spent."""
    readers = [RunReader(folder) for folder in folders]
    for reader in readers:
        _ = reader.index
    return readers


def rubric_of(settings: Settings) -> Rubric | ListRubric:
    """Return what the judge goes by: marks for one of pairs, a plain text for a listwise one. Raises UsageError."""
    return load_list_rubric(settings.rubric) if settings.judge == "ruler" else load_rubric(settings.rubric)


def _rules(settings: Settings, counter: str) -> Rules:
    return Rules(
        topology=settings.topology,
        budget=settings.budget,
        order=settings.order,
        estimator=settings.estimator,
        reward=settings.reward,
        failed=settings.failed,
        anchor_failed=settings.anchor_failed,
        show_instructions=settings.show_instructions,
        judge_when=settings.judge_when,
        sure=settings.sure,
        text_budget=transcript_budget(settings.judge_budget, counter),
        repeats=settings.judge_repeats,
    )


def _aimed(settings: Settings, before: JudgeSpec, changes: Mapping[str, Any]) -> Settings:
    """Keep of the run's own judge what the changes leave alone: its model and its address."""
    if before.offline:
        return settings
    kept: dict[str, Any] = {}
    if "judge_model" not in changes:
        kept["judge_model"] = _each(j.model for j in before.members)
    if "judge_base_url" not in changes:
        urls = [j.base_url or "" for j in before.members]
        kept["judge_base_url"] = (_each(urls) if "judge_model" in kept else urls[0]) or None
        if not before.jurors:
            kept["judge_api"] = settings.judge_api or before.api
    return settings.model_copy(update=kept)


def _each(values: Iterable[str]) -> str | tuple[str, ...]:
    several = tuple(values)
    return several if len(several) > 1 else "".join(several)


def _versions() -> dict[str, str]:
    return {name: version(name) for name in _VERSIONS}


def _info(prepared: Prepared, clock: Clock, queries: int | None) -> RunInfo:
    at, loaded, endpoint = clock(), prepared.agent.loaded, prepared.agent.endpoint
    return RunInfo(
        schema_version=1, id=new_run_id(loaded.name, at, secrets.token_hex(8)), created_at=at, agent=loaded.name,
        agent_file=loaded.file.name if loaded.file else None, settings=_plain(prepared.settings),
        judge=prepared.judge.model_dump(mode="json"), offline=prepared.offline,
        agent_offline=prepared.agent.offline,
        agent_api=endpoint.api if endpoint else None,
        endpoint=endpoint and {"base_url": without_credentials(endpoint.base_url), "api": endpoint.api},
        agent_word=loaded.word, rubric=prepared.rubric.label, queries=queries, versions=_versions(),
    )  # fmt: skip


def _plain(settings: Settings) -> dict[str, Any]:
    """Return settings fit to be written down: no user or password in an address."""
    plain = settings.model_dump(mode="json")
    return plain | {k: _written(plain[k]) for k in ("base_url", "judge_base_url")}


def _written(url: str | list[str] | None) -> str | list[str | None] | None:
    return [without_credentials(one) for one in url] if isinstance(url, list) else without_credentials(url)


def _only(group: BaseExceptionGroup[Any]) -> Any:
    """Return the first error in a group, however deep: concurrent tasks refused for one reason say it several times."""
    first: Any = group.exceptions[0]
    return _only(first) if isinstance(first, BaseExceptionGroup) else first  # pyright: ignore[reportUnknownArgumentType]
