"""What the page tells of one query, put together from its records."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice

from harness.archive import RankingFile, RunReader
from harness.core.rankings import GroupRanking
from harness.core.records import Query, Rollout
from harness.core.verdicts import Unjudged, Unscored
from harness.report.bracket import FLAGS, Bracket, Seed, drawn_bracket, seeding_lines, seeding_scale
from harness.report.excerpts import ALONE, BESIDE_A_MATCH, Shown, excerpt
from harness.report.facts import Fact, group_facts
from harness.report.match_details import Meeting, Missing, failures, meetings, missing_verdicts
from harness.report.standings import Line, headline, lines
from harness.report.summary import certainty, jury_lines, notes
from harness.report.totals import group_of, look, ranked_queries
from harness.transcripts import TokenBudget, recorded_budget


@dataclass(frozen=True)
class Section:
    """All that is told of one query."""

    number: int
    query: Query
    ranking: GroupRanking
    headline: str
    because: str
    certainty: str | None
    """How sure first place is, and where the margins see it otherwise."""
    notes: list[str]
    facts: list[Fact]
    lines: list[Line]
    failed: list[Rollout]
    seeding: list[Seed]
    scale: tuple[int, int]
    bracket: Bracket | None
    flags: dict[str, str]
    meetings: list[Meeting]
    missing: list[Missing]
    shown: list[tuple[Rollout, Shown]]
    anchors: frozenset[int]
    able: int
    """How many rollouts ended well."""
    explanations: dict[int, str]
    """Why a listwise judge scored a rollout so, by index."""
    brief: str | None
    """The instructions that the agent worked under."""

    @property
    def id(self) -> str:
        """What links on the page name it by."""
        return f"q{self.number}"


@dataclass(frozen=True)
class _Rooms:
    """Characters that a path gets beside a match, and where it stands alone."""

    beside: int
    alone: int


def sections(reader: RunReader, ranking: RankingFile, most: int) -> list[Section]:
    """Return a section a query, of the first `most`; the more there are on the page, the less room has each path."""
    found = list(islice(ranked_queries(reader, ranking, owed=True), most))
    runs = sum(len(reader.index.rollouts.get(query.id, ())) for query, _ in found)
    rooms = _Rooms(
        beside=BESIDE_A_MATCH.each(2 * sum(len(ranked.matches) for _, ranked in found)), alone=ALONE.each(runs)
    )
    failed = failures(reader, [ranked for _, ranked in found])
    budget = recorded_budget(ranking.head.settings, ranking.head.judge)
    return [
        _section(reader, number, query, ranked, rooms, failed, budget)
        for number, (query, ranked) in enumerate(found, 1)
    ]


def _section(
    reader: RunReader,
    number: int,
    query: Query,
    ranked: GroupRanking,
    rooms: _Rooms,
    failed: Mapping[str, Unjudged | Unscored],
    budget: TokenBudget | None,
) -> Section:
    group, verdicts = group_of(reader, query, ranked), cache(reader.verdict)
    said, because = headline(group, ranked, verdicts)
    bracket = drawn_bracket(group, ranked)
    met = list(meetings(group, ranked, bracket, verdicts, rooms.beside))
    flags = {flag for meeting in met for flag in meeting.flags}
    return Section(
        number=number,
        query=query,
        ranking=ranked,
        headline=said,
        because=because,
        certainty=certainty(group, ranked),
        notes=[*jury_lines(ranked), *notes(group, ranked)],
        explanations={r.index: r.explanation for r in ranked.rollouts if r.explanation},
        facts=group_facts(look(number, group, ranked, verdicts, reader.scored), ranked),
        lines=lines(group, ranked),
        failed=[r for r in group.rollouts if r.status == "failed"],
        seeding=seeding_lines(group, ranked),
        scale=seeding_scale(ranked.matches),
        bracket=bracket,
        flags={name: meaning for name, meaning in FLAGS.items() if name in flags},
        meetings=met,
        missing=missing_verdicts(group, ranked, failed, budget),
        shown=[(r, excerpt(r.trajectory, rooms.alone)) for r in group.rollouts],
        anchors=frozenset(r.index for r in group.rollouts if r.role == "anchor"),
        able=sum(r.status == "ok" for r in group.rollouts),
        brief=next((r.instructions for r in group.rollouts if r.instructions), None),
    )
