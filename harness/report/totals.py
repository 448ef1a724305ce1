"""A ranking looked through once, group by group: everything that page, terminal and exit code tell of all of it.

A large run's records do not fit into memory, and to read one costs more than to rank it; so of each query only a line
stays, and the sums.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache

from harness.archive import RankingFile, RunReader
from harness.core.errors import ArchiveDamaged
from harness.core.rankings import Agreement, GroupRanking
from harness.core.records import Group, Query, Rollout
from harness.core.verdicts import Judged, Scored
from harness.ranking import Tally
from harness.report.summary import (
    AgentFigures,
    JudgeFigures,
    Tallies,
    Verdicts,
    agent_figures,
    judge_figures,
    rows,
    samples_beat_anchor,
    tallies,
    together,
)

Span = tuple[datetime, datetime]
_TITLE = 300
"""Characters of a query's text that a line can have use for."""


@dataclass(frozen=True)
class Models:
    """The names of the models that took part."""

    asked: frozenset[str] = frozenset()
    replied: frozenset[str] = frozenset()
    """As the replies named them."""
    judges: frozenset[str] = frozenset()

    def __add__(self, other: "Models") -> "Models":
        return Models(self.asked | other.asked, self.replied | other.replied, self.judges | other.judges)


@dataclass(frozen=True)
class Glance:
    """The line of a query where it is one of many."""

    number: int
    id: str
    title: str
    signal: str
    complete: bool
    first: tuple[int, ...]
    """The rollouts that share first place."""
    beaten: tuple[int, int]
    """Ranked samples above the anchor, and ranked samples in all."""
    runs: int
    failed: int


@dataclass(frozen=True)
class Look:
    """What one group adds to the whole."""

    glance: Glance
    agents: AgentFigures
    judge: JudgeFigures
    tallies: Tallies
    models: Models
    spans: tuple[Span, ...]
    """When a rollout or a verdict was under way, in order and apart."""


@dataclass
class RankingSummary:
    """The sums over a ranking's groups, and a line for each."""

    glances: list[Glance] = field(default_factory=list[Glance])
    agents: AgentFigures = field(default_factory=AgentFigures.none)
    judge: JudgeFigures = field(default_factory=JudgeFigures)
    tallies: dict[str, Tally] = field(default_factory=dict[str, Tally])
    models: Models = field(default_factory=Models)
    spans: list[Span] = field(default_factory=list[Span])
    agreed: list[Agreement] = field(default_factory=list[Agreement])
    designs: dict[tuple[str, str], None] = field(default_factory=dict[tuple[str, str], None])
    """Topology and estimator of the groups, each pair once."""
    failed_verdicts: set[str] = field(default_factory=set[str])
    """Keys of the verdicts that groups still wait for."""
    listwise: bool = False
    """Whether a listwise judge scored any group."""

    @property
    def signals(self) -> Counter[str]:
        """How many groups have each signal."""
        return Counter(g.signal for g in self.glances)

    @property
    def incomplete(self) -> int:
        """How many groups are not ranked in full."""
        return sum(not g.complete for g in self.glances)

    @property
    def beaten(self) -> tuple[int, int]:
        """Ranked samples above their anchor, and ranked samples in all."""
        return sum(g.beaten[0] for g in self.glances), sum(g.beaten[1] for g in self.glances)

    @property
    def best(self) -> tuple[str, int] | None:
        """A query and the rollout that came first in it, the first there is; None if nothing is ranked."""
        return next(((g.id, g.first[0]) for g in self.glances if g.first), None)

    def add(self, one: Look, ranked: GroupRanking) -> None:
        """Take one more group in."""
        self.glances.append(one.glance)
        self.agents += one.agents
        self.judge += one.judge
        self.tallies = together([self.tallies, one.tallies])
        self.models += one.models
        self.spans.extend(one.spans)
        self.agreed.extend(ranked.agreement)
        self.designs[ranked.topology, ranked.estimator] = None
        self.failed_verdicts.update(ranked.failed_verdicts)
        self.listwise |= bool(ranked.verdicts)


def summarize(reader: RunReader, ranking: RankingFile, *, owed: bool = False) -> RankingSummary:
    """Look through a ranking, in the order of the queries; `owed` is as `ranked_queries` takes it."""
    found = RankingSummary()
    for number, (query, ranked) in enumerate(ranked_queries(reader, ranking, owed=owed), 1):
        group = group_of(reader, query, ranked)
        found.add(look(number, group, ranked, reader.verdict, reader.scored), ranked)
    found.spans = list(_apart(found.spans))
    return found


def ranked_queries(reader: RunReader, ranking: RankingFile, *, owed: bool) -> Iterator[tuple[Query, GroupRanking]]:
    """Yield the queries of a ranking; with `owed` also those that one cut short has not come to, as incomplete."""
    settings = ranking.head.settings
    for name in list(reader.index.queries):
        ranked = ranking.of(name)
        if (ranked or (owed and not ranking.finished)) and (query := reader.query(name)):
            yield query, ranked or _owed(query, str(settings.get("topology")), str(settings.get("estimator")))


def group_of(reader: RunReader, query: Query, ranked: GroupRanking) -> Group:
    """Return the rollouts that a ranking is of. Raises ArchiveDamaged if one of them is no longer there."""
    group = reader.group(query)
    if lost := {r.index for r in ranked.rollouts} - {r.index for r in group.rollouts}:
        raise ArchiveDamaged(
            f"run {reader.info.id}: rollout {min(lost)} of query {query.id!r}, which is ranked, is no longer there; "
            f"`harness validate {reader.folder}` tells what is damaged, `harness rescore` ranks the others"
        )
    return group


def look(
    number: int, group: Group, ranked: GroupRanking, judged: Verdicts, scored: Callable[[str], Scored | None]
) -> Look:
    """Return what is told of one group; `judged` and `scored` find its verdicts."""
    judged = cache(judged)
    keys = dict.fromkeys(key for match in ranked.matches for key in match.verdicts)
    verdicts: list[Judged | Scored] = [v for key in keys if (v := judged(key))]
    verdicts += [v for key in ranked.verdicts if (v := scored(key))]
    timed: list[Rollout | Judged | Scored] = [*group.rollouts, *verdicts]
    agents = agent_figures(group.rollouts)
    return Look(
        glance=_glance(number, group, ranked, agents),
        agents=agents,
        judge=judge_figures([ranked], judged),
        tallies=tallies(group, ranked, judged),
        models=_models(group, verdicts),
        spans=tuple(_apart((r.started_at, r.started_at + timedelta(seconds=r.duration_s)) for r in timed)),
    )


def _owed(query: Query, topology: str, estimator: str) -> GroupRanking:
    return GroupRanking(
        query=query.id,
        topology=topology,
        estimator=estimator,
        status="incomplete",
        signal="none",
        notes=("This ranking has not come to this query yet.",),
    )


def _glance(number: int, group: Group, ranked: GroupRanking, agents: AgentFigures) -> Glance:
    best = [row for row in rows(group, ranked) if row.ranked.rank is not None]
    return Glance(
        number=number,
        id=group.query.id,
        title=group.query.text[:_TITLE],
        signal=ranked.signal,
        complete=ranked.status == "complete",
        first=tuple(row.rollout.index for row in best if row.ranked.rank == best[0].ranked.rank),
        beaten=samples_beat_anchor(group, ranked),
        runs=agents.runs,
        failed=agents.failed.total(),
    )


def _models(group: Group, verdicts: Iterable[Judged | Scored]) -> Models:
    asked = (m for r in group.rollouts for m in (r.requested.model, *(c.model for c in r.calls)))
    replied = (c.replied_model for r in group.rollouts for c in r.calls)
    return Models(
        asked=frozenset(filter(None, asked)),
        replied=frozenset(filter(None, replied)),
        judges=frozenset(v.judge for v in verdicts),
    )


def _apart(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield spans in order, those that touch made one."""
    held: Span | None = None
    for start, end in sorted(spans):
        if held is None:
            held = (start, end)
        elif start <= held[1]:
            held = (held[0], max(held[1], end))
        else:
            yield held
            held = (start, end)
    if held:
        yield held
