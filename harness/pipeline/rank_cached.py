"""A run ranked by what is cached of its groups: no text is read, and nothing that is written is provisional."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import anyio.lowlevel

from harness.archive.group_cache import GroupCache
from harness.archive.reader import RunReader
from harness.core.errors import ArchiveDamaged
from harness.core.group_cache import CachedGroup, cached_group
from harness.core.rankings import GroupRanking
from harness.core.records import Group
from harness.pipeline.rank_groups import OpenRanking, rank_part
from harness.ranking.comparisons import Comparisons
from harness.ranking.pooled_judge import LearntJudge
from harness.ranking.reward_classes import learnt_from_queries
from harness.report.summary.ranking import RankingSummary
from harness.tournament.cached import CachedRanker
from harness.tournament.group_ranking import TournamentResult, refit

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
