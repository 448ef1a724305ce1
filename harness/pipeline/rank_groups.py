"""A ranking in the making: judges seated, groups ranked by texts or by caches, each written down as it is."""

import secrets
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Protocol

import anyio
import anyio.lowlevel

from harness.archive.group_cache import GroupCache
from harness.archive.reader import RunReader
from harness.archive.store import RankingWriter, RunStore
from harness.archive.typed_records import RankingHead
from harness.core.errors import ArchiveDamaged, JudgeFailed, Refused, counted, first_error
from harness.core.group_cache import CachedGroup, cached_group
from harness.core.progress import Progress
from harness.core.rankings import FIT_VERSION, GroupRanking, Ranked
from harness.core.records import Group, digest
from harness.core.settings import Settings, as_written
from harness.judging.verdict_cache import PairLedger, VerdictCache
from harness.pipeline.judge_calls import JudgeCalls, Size
from harness.pipeline.judge_inputs import whole_text
from harness.pipeline.plan import JudgingPlan
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import open_ranker
from harness.ranking.comparisons import Comparisons
from harness.ranking.pooled_judge import LearntJudge
from harness.ranking.reward_classes import learnt_from_queries
from harness.ranking.topologies import TOPOLOGIES
from harness.report.learnt_judges import judge_profiles
from harness.report.summary.ranking import RankingSummary
from harness.tournament.group_ranking import CachedRanker, TournamentResult, refit
from harness.tournament.pairwise import EarlyVerdicts
from harness.tournament.ranker import Ranker


class Taker(Protocol):
    """Takes the groups of a run one by one as they are rolled out, and says when another may begin."""

    async def room(self) -> None:
        """Wait until another group may begin."""

    async def take(self, group: Group, ranking: "OpenRanking") -> None:
        """Rank a group, and write that once nobody needs the group any more. Raises what is to end the run."""


@dataclass(frozen=True)
class OpenRanking:
    """A rankings file being written."""

    head: RankingHead
    ranker: Ranker
    store: RunStore
    cache: VerdictCache
    plan: JudgingPlan
    writer: RankingWriter
    run_env: RunEnvironment
    calls: JudgeCalls
    way: str | None
    """The name under which extracts of its groups are kept (`RunReader.extracts`)."""

    @asynccontextmanager
    async def early(self) -> AsyncGenerator[EarlyVerdicts | None]:
        """Give what asks for sure verdicts of a group being rolled out; None if it may be left unranked."""
        async with anyio.create_task_group() as tasks:
            yield None if self.run_env.taker or self.plan.settings.max_cost is not None else self.ranker.early(tasks)

    def prefetch(self, group: Group, early: EarlyVerdicts | None) -> None:
        """Ask for what is sure of a group that is still being rolled out."""
        if early:
            there = {r.index for r in group.rollouts}
            pending = [index for index in range(self.store.reader.info.wanted(group.query.id)) if index not in there]
            early.prefetch(taking_part(group, self.plan.settings), pending)

    async def rank(self, group: Group, early: EarlyVerdicts | None = None) -> GroupRanking:
        """Rank a group, write that down, and return what was written."""
        most = self.calls.begin(taking_part(group, self.plan.settings))
        try:
            if early:
                early.raise_error()
            ranking = await rank_part(self.ranker, group, self.plan.settings, early)
            self.calls.end(most, ranking)
            ranking = self.write(ranking, group.basis)
        except* (Refused, JudgeFailed) as errors:
            if not self.plan.judge_may_fail:
                raise
            self.calls.end(most)
            ranking = self._add_unranked(group, str(first_error(errors)), early)
        return ranking

    async def ranked_apart(self, group: Group) -> GroupRanking:
        """Return the ranking of a group, unwritten. What is learnt of a judge that is down ends with the call."""
        apart = replace(self.run_env)  # with gates of its own
        async with open_ranker(self.plan, self.cache, apart, one_of_many=True) as ranker:
            return await rank_part(ranker, group, self.plan.settings)

    def write(self, ranking: GroupRanking, basis: str) -> GroupRanking:
        """Write the ranking of a group down, and return it with the basis of the group."""
        ranking = ranking.model_copy(update={"basis": basis})
        self.writer.add(ranking)
        return ranking

    @property
    def cached_ranker(self) -> CachedRanker | None:
        """What ranks groups by their caches, if all of their rollouts take part; None otherwise."""
        settings = self.plan.settings
        return None if settings.include or settings.exclude else self.ranker.cached_ranker

    async def rank_or_leave(self, group: Group, early: EarlyVerdicts | None = None) -> None:
        """Rank a group, unless money or an endpoint gave out before all rollouts; before a deadline what is there."""
        missing = self.store.reader.info.wanted(group.query.id) - len(group.rollouts)
        if missing <= 0 or self.run_env.deadline.is_set:
            await self.rank(group, early)
            return
        by = "an endpoint that was given up" if self.run_env.gates.given_up else "--max-cost"
        by = "the interruption" if self.run_env.stop.asked else by
        self.calls.leave(len(early.ledger.bought) if early else 0)
        self._add_unranked(group, f"{by} left {counted(missing, 'rollout')} not begun", early)

    def _add_unranked(self, group: Group, why: str, early: EarlyVerdicts | None) -> GroupRanking:
        ledger = early.ledger if early else PairLedger()
        spent = {"judged": ledger.judged, "judge_usage": ledger.usage, **ledger.prices}
        unranked = _unranked(group, self.ranker, why).model_copy(update={"status": "incomplete", **spent})
        self.writer.add(unranked)
        return unranked


@asynccontextmanager
async def open_ranking(
    plan: JudgingPlan, store: RunStore, cache: VerdictCache, run_env: RunEnvironment, size: Size
) -> AsyncGenerator[OpenRanking]:
    """Open a ranking of the run, and finish it if all goes well."""
    head = _head(plan, store, cache, run_env)
    several = size.queries != 1 or plan.settings.judge_when == "tied"  # classes of one query teach each other's judge
    async with open_ranker(plan, cache, run_env, one_of_many=several) as ranker:
        calls = JudgeCalls(run_env.progress, ranker, size, cache.free)
        calls.report()
        writer = store.open_ranking(head)
        try:
            settings, reader = plan.settings, store.reader
            way = ranker.way and digest([ranker.way, plan.judge.counter, settings.include, settings.exclude])
            yield OpenRanking(head, ranker, store, cache, plan, writer, run_env, calls, way)
            waits = cache.batches is not None and cache.batches.waits
            if not (cache.ceiling.stopped or run_env.gates.given_up or run_env.stop.asked or waits):
                if head.id in {there.id for there in reader.heads()}:  # without a group there is no file
                    ranking = reader.ranking(head.id)
                    for group in ranker.finalize(ranking.queries, ranking.stored) if writer.has_provisional else ():
                        await anyio.lowlevel.checkpoint()  # so that an interrupt gets in
                        if group.query in ranking.provisional:  # told anew, now that all groups are in
                            writer.add(group)
                    if settings.estimator == "pooled":
                        writer.profiles = judge_profiles(reader, reader.ranking(head.id))
                writer.finish()
        finally:
            writer.close()


def _head(plan: JudgingPlan, store: RunStore, cache: VerdictCache, run_env: RunEnvironment) -> RankingHead:
    settings, at = plan.settings, run_env.clock()
    if before := store.reader.newest_head():  # the newest counts, also if the clock has jumped back
        at = max(at, before.created_at + timedelta(microseconds=1))
    judge = {"identity": plan.judge.identity, "counter": plan.judge.counter}
    return RankingHead(
        id=f"{at:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}",
        created_at=at,
        settings=as_written(settings) | {"order": settings.order or TOPOLOGIES[settings.tournament].usual_order},
        judge=plan.judge.model_dump(mode="json") | judge,
        rubric=plan.rubric.label,
        rubric_text=whole_text(plan.rubric.source, store.redact),
        free=cache.free,
        rendering=plan.rubric.rendering,
        fit_version=FIT_VERSION,
        leanings=plan.leanings,
    )


async def rank_alone(ranker: Ranker, group: Group, settings: Settings, progress: Progress) -> GroupRanking:
    """Rank one group as `rank_part` does; `progress` hears how many judge calls that takes at most."""
    part = taking_part(group, settings)
    calls = JudgeCalls(progress, ranker, Size(1, len(part.rollouts)))
    most = calls.begin(part)
    ranking = await rank_part(ranker, group, settings)
    calls.end(most, ranking)
    return ranking


async def rank_part(
    ranker: Ranker, group: Group, settings: Settings, early: EarlyVerdicts | None = None
) -> GroupRanking:
    """Rank what --include and --exclude leave of a group; the others have no place, and a note says so."""
    part = taking_part(group, settings)
    taking = {r.index for r in part.rollouts}
    left_out = [str(r.index) for r in group.rollouts if r.index not in taking]
    if not left_out:
        return await (ranker(part, early) if early else ranker(part))
    several = "s" if len(left_out) > 1 else ""
    note = f"left out, as --include or --exclude asks: rollout{several} {', '.join(left_out)}"
    if not part.rollouts:
        return _unranked(group, ranker, note)
    ranking = await (ranker(part, early) if early else ranker(part))
    places = {r.index: r for r in ranking.rollouts}
    everyone = tuple(places.get(r.index) or Ranked(index=r.index) for r in group.rollouts)
    return ranking.model_copy(update={"rollouts": everyone, "notes": (*ranking.notes, note)})


def taking_part(group: Group, settings: Settings) -> Group:
    """Return a group less what --include and --exclude leave out of a ranking."""

    def named(words: Iterable[str], index: int) -> bool:
        parts = (word.rpartition("/") for word in words)
        return any(query in {"", group.query.id} and number in {"", str(index)} for query, _, number in parts)

    kept = tuple(
        r
        for r in group.rollouts
        if (not settings.include or named(settings.include, r.index)) and not named(settings.exclude, r.index)
    )
    return group if len(kept) == len(group.rollouts) else group.model_copy(update={"rollouts": kept})


def _unranked(group: Group, ranker: Ranker, why: str) -> GroupRanking:
    return GroupRanking(
        query=group.query.id,
        topology=ranker.topology,
        estimator=ranker.estimator,
        status="complete",
        signal="none",
        rollouts=tuple(Ranked(index=r.index) for r in group.rollouts),
        notes=(why,),
        basis=group.basis,
    )


_AT_ONCE = 64
_MOST_KEPT = 128
"""Tournaments that are played to learn the judge, and not played again: each takes about 33 kB.

Its cache, which would take half as much again, is rather read twice."""


async def rank_for_free(ranking: OpenRanking, reader: RunReader) -> RankingSummary | None:
    """Rank the groups of a run one after another and sum them up; None where they are ranked anew at the end."""
    with reader.group_cache(ranking.way) as extracts:
        if (ranker := ranking.cached_ranker) and (
            summary := await _CachedGroups(ranking, ranker, reader, extracts).rank_all()
        ):
            return summary
        summary = None if ranking.ranker.provisional else RankingSummary()
        for query in reader.queries():
            await anyio.lowlevel.checkpoint()  # nothing else lets an interrupt in
            group = reader.group(query)
            ranked = await ranking.rank(group)
            extract = _extract(reader, extracts, group, ranked)
            if summary:
                summary.add(reader, extract, ranked)
    return summary


def _extract(reader: RunReader, extracts: GroupCache, group: Group, ranked: GroupRanking) -> CachedGroup:
    """Return the extract of a group that was just ranked; one that does not hold all of the ranking is made anew."""
    extract = extracts.of(group.query.id)
    if extract is None or not extract.holds(ranked):
        extract = cached_group(group, ranked, reader.pair_scores)
        extracts.add(extract)
    return extract


@dataclass
class _CachedGroups:
    ranking: OpenRanking
    ranker: CachedRanker
    reader: RunReader
    extracts: GroupCache
    kept: dict[str, TournamentResult] = field(default_factory=dict[str, TournamentResult])

    async def rank_all(self) -> RankingSummary | None:
        """Rank all groups and sum them up; None, with nothing written, if one that teaches the judge is not cached."""
        judge, summary = None, RankingSummary()
        if self.ranking.ranker.provisional and (judge := await self.learn()) is None:
            return None
        for some in _some_at_a_time(list(self.reader.index.queries)):
            for extract, ranked in await self.rank(some, judge):
                summary.add(self.reader, extract, self.ranking.write(ranked, extract.basis))
        return summary

    async def learn(self) -> LearntJudge | None:
        """Return the judge as the groups that teach it show them; None where one of them is not cached."""
        calls = list[Comparisons]()
        for some in _some_at_a_time(learnt_from_queries(list(self.reader.index.queries))):
            await anyio.lowlevel.checkpoint()  # nothing else lets an interrupt in
            for query, (_, result) in zip(some, self._play(some), strict=True):
                if result is None:
                    return None
                if len(self.kept) < _MOST_KEPT:
                    self.kept[query] = result
                calls += result.calls
        return self.ranker.learn(calls)

    async def rank(self, queries: Sequence[str], judge: LearntJudge | None) -> list[tuple[CachedGroup, GroupRanking]]:
        """Return the rankings of groups, each with its cache; `judge` as `CachedRanker.rank` has it."""
        await anyio.lowlevel.checkpoint()
        played = self._play(queries)
        rankings = iter(self.ranker.rank([result for _, result in played if result], judge))
        return [
            (extract, next(rankings)) if extract and result else await self._rank_by_texts(query, judge)
            for query, (extract, result) in zip(queries, played, strict=True)
        ]

    def _play(self, queries: Sequence[str]) -> list[tuple[CachedGroup | None, TournamentResult | None]]:
        return [
            (extract, extract and (self.kept.pop(query, None) or self.ranker.play(extract)))
            for query, extract in zip(queries, self.extracts.several(queries), strict=True)
        ]

    async def _rank_by_texts(self, name: str, judge: LearntJudge | None) -> tuple[CachedGroup, GroupRanking]:
        if (query := self.reader.query(name)) is None:
            raise ArchiveDamaged(f"run {self.reader.info.id}: query {name!r} is no longer there")
        group = self.reader.group(query)
        ranked = await rank_part(self.ranking.ranker, group, self.ranking.plan.settings)
        if judge and ranked.provisional:
            (ranked,) = refit(judge, [ranked], self.ranker.rules)
        return _extract(self.reader, self.extracts, group, ranked), ranked


def _some_at_a_time(queries: Sequence[str]) -> Iterator[Sequence[str]]:
    return (queries[begin : begin + _AT_ONCE] for begin in range(0, len(queries), _AT_ONCE))
