"""The Python API: rolling out and ranking without a run on disk, and going on with a run that is on disk.

Here, as in a command, the environment and the clock are read once.
"""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.archive import MemoryStore, Store
from harness.core.clock import Clock, now
from harness.core.errors import NothingRankable, UsageError, first_error
from harness.core.progress import Progress, Silent
from harness.core.rankings import GroupRanking
from harness.core.records import Group, Query, Rollout
from harness.core.settings import OFFLINE_MODEL, Settings
from harness.core.settings_sources import environment, load
from harness.endpoints import Ceiling, Credentials
from harness.formats import query_from
from harness.judging import CachedPairJudge, Judge, PairJury, VerdictCache
from harness.pipeline.plan import JudgingPlan, NamedAddresses
from harness.pipeline.rank_groups import rank_part
from harness.pipeline.resolve import redactor_of, resolve_agent, resolve_judge
from harness.pipeline.rubrics import rubric_of
from harness.pipeline.runs import RunResult, rescore_run, resume_run
from harness.pipeline.stages import open_engine, open_ranker
from harness.pipeline.surroundings import Surroundings
from harness.rollouts import LoadedAgent, from_object, load_agent
from harness.tournament import Ranker, TournamentRanker, rules_of
from harness.transcripts import RENDERING

_DOUBLE_FROM = 16


async def rollout(
    agent: Any,
    query: str | Query,
    n: int = 8,
    *,
    store: Store | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Group:
    """Run an agent `n` times on a query and return the group: rollout 0 is the anchor at temperature 0.

    `agent` is an Agent, a function that builds one, or whatever --agent takes; `settings` are those of the command
    line (`temperature=1.0`, `base_url=...`). Failed rollouts are in the group with their cause. Where the endpoint gave
    no reply for `give_up` seconds, the rollouts not begun are not in the group, and a warning says so. Nothing is
    written unless `store` is given. Raises UsageError.
    """
    chosen, surroundings = load({"n": n, **settings}), _surroundings(progress)
    loaded = load_agent(agent, Path.cwd()) if isinstance(agent, str) else from_object(agent)
    spec = await resolve_agent(loaded, chosen, _credentials(chosen, surroundings))
    store = store or MemoryStore(redactor_of(loaded, chosen, surroundings.environ))
    try:
        async with open_engine(spec, chosen, store, surroundings) as engine:
            rolled_out = await engine.roll_out(query if isinstance(query, Query) else query_from(query))
    except* UsageError as group:
        raise first_error(group) from None
    if (why := surroundings.gates.given_up) and len(rolled_out.rollouts) < n:
        warnings.warn(f"{len(rolled_out.rollouts)} of {n} rollouts were begun: {why}", stacklevel=2)
    return rolled_out


async def rank(
    group: Group,
    judge: str | Judge | None = None,
    *,
    store: Store | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> GroupRanking:
    """Judge and rank a group. `judge` is a model's name, a Judge of your own, or None for the agent's own model.

    With a `store` verdicts that it holds are not bought again. A group rolled out on the embedded model is judged
    by the embedded judge unless another is named. Raises UsageError.
    """
    chosen, surroundings = load(settings), _surroundings(progress)
    cache = VerdictCache(store or MemoryStore(), surroundings.progress, ceiling=Ceiling(chosen.max_cost))
    opening: AbstractAsyncContextManager[Ranker]
    if judge is None or isinstance(judge, str):
        opening = open_ranker(_plan(group, judge, chosen, surroundings), cache, surroundings)
    else:
        jury = PairJury([CachedPairJudge(judge, cache)])
        opening = nullcontext(TournamentRanker(jury, rules_of(chosen)))
    try:
        async with opening as ranker:
            return await rank_part(ranker, group, chosen)
    except* UsageError as errors:
        raise first_error(errors) from None


def _plan(group: Group, judge_model: str | None, settings: Settings, surroundings: Surroundings) -> JudgingPlan:
    """Return who judges a group: the model named, else the model that the group was rolled out on."""
    models = [model for rollout in group.rollouts for model in rollout.effective.models]
    with_model = replace(settings, judge_model=judge_model or settings.judge_model)
    agent_model, offline = models[0] if models else None, OFFLINE_MODEL in models
    credentials = _credentials(settings, surroundings)
    spec = resolve_judge(with_model, credentials, agent_model, offline=offline)
    return JudgingPlan(spec, rubric_of(settings), settings, credentials)


async def best_of(
    agent: Any,
    query: str | Query,
    n: int = 8,
    judge: str | Judge | None = None,
    *,
    store: Store | None = None,
    **settings: Any,
) -> Any:
    """Run an agent `n` times on a query and return the best answer: a str, or the JSON value of a structured output.

    Picked as `harness best` picks: see `for_best`. Raises UsageError; HarnessError where no rollout ended well or
    the judge's verdicts could not be had.
    """
    with_design = for_best(n) | settings
    group = await rollout(agent, query, n, store=store, **with_design)
    return answer_of(group, await rank(group, judge, store=store, **with_design))


async def resume(
    folder: Path,
    loaded: LoadedAgent | Callable[[], LoadedAgent],
    *,
    retry_failed: bool = False,
    accept_changed_agent: bool = False,
    max_cost: float | None = None,
    rubric: str | None = None,
    base_url: str | None = None,
    judge_base_url: str | Sequence[str] | None = None,
    trust_archive: bool = False,
    progress: Progress | None = None,
    clock: Clock = now,
) -> RunResult | None:
    """Do what is missing of a run, as `harness resume` does. None if nothing is missing.

    `loaded` is the run's agent, or a function that loads the agent; it is called only if rollouts are missing.
    `rubric` names the run's rubric where the run does not hold its text. A run that this machine has no record of gets
    keys only with its addresses as `base_url` and `judge_base_url`, or with `trust_archive`. Raises UsageError,
    ArchiveLocked, ArchiveDamaged.
    """
    judge_urls = judge_base_url if isinstance(judge_base_url, str | None) else tuple(judge_base_url)
    return await resume_run(
        folder,
        loaded,
        _surroundings(progress, clock),
        retry_failed=retry_failed,
        accept_changed_agent=accept_changed_agent,
        max_cost=max_cost,
        rubric_word=rubric,
        named=NamedAddresses(base_url, judge_urls),
        trust_archive=trust_archive,
    )


async def rescore(
    folder: Path,
    changes: Mapping[str, Any],
    *,
    reuse: Sequence[Path] = (),
    free: bool = False,
    rendering: int = RENDERING,
    trust_archive: bool = False,
    progress: Progress | None = None,
    clock: Clock = now,
) -> RunResult:
    """Judge an archived run again under `changes` to its settings, as `harness rescore` does.

    Only verdicts that neither the run nor the runs in `reuse` hold are bought; with `free` none is bought. With
    `rendering=1` transcripts are written as version 0.1.0 wrote them, so that its verdicts are reused. Keys go to the
    judge's address of a run that this machine has no record of only if `changes` name that address, or with
    `trust_archive`. Raises UsageError, ArchiveLocked, ArchiveDamaged.
    """
    surroundings = _surroundings(progress, clock)
    return await rescore_run(
        folder, changes, surroundings, reuse=reuse, free=free, rendering=rendering, trust_archive=trust_archive
    )


def for_best(n: int) -> dict[str, Any]:
    """Return the settings under which the first place is found best among `n`, and no more is paid for.

    Below 16 every pair meets once, until the leader is best with probability 0.95; from 16 on double elimination
    finds it more often for as many calls (benchmarks/ranking.py prints both). `margins` picks.
    """
    design = {"topology": "cyclic", "sure": 0.95} if n < _DOUBLE_FROM else {"topology": "double"}
    return design | {"estimator": "margins"}


def best_rollout(group: Group, ranking: GroupRanking) -> Rollout:
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
    """Return the best rollout's answer: text, or the value of a structured one. Raises as `best_rollout`."""
    best = best_rollout(group, ranking).trajectory
    return json.loads(best.answer) if best.answer_type == "json" else best.answer


def _credentials(settings: Settings, surroundings: Surroundings) -> Credentials:
    """Return the keys in force for settings that the caller gave."""
    return Credentials.naming(surroundings.environ, settings.base_url, settings.judge_base_url)


def _surroundings(progress: Progress | None, clock: Clock = now) -> Surroundings:
    return Surroundings(environment(), clock, progress or Silent())
