"""A ranking summed up over its groups: everything that page, terminal and exit code say of all queries together.

The records of a large run do not fit into memory, and reading a record costs more than ranking it. So the groups are
read one by one, and of each group only a line and the sums are kept.
"""

import shlex
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from operator import attrgetter
from typing import get_args

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.core.errors import ArchiveDamaged, counted
from harness.core.group_cache import CachedGroup, Packed, cached_group
from harness.core.rankings import Agreement, GroupRanking, Signal
from harness.core.records import Group, Query
from harness.core.settings import OFFLINE_JUDGE
from harness.ranking.judge_stats.tally import Tally, tally
from harness.report.summary.group import (
    AgentFigures,
    JudgeFigures,
    ModelNames,
    QueryLine,
    merged_spans,
    summarize_group,
)
from harness.report.summary.rollouts import shows_winner

_VALUES = attrgetter(*(field.name for field in fields(QueryLine)))


class QueryLines(Packed[QueryLine]):
    """The lines of a ranking's queries, each unpacked when it is asked for: in 300 bytes, where objects take 1,000."""

    def __init__(self) -> None:
        """No line is in it yet."""
        super().__init__(_VALUES, lambda values: QueryLine(*values))

    def __eq__(self, other: object) -> bool:
        """Whether `other` holds the same lines."""
        return isinstance(other, QueryLines) and list(self) == list(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as a list's


@dataclass
class RankingSummary:
    """The sums over a ranking's groups, and a line for each group."""

    lines: QueryLines = field(default_factory=QueryLines)
    signals: Counter[str] = field(default_factory=Counter[str])
    """How many groups have each signal."""
    signals_in_full: Counter[str] = field(default_factory=Counter[str])
    """How many groups that are ranked in full have each signal."""
    above_anchor: tuple[int, int] = (0, 0)
    """Ranked samples above their anchor, and ranked samples in all."""
    best: tuple[str, int] | None = None
    """The first query in which a rollout has a rank, and its best rollout; None if nothing is ranked."""
    agents: AgentFigures = field(default_factory=AgentFigures)
    judge: JudgeFigures = field(default_factory=JudgeFigures)
    models: ModelNames = field(default_factory=ModelNames)
    sources: Counter[str] = field(default_factory=Counter[str])
    """How many verdicts were bought in which other run (--reuse)."""
    agreements: list[Agreement] = field(default_factory=list[Agreement])
    designs: dict[tuple[str, str], None] = field(default_factory=dict[tuple[str, str], None])
    """Topology and estimator of the groups, each pair once."""
    failed_verdicts: set[str] = field(default_factory=set[str])
    """Keys of the verdicts that groups still wait for."""
    absent_verdicts: set[str] = field(default_factory=set[str])
    """Keys of jurors' verdicts that failed where the other jurors' stand."""
    listwise: bool = False
    """Whether a listwise judge scored any group."""
    tallies: dict[str, Tally] = field(default_factory=dict[str, Tally])
    """How each judge decided."""
    _spans: "array[float]" = field(default_factory=lambda: array("d"))
    """Those of each group: from when, to when, from when, and so on."""

    @property
    def spans(self) -> list[tuple[float, float]]:
        """When a rollout or a verdict was under way: in order, and none overlaps another."""
        return list(merged_spans(zip(self._spans[::2], self._spans[1::2], strict=True)))

    @property
    def incomplete(self) -> int:
        """How many groups are not ranked in full."""
        return self.signals.total() - self.signals_in_full.total()

    def add(self, reader: RunReader, extract: CachedGroup, ranking: GroupRanking) -> None:
        """Add the next group; `reader` has verdicts on lists. Raises ArchiveDamaged."""
        number = len(self.lines) + 1
        if number == 1 and (way := reader.info.way_found):  # it was paid for before the first rollout
            self.agents += AgentFigures(tokens=way.usage.tokens, cost=way.cost)
        group = summarize_group(number, extract, ranking, reader.scored)
        line = group.line
        self.lines.append(line)
        self.signals[line.signal] += 1
        self.signals_in_full[line.signal] += line.complete
        above, samples = line.above_anchor
        self.above_anchor = self.above_anchor[0] + above, self.above_anchor[1] + samples
        if self.best is None and line.first:
            self.best = line.id, line.first[0]
        self.agents += group.agents
        self.judge += group.judge
        for judge, calls in group.calls.items():
            self.tallies[judge] = self.tallies.get(judge, Tally()) + tally(calls)
        self.models += group.models
        self._spans.extend(chain.from_iterable(group.spans))
        self.sources.update(group.sources)
        self.agreements.extend(ranking.agreement)
        self.designs[ranking.topology, ranking.estimator] = None
        self.failed_verdicts.update(ranking.failed_verdicts)
        self.absent_verdicts.update(ranking.absent_verdicts)
        self.listwise |= bool(ranking.verdicts)


def winners_sentence(lines: Sequence[QueryLine]) -> str:
    """Return in a sentence who wins how many queries: one rollout is first, and the ranking shows it."""
    shown = (line for line in lines if shows_winner(line.signal, line.p_best, complete=line.complete))
    told = [line for line in shown if len(line.first) == 1]
    queries, unclear = counted(len(lines), "query", "queries"), len(lines) - len(told)
    rest = f"; {unclear:,} {'shows' if unclear == 1 else 'show'} no clear winner" if unclear else ""
    if all(line.anchor_score is None for line in lines):
        return f"One rollout wins on {len(told):,} of {queries}{rest}"
    by_anchor = sum(line.first_role == "anchor" for line in told)
    chance = sum(1 / (1 + line.above_anchor[1]) for line in told if line.anchor_score is not None)
    won = f"A sample wins {len(told) - by_anchor:,} of {queries}"
    return f"{won}, the anchor {by_anchor:,} ({chance:.1f} by chance){rest}"


def by_signal(groups: Mapping[str, int]) -> dict[str, int]:
    """Return how many groups have each signal that some have, in the order in which signals are always listed."""
    return {signal: groups[signal] for signal in get_args(Signal) if groups.get(signal)}


def summarize(reader: RunReader, ranking: RankingFile, *, owed: bool = False, way: str | None = None) -> RankingSummary:
    """Sum up a ranking; `owed` as in `ranked_queries`, `way`: fingerprint of cached groups. Raises ArchiveDamaged."""
    summary = RankingSummary()
    with reader.group_cache(way) as extracts:
        for query, ranked in ranked_queries(reader, ranking, owed=owed):
            extract = extracts.of(query.id)
            if extract is None or not extract.holds(ranked):
                extract = cached_group(group_of(reader, query, ranked), ranked, reader.pair_scores)
            summary.add(reader, extract, ranked)
    return summary


def ranked_queries(reader: RunReader, ranking: RankingFile, *, owed: bool) -> Iterator[tuple[Query, GroupRanking]]:
    """Yield ranked queries; `owed`: an unfinished ranking's others too, as incomplete groups. Raises ArchiveDamaged."""
    settings, there = ranking.head.settings, reader.index.queries
    if lost := next((name for name in ranking.queries if name not in there), None):
        raise _lost(reader, f"query {lost!r}")
    for name in list(reader.index.queries):
        ranked = ranking.of(name)
        if (ranked or (owed and not ranking.finished)) and (query := reader.query(name)):
            yield (
                query,
                ranked
                or GroupRanking(
                    query=query.id,
                    topology=str(settings.get("topology")),
                    estimator=str(settings.get("estimator")),
                    status="incomplete",
                    signal="none",
                    notes=("This ranking has not come to this query yet.",),
                ),
            )


def ranked_groups(reader: RunReader, ranking: RankingFile) -> Iterator[tuple[Group, GroupRanking]]:
    """Yield each ranked query's rollouts with their ranking, one at a time, in the order of the queries."""
    for query, ranked in ranked_queries(reader, ranking, owed=False):
        yield group_of(reader, query, ranked), ranked


def group_of(reader: RunReader, query: Query, *rankings: GroupRanking) -> Group:
    """Return the rollouts that rankings are of. Raises ArchiveDamaged if one of them is no longer in the archive."""
    group = reader.group(query)
    if lost := {r.index for ranked in rankings for r in ranked.rollouts} - {r.index for r in group.rollouts}:
        raise _lost(reader, f"rollout {min(lost)} of query {query.id!r}")
    return group


def _lost(reader: RunReader, what: str) -> ArchiveDamaged:
    validate = f"`harness validate {shlex.quote(str(reader.folder))}`"
    return ArchiveDamaged(
        f"run {reader.info.id}: {what}, which is ranked, is no longer there; {validate} tells what is damaged, "
        "`harness rescore` ranks the others"
    )


def is_offline(reader: RunReader, ranking: RankingFile) -> bool:
    """Tell whether the rollouts or this ranking's judge are the embedded ones."""
    judges = str(ranking.head.judge.get("model")).split(", ")
    return reader.info.agent_offline or OFFLINE_JUDGE in judges
