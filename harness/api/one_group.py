"""One query's group in Python: rolled out, ranked, the best of N picked; and `preload`, which imports all ahead."""

import gc
import importlib
import logging
import math
import pkgutil
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Unpack

import anyio
from agents import Agent
from pydantic import SecretStr

from harness.api import outside
from harness.api.best_answer import Best, best_from, is_unranked
from harness.archive.store import MemoryStore, Store
from harness.core import errors
from harness.core.progress import NO_DEADLINE, Deadline, Logged, Progress
from harness.core.rankings import GroupRanking
from harness.core.records import Bill, Group, Query, build_records
from harness.core.settings import OFFLINE_JUDGE, OFFLINE_MODEL, Settings
from harness.core.settings_sources import environment, load
from harness.core.settings_types import CommonSettings
from harness.core.sync import forget_frames, in_step
from harness.core.turns import my_turn
from harness.endpoints.address import Certificates, Endpoint
from harness.endpoints.client import openai_client
from harness.endpoints.costs import Ceiling, Priced, agent_tokens
from harness.formats.queries import make_queries
from harness.judging.judges import Judge
from harness.judging.rubric import Rubric
from harness.judging.verdict_cache import CachedPairJudge, PairJury, VerdictCache
from harness.offline.tool import search_tool
from harness.pipeline.app_checks import check_app, judge_objects, loaded_agent
from harness.pipeline.engines import open_engine
from harness.pipeline.judge_inputs import load_named_rubric, refuse_profile, with_profile
from harness.pipeline.model_names import NamedModel, models_looked_up, models_of_agent, models_of_judge
from harness.pipeline.plan import JudgingPlan, named_judge, prepare
from harness.pipeline.rank_groups import rank_alone
from harness.pipeline.resolve import AgentSpec, check_prices, make_ceiling, make_redactor, resolve_agent
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import maker_elsewhere, open_ranker
from harness.pipeline.varying import refuse_asking, settle_vary
from harness.report.text import SELF_TEST
from harness.rollouts.engine import Engine
from harness.rollouts.examples import AGENT_MODEL
from harness.rollouts.loading import LoadedAgent
from harness.tournament.group import prepare_entrants, rules_of
from harness.tournament.pairwise import TournamentRanker
from harness.tournament.ranker import Ranker
from harness.transcripts.tokens import counter_for


@outside.door
async def rollout(
    agent: outside.AnyAgent,
    query: str | Query | Mapping[str, Any],
    n: int = 8,
    *,
    context: Any = None,
    run_config: Any = None,
    hooks: Any = None,
    session: Any = None,
    store: Store | None = None,
    progress: Progress | None = None,
    **settings: Unpack[CommonSettings],
) -> Group:
    """Run an agent `n` times on a query and return the group: rollout 0 is the anchor at temperature 0.

    `agent` is an Agent, a function that builds one, a module like an agent's file, or what --agent takes; `settings`
    are those of the command line (`temperature=1.0`, `base_url=...`); what the agent's app gives its runs is as in
    `run`. Failed rollouts are in the group with their cause. Where the endpoint gave no reply for `give_up` seconds,
    the rollouts not begun are not in the group, and a warning says so. Nothing is written unless `store` is given.
    Raises UsageError; Refused (out of quota: OutOfQuota) where the endpoint turns the first call down.
    """
    chosen, run_env = load({"n": n, **settings}), outside.read_run_env(progress)
    (asked,) = make_queries([query])
    loaded = loaded_agent(agent, context=context, run_config=run_config, hooks=hooks, session=session)
    spec = await resolve_agent(loaded, chosen, outside.named_credentials(chosen, run_env))
    await check_app(spec, chosen, [asked])
    redact = make_redactor(loaded, chosen, run_env.environ)
    chosen, store = settle_vary(chosen, spec, redact, run_env.environ), store or MemoryStore(redact)
    refuse_asking(chosen)
    looked_up = models_looked_up(
        models_of_agent(spec, chosen), run_env, on_refusal=isinstance(run_env.progress, Logged)
    )
    async with open_engine(spec, chosen, store, run_env, maker_elsewhere(chosen)) as engine, looked_up:
        run_env.progress.total("rollouts", n, n)
        rolled_out = await engine.roll_out(asked)
    if (why := run_env.gates.given_up) and len(rolled_out.rollouts) < n:
        begun = f"{len(rolled_out.rollouts):,} of {errors.counted(n, 'rollout was', 'rollouts were')} begun"
        warnings.warn(f"{begun}: {errors.as_spoken(why)}", stacklevel=3)
    return outside.handed_out(rolled_out)


@outside.door
async def rank(
    group: Group,
    judge: str | Judge | None = None,
    *,
    store: Store | None = None,
    progress: Progress | None = None,
    **settings: Unpack[CommonSettings],
) -> GroupRanking:
    """Judge and rank a group. `judge` is a model's name, a Judge of your own, or None for the agent's own model.

    `judge_agent` names or is an Agent that judges; with a model's name both do. It reads what files `store` holds.
    With a `store` verdicts that it holds are not bought again. A group rolled out on the embedded model is judged
    by the embedded judge unless another is named. Raises UsageError; Refused (out of quota: OutOfQuota) where the
    judge's endpoint turns the first call down; JudgeFailed where a judge of your own returns no verdict.
    """
    if not isinstance(group, Group):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not check types
        raise errors.UsageError(
            f"rank takes a Group, as rollout gives it, not a {type(group).__name__}; for lists of chat messages there "
            "is harness.rank_messages(message_lists, judge_model=...)"
        )
    agents = judge_objects(settings)
    chosen, run_env = load({"n": max(1, len(group.rollouts)), **settings}), outside.read_run_env(progress)
    cache = VerdictCache(store or MemoryStore(), run_env.progress, ceiling=Ceiling(chosen.max_cost))
    judging: JudgingPlan | Judge
    if judge is None or isinstance(judge, str):  # the model named, else the one that the group was rolled out on
        models = [model for rollout in group.rollouts for model in rollout.effective.models]
        named = replace(chosen, judge_model=judge or chosen.judge_model)
        credentials = outside.named_credentials(chosen, run_env)
        asked, offline = next(iter(models), None), OFFLINE_MODEL in models
        spec, judges = await named_judge(named, credentials, agents, asked, offline=offline)
        rubric = load_named_rubric(chosen)
        judging = JudgingPlan(spec, rubric, with_profile(chosen, spec, rubric), credentials, judge_agents=judges)
    elif chosen.judge_agent is not None:
        raise errors.UsageError(
            f"judge and {errors.option('judge_agent')}: give one, or a model's name as judge for a jury of both"
        )
    else:
        judging = judge
    async with _open_ranker(judging, chosen, cache, run_env) as ranker:
        ranking = await rank_alone(ranker, group, chosen, run_env.progress)
    why = ranking.failed_verdicts and outside.why_missing(ranking, cache.store, run_env, cache.ceiling)
    if why:
        missing = errors.counted(len(ranking.failed_verdicts), "verdict is", "verdicts are")
        ranking = ranking.model_copy(update={"notes": (*ranking.notes, f"{missing} missing: {why}")})
    return outside.ranking_handed_out(ranking)


def _open_ranker(
    judging: JudgingPlan | Judge, settings: Settings, cache: VerdictCache, run_env: RunEnvironment
) -> AbstractAsyncContextManager[Ranker]:
    """Open what ranks: by the judges of a plan, or by one of the caller's own. Raises UsageError for its profile."""
    if isinstance(judging, JudgingPlan):
        return open_ranker(judging, cache, run_env)
    refuse_profile(settings)
    return nullcontext(TournamentRanker(PairJury([CachedPairJudge(judging, cache)]), rules_of(settings)))


_DOUBLE_FROM = 16
_CONFIDENCE = 0.95
_ALIKE = "nothing that a judge sees differs, so it is the first"
_LOG = logging.getLogger("arena-harness")


@outside.door
async def best_of(
    agent: outside.AnyAgent,
    query: str | Query | Mapping[str, Any],
    n: int = 8,
    judge: str | Judge | None = None,
    *,
    context: Any = None,
    run_config: Any = None,
    hooks: Any = None,
    session: Any = None,
    deadline: float | None = None,
    on_judge_failure: Literal["anchor", "raise"] = "anchor",
    store: Store | None = None,
    progress: Progress | None = None,
    **settings: Unpack[CommonSettings],
) -> Best:
    """Run an agent `n` times on a query and return the best answer, picked as `harness best` picks: see `for_best`.

    What the agent's app gives its runs is as in `run`.

    `deadline` is in seconds, for all of it. Two thirds of them are for the rollouts: those that are not in by then are
    left, once two have ended well. What is there is judged until the deadline, all pairs at once; matches that are not
    judged by then stay open. `max_cost` is one ceiling for agent and judge. Where the judge tells nothing (it is
    down, slow, or talks nonsense), the answer is the anchor's, `judged` is False and `why` says so; with
    `on_judge_failure="raise"` that is JudgeFailed.
    Raises UsageError before anything is spent; Refused (out of quota: OutOfQuota) where the agent's endpoint turns the
    first call down; NothingRankable where no rollout ended well. A judge that is refused is a judge that tells
    nothing. An error that comes after the agent has run carries the rollouts as its `group`.
    """
    if deadline is not None and not 0 < deadline < math.inf:
        raise errors.UsageError(f"deadline {errors.quoted(deadline)}: give a number of seconds above 0")
    ends = NO_DEADLINE if deadline is None else Deadline.after(deadline, anyio.current_time())
    await my_turn()
    if on_judge_failure not in ("anchor", "raise"):
        raise errors.UsageError(f"on_judge_failure {errors.quoted(on_judge_failure)}: give 'anchor' or 'raise'")
    judges, usual = judge_objects(settings), for_best(n, settings.get("confidence"), hurried=ends.is_set)
    chosen = load({**usual, "n": n, **settings})
    run_env = replace(outside.read_run_env(progress), deadline=ends)
    (asked,) = make_queries([query])
    loaded = loaded_agent(agent, context=context, run_config=run_config, hooks=hooks, session=session)
    work = await _prepared(loaded, judge, chosen, run_env, store, judges)
    await check_app(work.agent, chosen, [asked])
    await my_turn()
    maker = maker_elsewhere(work.settings)
    cache = VerdictCache(work.store, run_env.progress, ceiling=work.ceiling, stop=run_env.stop, deadline=ends)
    async with (
        _open_ranker(work.judging, work.settings, cache, run_env) as ranker,
        open_engine(work.agent, work.settings, work.store, run_env, maker, ceiling=work.ceiling) as engine,
    ):
        group = await work.roll_out(engine, asked)
        in_time = anyio.current_time() < ends.at
        ranking, trouble = await work.judged(ranker, group)
    if not in_time:
        trouble = f"{run_env.lateness} (the judging had not begun)"
    if on_judge_failure == "raise" and in_time and is_unranked(group, ranking):
        raise _with_group(errors.JudgeFailed(f"no best answer: {trouble or 'verdicts could not be had'}"), group)
    return best_from(outside.handed_out(group), ranking, trouble)


def for_best(n: int, confidence: float | None = None, *, hurried: bool = False) -> dict[str, Any]:
    """Return the settings under which the first place is found best among `n`, and no more is paid for.

    Below 16 every pair meets once, until the leader is best with probability `confidence` (0.95); from 16 on double
    elimination finds it more often for as many calls (benchmarks/ranking.py prints both). If `hurried` no match waits
    for another. `pooled` picks; if `confidence` is 1, `margins`, where it is certain that no call changes the winner.
    """
    design: dict[str, Any] = {"topology": "cyclic" if hurried or n < _DOUBLE_FROM else "double"}
    if not hurried and n < _DOUBLE_FROM:
        design["confidence"] = confidence or _CONFIDENCE
    return design | {"estimator": "margins" if confidence == 1 else "pooled"}


@dataclass(frozen=True)
class _Work:
    """A checked best-of-N that has cost nothing yet."""

    agent: AgentSpec
    judging: JudgingPlan | Judge
    settings: Settings
    run_env: RunEnvironment
    store: Store
    ceiling: Ceiling

    @property
    def models(self) -> list[NamedModel]:
        """The models that are asked somewhere, the agent's and the judge's."""
        plan, models = self.judging, models_of_agent(self.agent, self.settings)
        return models + (
            models_of_judge(plan.judge, plan.settings, plan.credentials) if isinstance(plan, JudgingPlan) else []
        )

    async def roll_out(self, engine: Engine, query: Query) -> Group:
        """Return the rollouts. Raises the first error, with the rollouts that there are."""
        self.run_env.progress.total("rollouts", self.settings.n, self.settings.n)
        try:
            # nobody watches: a server may call this all day
            on_refusal = isinstance(self.run_env.progress, Logged)
            async with models_looked_up(self.models, self.run_env, on_refusal=on_refusal):
                return await engine.roll_out(query)
        except* errors.HarnessError as caught:
            kept = self.store.rollouts if isinstance(self.store, MemoryStore) else ()
            by_index = {r.index: r for r in kept if r.query == query.id}
            group = Group(query=query, rollouts=tuple(by_index[i] for i in sorted(by_index)))
            raise _with_group(errors.first_error(caught), group) from None

    def _to_judge(self, ranker: Ranker, group: Group) -> Group:
        """Return the group; of rollouts that all are the same to the judge, so that no verdict is needed, the first."""
        if not isinstance(ranker, TournamentRanker) or ranker.rules.judge_when == "tied":
            return group
        texts, rubric = prepare_entrants(group, ranker.rules).texts, getattr(self.judging, "rubric", None)
        seen = {(rubric.shown(text) if isinstance(rubric, Rubric) else text).hash for text in texts.values()}
        first = tuple(r for r in group.rollouts if r.index == min(texts, default=None))
        return group.model_copy(update={"rollouts": first}) if len(seen) == 1 else group

    async def judged(self, ranker: Ranker, group: Group) -> tuple[GroupRanking | None, str | None]:
        """Return the ranking, None where the judge failed altogether; and why verdicts are missing."""
        to_judge = self._to_judge(ranker, group)
        try:
            async with models_looked_up(self.models, self.run_env, on_refusal=True):
                ranking = await rank_alone(ranker, to_judge, self.settings, self.run_env.progress)
        except Exception as exc:  # a judge of the caller's own may raise anything, and the answers stand
            error = errors.first_error(exc) if isinstance(exc, ExceptionGroup) else exc  # pyright: ignore[reportUnknownArgumentType]
            if isinstance(error, errors.HarnessError) and not isinstance(error, errors.Refused | errors.JudgeFailed):
                raise _with_group(error, group) from exc
            ours = isinstance(error, errors.HarnessError)
            why = str(error) if ours else f"the judge raised {type(error).__name__}: {error}"
            _LOG.warning("best_of: %s", why, exc_info=None if ours else error)
            forget_frames(exc)  # pyright: ignore[reportUnknownArgumentType] - as above
            return None, why
        if to_judge is not group:
            return ranking.model_copy(update={"notes": (_ALIKE,)}), None
        return ranking, outside.why_missing(ranking, self.store, self.run_env, self.ceiling)


async def _prepared(
    loaded: LoadedAgent,
    judge: str | Judge | None,
    settings: Settings,
    run_env: RunEnvironment,
    store: Store | None,
    judge_agents: Sequence[LoadedAgent],
) -> _Work:
    redact = make_redactor(loaded, settings, run_env.environ)
    store = store or MemoryStore(redact)
    if judge is None or isinstance(judge, str):
        settings = replace(settings, judge_model=judge or settings.judge_model)
        await outside.read_rubric_aside(settings, loaded)  # which `prepare` then finds read
        plan = replace(await prepare(loaded, settings, run_env.environ, (), judge_agents), judge_may_fail=True)
        settings = replace(settings, vary=plan.settings.vary)
        refuse_asking(settings)
        if plan.offline and not settings.offline:
            run_env.progress.note(SELF_TEST)
        return _Work(plan.agent, plan, settings, run_env, store, make_ceiling(settings, plan.judge, plan.agent))
    refuse_profile(settings)
    spec = await resolve_agent(loaded, settings, outside.named_credentials(settings, run_env))
    settings = settle_vary(settings, spec, redact, run_env.environ)
    refuse_asking(settings)
    check_prices(settings, None, spec)
    return _Work(spec, judge, settings, run_env, store, make_ceiling(settings, None, spec))


def _with_group(error: errors.HarnessError, group: Group) -> errors.HarnessError:
    error.group = outside.handed_out(group)
    return error


rollout_sync = in_step(rollout)
rank_sync = in_step(rank)
best_of_sync = in_step(best_of)


_NOT_NEEDED = {"cli", "doctor", "__main__"}
_OF_AN_EXTRA = "harness.pipeline.ray_"
"""Modules so named import Ray, which a plain install does not have, and which nobody needs who does not ask for it."""
_WALKS_BEFORE_A_FULL_ONE = 500
"""Ten by default. The walks before it find nearly all that is to be freed: what a call leaves behind is young."""


def preload() -> None:
    """Import everything, and build what a first call would build: no later call then blocks its event loop for that.

    Takes seconds, once: call it before a server takes requests. It asks no model, opens no connection, writes nothing.
    What the process holds by then is left out of the garbage collector's walks (`gc.freeze`), and full walks become
    rarer (`gc.set_threshold`): over all rollouts under way, one would block a loop for longer than any request.
    """
    for room in pkgutil.iter_modules([str(Path(__file__).parents[1])]):
        if room.name not in _NOT_NEEDED:
            package = importlib.import_module(f"harness.{room.name}")
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                if not module.name.startswith(_OF_AN_EXTRA):
                    importlib.import_module(module.name)
    build_records()
    # the price library loads its data with the first price
    Priced(AGENT_MODEL, None).cost(Bill(agent_tokens(1)[0].usage()))
    counter_for(AGENT_MODEL)
    in_step(_rehearse)()
    gc.collect()
    gc.freeze()
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, max(old, _WALKS_BEFORE_A_FULL_ONE))


async def _rehearse() -> None:
    """Run and judge an agent on the embedded parts: the SDK, the prompts and the numbers do everything once."""
    certificates = Certificates.named_in(environment())
    client = openai_client(Endpoint(base_url=None, api="chat", key=SecretStr("none"), certificates=certificates))
    _ = client.responses, client.chat.completions  # each is imported when it is first asked for
    await client.close()
    agent = Agent(name="preload", tools=[search_tool()])  # what it finds, and so the answers to judge, differ
    await best_of(agent, "How did programming languages evolve?", 3, OFFLINE_JUDGE, offline=True)
