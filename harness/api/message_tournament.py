"""The tournament on plain chat messages: `await harness.rank_messages(message_lists, judge_model=...)`, no agent."""

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack

from harness.api import outside
from harness.api.messages import ChatMessage, ChatTrajectory, parted_each
from harness.archive.store import MemoryStore, Store, VerdictStore
from harness.core.errors import CeilingReached, JudgeFailed, UsageError, on_a_line, quoted
from harness.core.progress import Progress
from harness.core.rankings import GroupRanking, Match
from harness.core.records import Group, Query, Record, Rollout
from harness.core.settings import Settings
from harness.core.settings_sources import check_names, load
from harness.core.settings_types import CommonSettings
from harness.core.sync import in_step
from harness.endpoints.costs import Ceiling
from harness.formats.chat_turns import read_messages
from harness.formats.imported import ImportedRun
from harness.judging.verdict_cache import VerdictCache
from harness.pipeline.judge_inputs import with_profile
from harness.pipeline.plan import JudgingPlan
from harness.pipeline.rank_groups import rank_part
from harness.pipeline.resolve import check_prices, make_ceiling, make_redactor, resolve_judge
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import open_ranker
from harness.ranking.topologies import NEED_ANCHOR

_NO_ANCHOR = "there is no anchor: ranked without it"
_USUAL = {"topology": "cyclic", "estimator": "margins"}


class TrajectoryRank(Record):
    """One trajectory's place among all, beside the reward that came with it."""

    rank: float
    """0 is the best; ties share the average."""
    score: float | None
    """The estimator's, on its own scale: of `margins` the points above the mean, of `tiers` the mean mark, 0 to 10."""
    reward: float | None
    """1 - rank / (M - 1); with `reward="score"` the score."""
    advantage: float | None
    """The reward less its mean, by its standard deviation."""
    uncertainty: float | None
    """Posterior standard deviation, in score points."""
    p_best: float | None
    """Posterior probability of being the best. None where the judge saw no difference."""
    explanation: str = ""
    """Its matches: against whom, and the mean marks. With `judge="ruler"` what the judge says of it."""
    independent_reward: float | None = None
    """The reward that came with it."""


class RankMessagesSettings(CommonSettings, total=False):
    """The settings of `rank_messages`: all of a run's but `n`, which is how many trajectories there are."""

    judge: Literal["pairwise", "ruler"]
    """Judge two trajectories at a time (pairwise), or all at once (ruler). [default: pairwise]"""


@outside.door
async def rank_messages(
    message_lists: Sequence[ChatTrajectory],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    first_is_anchor: bool = False,
    store: Store | None = None,
    progress: Progress | None = None,
    **settings: Unpack[RankMessagesSettings],
) -> list[TrajectoryRank]:
    """Rank trajectories of one query by a tournament, and return their places in their order; they are not changed.

    The first user message is the query, the same in all. `judge_model` names the judge, several a jury; `settings` are
    those of `harness run` that concern judging (`topology`, `estimator`, `rubric`, `judge_base_url`, `max_cost`, ...).
    Unless `topology`, `estimator` or `budget` is given, every pair meets once (`cyclic`, at most 4 (n - 1) calls), and
    `margins` ranks; with `judge_profile` it is `pooled`. `arena` and `anchor` need `first_is_anchor`: the first was
    sampled at temperature 0. With a `store` verdicts that it holds are not bought again. `judge="ruler"` scores all at
    once; no match is played then.
    Raises UsageError for what cannot be used, Refused (out of quota: OutOfQuota) where the judge's endpoint turns the
    first call down, and JudgeFailed where verdicts that are missing leave nobody a place
    (because of `max_cost`: CeilingReached).
    """
    judged = await ranked_messages(
        message_lists, tools=tools, first_is_anchor=first_is_anchor, keep_in=store, progress=progress, **settings
    )
    for note in judged.notes:
        warnings.warn(f"rank_messages: {note}", stacklevel=3)
    return list(judged.places)


rank_messages_sync = in_step(rank_messages)


@dataclass(frozen=True)
class RankedMessages:
    """The places of trajectories, in their order, and the ranking that they come from."""

    places: tuple[TrajectoryRank, ...] = ()
    ranking: GroupRanking | None = None
    """None where there were no trajectories."""
    notes: tuple[str, ...] = ()
    """What the user should read."""


@outside.door
async def ranked_messages(
    message_lists: Sequence[ChatTrajectory] | Group,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    first_is_anchor: bool = False,
    keep_in: VerdictStore | None = None,
    ceiling: Ceiling | None = None,
    judge_busy_s: float = math.inf,
    progress: Progress | None = None,
    **settings: Unpack[RankMessagesSettings],
) -> RankedMessages:
    """Do what `rank_messages` does, and return the ranking; a `ceiling` that calls share stands in for `max_cost`.

    A group of rollouts stands in for their messages. `judge_busy_s` is as in RunEnvironment.
    """
    check_names(settings, RankMessagesSettings.__annotations__)
    given = message_lists if isinstance(message_lists, Group) else None
    parts = parted_each([[]] * len(given.rollouts) if given else message_lists)
    if not parts:
        return RankedMessages()
    picked = {} if settings.keys() & {*_USUAL, "budget"} else _USUAL
    if settings.get("judge_profile"):
        picked = {**picked, "estimator": "pooled"}
    chosen = load({"n": len(parts), **picked, **settings})
    run_env = replace(outside.read_run_env(progress), judge_busy_s=judge_busy_s)
    redact = make_redactor(None, chosen, run_env.environ)
    importing = ImportedRun("", run_env.clock(), first_is_anchor)
    group = given or _group([messages for messages, _ in parts], tools or (), importing)
    ranking = await _ranked(redact.record(group), chosen, run_env, keep_in or MemoryStore(redact), ceiling)
    places = [
        TrajectoryRank(
            **row.model_dump(include={"score", "reward", "advantage", "uncertainty", "p_best"}),
            rank=row.rank or 0.0,
            explanation=row.explanation
            or "; ".join(_result(row.index, match) for match in ranking.matches if row.index in {match.a, match.b}),
            independent_reward=reward,
        )
        for row, (_, reward) in zip(ranking.rollouts, parts, strict=True)
    ]
    notes = [note for note in ranking.notes if chosen.topology in NEED_ANCHOR or note != _NO_ANCHOR]
    return RankedMessages(tuple(places), ranking, tuple(notes))


async def _ranked(
    group: Group, settings: Settings, run_env: RunEnvironment, store: VerdictStore, ceiling: Ceiling | None
) -> GroupRanking:
    credentials = outside.named_credentials(settings, run_env)
    judge = resolve_judge(settings, credentials, None, offline=settings.offline)
    check_prices(settings, judge)
    cache = VerdictCache(store, run_env.progress, ceiling=ceiling or make_ceiling(settings, judge))
    rubric = await outside.read_rubric_aside(settings)
    plan = JudgingPlan(judge, rubric, with_profile(settings, judge, rubric), credentials)
    async with open_ranker(plan, cache, run_env) as ranker:
        ranking = await rank_part(ranker, group, settings)
    if any(row.rank is None for row in ranking.rollouts):
        why = outside.why_missing(ranking, store, run_env, cache.ceiling) or "; ".join(ranking.notes)
        kind = CeilingReached if cache.ceiling.stopped else JudgeFailed
        error = kind(f"no ranking: {why or 'verdicts could not be had'}")
        error.failures = outside.failures_of_missing(ranking, store)
        raise error
    return ranking


def _group(chats: Sequence[Sequence[ChatMessage]], tools: Sequence[Mapping[str, Any]], importing: ImportedRun) -> Group:
    """Return trajectories as rollouts of one query. Raises UsageError for what is none, and for several queries."""
    queries, rollouts = list[Query](), list[Rollout]()
    for number, messages in enumerate(chats):
        try:
            trajectory = read_messages(json.loads(json.dumps({"messages": messages, "tools": tools})))
        except (ValueError, TypeError) as exc:
            raise UsageError(f"trajectory {number}: {on_a_line(exc)}") from None
        queries += filter(None, [importing.query(trajectory)])
        if len(queries) > 1:
            raise UsageError(f"trajectory {number} is of another query than trajectory 0: {quoted(trajectory.query)}")
        rollouts += filter(None, [importing.rollout(trajectory)])  # without a number it is never there already
    return Group(query=queries[0], rollouts=tuple(rollouts))


def _result(index: int, match: Match) -> str:
    mine, other, theirs = match.score_a, match.b, match.score_b
    if index == match.b:
        mine, other, theirs = match.score_b, match.a, match.score_a
    outcome = "level with" if match.winner is None else "beat" if match.winner == index else "lost to"
    return f"{outcome} {other} ({mine:g} : {theirs:g})"
