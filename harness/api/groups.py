"""Rolling out and ranking one group in Python, with or without a run on disk."""

import warnings
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Any, Unpack

from harness.api.arguments import door
from harness.api.handed_out import handed_out, ranking_handed_out
from harness.api.outside import AnyAgent, credentials_of, loaded_agent, surroundings_of
from harness.archive.memory_store import MemoryStore
from harness.archive.store import Store
from harness.core.errors import UsageError
from harness.core.plurals import counted
from harness.core.progress import Progress
from harness.core.rankings import GroupRanking
from harness.core.records import Group, Query
from harness.core.settings import OFFLINE_MODEL, Settings
from harness.core.settings_sources import load
from harness.core.settings_types import CommonSettings
from harness.core.wording import as_spoken
from harness.endpoints.costs import Ceiling
from harness.formats.queries import make_queries
from harness.judging.judge import Judge
from harness.judging.jury import PairJury
from harness.judging.verdict_cache import CachedPairJudge, VerdictCache
from harness.pipeline.lent_profile import refuse_profile, with_profile
from harness.pipeline.plan import JudgingPlan
from harness.pipeline.rank_groups import rank_alone
from harness.pipeline.resolve import redactor_of, resolve_agent, resolve_judge
from harness.pipeline.rubrics import rubric_of
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import open_engine, open_ranker
from harness.tournament.group import rules_of
from harness.tournament.pairwise import TournamentRanker
from harness.tournament.ranker import Ranker


@door
async def rollout(
    agent: AnyAgent,
    query: str | Query | Mapping[str, Any],
    n: int = 8,
    *,
    store: Store | None = None,
    progress: Progress | None = None,
    **settings: Unpack[CommonSettings],
) -> Group:
    """Run an agent `n` times on a query and return the group: rollout 0 is the anchor at temperature 0.

    `agent` is an Agent, a function that builds one, a module like an agent's file, or what --agent takes; `settings`
    are those of the command line (`temperature=1.0`, `base_url=...`). Failed rollouts are in the group with their
    cause. Where the endpoint gave no reply for `give_up` seconds, the rollouts not begun are not in the group, and a
    warning says so. Nothing is written unless `store` is given. Raises UsageError; Refused (out of quota: OutOfQuota)
    where the endpoint turns the first call down.
    """
    chosen, run_env = load({"n": n, **settings}), surroundings_of(progress)
    (asked,), loaded = make_queries([query]), loaded_agent(agent)
    spec = await resolve_agent(loaded, chosen, credentials_of(chosen, run_env))
    store = store or MemoryStore(redactor_of(loaded, chosen, run_env.environ))
    async with open_engine(spec, chosen, store, run_env) as engine:
        run_env.progress.total("rollouts", n, n)
        rolled_out = await engine.roll_out(asked)
    if (why := run_env.gates.given_up) and len(rolled_out.rollouts) < n:
        warnings.warn(
            f"{len(rolled_out.rollouts):,} of {counted(n, 'rollout was', 'rollouts were')} begun: {as_spoken(why)}",
            stacklevel=3,
        )
    return handed_out(rolled_out)


@door
async def rank(
    group: Group,
    judge: str | Judge | None = None,
    *,
    store: Store | None = None,
    progress: Progress | None = None,
    **settings: Unpack[CommonSettings],
) -> GroupRanking:
    """Judge and rank a group. `judge` is a model's name, a Judge of your own, or None for the agent's own model.

    With a `store` verdicts that it holds are not bought again. A group rolled out on the embedded model is judged
    by the embedded judge unless another is named. Raises UsageError; Refused (out of quota: OutOfQuota) where the
    judge's endpoint turns the first call down; JudgeFailed where a judge of your own returns no verdict.
    """
    if not isinstance(group, Group):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not check types
        raise UsageError(
            f"rank takes a Group, as rollout gives it, not a {type(group).__name__}; for lists of chat messages there "
            "is harness.rank_messages(message_lists, judge_model=...)"
        )
    chosen, run_env = load({"n": max(1, len(group.rollouts)), **settings}), surroundings_of(progress)
    cache = VerdictCache(store or MemoryStore(), run_env.progress, ceiling=Ceiling(chosen.max_cost))
    opening: AbstractAsyncContextManager[Ranker]
    if judge is None or isinstance(judge, str):
        opening = open_ranker(_plan(group, judge, chosen, run_env), cache, run_env)
    else:
        refuse_profile(chosen)
        jury = PairJury([CachedPairJudge(judge, cache)])
        opening = nullcontext(TournamentRanker(jury, rules_of(chosen)))
    async with opening as ranker:
        return ranking_handed_out(await rank_alone(ranker, group, chosen, run_env.progress))


def _plan(group: Group, judge_model: str | None, settings: Settings, run_env: RunEnvironment) -> JudgingPlan:
    """Return who judges a group: the model named, else the model that the group was rolled out on."""
    models = [model for rollout in group.rollouts for model in rollout.effective.models]
    with_model = replace(settings, judge_model=judge_model or settings.judge_model)
    agent_model, offline = models[0] if models else None, OFFLINE_MODEL in models
    credentials = credentials_of(settings, run_env)
    spec = resolve_judge(with_model, credentials, agent_model, offline=offline)
    rubric = rubric_of(settings)
    return JudgingPlan(spec, rubric, with_profile(settings, spec, rubric), credentials)
