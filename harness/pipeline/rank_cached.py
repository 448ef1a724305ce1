"""A run ranked by what is cached of its groups: no text is read, and many groups are fitted at once.

The judge is learnt before anything is written, so that nothing that is written is provisional.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import anyio.lowlevel

from harness.archive.group_cache import GroupCache
from harness.archive.reader import RunReader
from harness.core.errors import ArchiveDamaged
from harness.core.group_cache import CachedGroup, cached_group
from harness.core.rankings import GroupRanking
from harness.pipeline.rank_groups import OpenRanking, rank_part
from harness.ranking.comparisons import Comparisons
from harness.ranking.pooled_judge import LearntJudge
from harness.ranking.reward_classes import learnt_from_queries
from harness.report.summary.ranking import RankingSummary
from harness.tournament.cached import CachedRanker
from harness.tournament.group_ranking import TournamentResult, refit

_AT_ONCE = 64
"""Groups that are ranked, and in memory, together."""
_MOST_KEPT = 128
"""Tournaments that are played to learn the judge, and not played again: each takes about 33 kB.

Its cache, which would take half as much again, is rather read twice."""


async def rank_cached(ranking: OpenRanking, reader: RunReader, extracts: GroupCache) -> RankingSummary | None:
    """Rank the groups of a run, and return what they sum up to.

    None, with nothing written, where a group that teaches the judge is not cached.
    """
    ranker, judge = ranking.cached_ranker, None
    if ranker is None:
        return None
    groups = _CachedGroups(ranking, ranker, reader, extracts)
    if ranking.ranker.provisional and (judge := await groups.learn()) is None:
        return None
    summary = RankingSummary()
    for some in _some_at_a_time(list(reader.index.queries)):
        for extract, ranked in await groups.rank(some, judge):
            summary.add(reader, extract, ranking.write(ranked, extract.basis))
    return summary


@dataclass
class _CachedGroups:
    """The groups of a run, played by what is cached of them."""

    ranking: OpenRanking
    ranker: CachedRanker
    reader: RunReader
    extracts: GroupCache
    kept: dict[str, TournamentResult] = field(default_factory=dict[str, TournamentResult])

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
        """Rank a group that is not cached by itself, and finalize it by the judge."""
        if (query := self.reader.query(name)) is None:
            raise ArchiveDamaged(f"run {self.reader.info.id}: query {name!r} is no longer there")
        group = self.reader.group(query)
        ranked = await rank_part(self.ranking.ranker, group, self.ranking.settings)
        if judge and ranked.provisional:
            (ranked,) = refit(judge, [ranked], self.ranker.rules)
        extract = self.extracts.of(name)
        if extract is None or not extract.holds(ranked):
            extract = cached_group(group, ranked, self.reader.pair_scores)
            self.extracts.add(extract)
        return extract, ranked


def _some_at_a_time(queries: Sequence[str]) -> Iterator[Sequence[str]]:
    return (queries[begin : begin + _AT_ONCE] for begin in range(0, len(queries), _AT_ONCE))
