"""What the page shows of one query, put together from its records."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice

from harness.archive import RankingFile, RunReader
from harness.core.rankings import GroupRanking
from harness.core.records import Group, Query, Rollout
from harness.core.verdicts import Unjudged, Unscored
from harness.report.html.excerpts import ALONE, BESIDE_A_MATCH, Excerpt, excerpt
from harness.report.html.facts import Fact, group_facts
from harness.report.html.query.failed_verdicts import FailedVerdict, failed_verdicts, failures_by_key
from harness.report.html.query.seeding import SeedLabel, seeding_lines, seeding_scale
from harness.report.html.query.standings import StandingsLine, headline, standings
from harness.report.summary.bracket import BracketDrawing, draw_bracket
from harness.report.summary.group import summarize_group
from harness.report.summary.match_details import MatchDetails, detail_matches
from harness.report.summary.match_verdicts import MATCH_FLAGS
from harness.report.summary.notes import jury_lines, notes
from harness.report.summary.placed_rollouts import certainty, score_name
from harness.report.summary.ranking import group_of, ranked_queries
from harness.transcripts import TranscriptForm, recorded_form


@dataclass(frozen=True)
class QuerySection:
    """All that the page shows of one query."""

    number: int
    query: Query
    ranking: GroupRanking
    headline: str
    because: str
    certainty: str | None
    """How sure first place is, and where the margins rank the rollouts otherwise."""
    notes: list[str]
    facts: list[Fact]
    lines: list[StandingsLine]
    failed: list[Rollout]
    seeding: list[SeedLabel]
    scale: tuple[int, int]
    bracket: BracketDrawing | None
    flags: dict[str, str]
    """The flags of its matches, and what each means."""
    matches: list[MatchDetails]
    beside: dict[int, Excerpt]
    """Each rollout as it stands beside a match."""
    missing: list[FailedVerdict]
    shown: list[tuple[Rollout, Excerpt]]
    """Each rollout as it stands alone."""
    anchors: frozenset[int]
    score_name: str
    """What the scores of the rollouts are, with their scale."""
    able: int
    """How many rollouts ended well."""
    explanations: dict[int, str]
    """A listwise judge's reason for the score of a rollout, by index."""
    brief: str | None
    """The instructions that the agent worked under."""

    @property
    def id(self) -> str:
        """The name of the section in links of the page."""
        return f"q{self.number}"


@dataclass(frozen=True)
class _Shared:
    """What the sections of a page share."""

    reader: RunReader
    room_beside: int
    """Characters of a path beside a match."""
    room_alone: int
    """Characters of a path that stands alone."""
    failures: Mapping[str, Unjudged | Unscored]
    form: TranscriptForm


def query_sections(reader: RunReader, ranking: RankingFile, most: int) -> list[QuerySection]:
    """Return a section for each of the first `most` queries; the more sections, the less room each path has."""
    queries = list(islice(ranked_queries(reader, ranking, owed=True), most))
    runs = sum(len(reader.index.rollouts.get(query.id, ())) for query, _ in queries)
    matches = sum(len(ranked.matches) for _, ranked in queries)
    shared = _Shared(
        reader=reader,
        room_beside=BESIDE_A_MATCH.each(2 * matches),
        room_alone=ALONE.each(runs),
        failures=failures_by_key(reader, [ranked for _, ranked in queries]),
        form=recorded_form(ranking.head.settings, ranking.head.judge, ranking.head.rendering),
    )
    return [
        _section(number, group_of(reader, query, ranked), ranked, shared)
        for number, (query, ranked) in enumerate(queries, 1)
    ]


def _section(number: int, group: Group, ranking: GroupRanking, shared: _Shared) -> QuerySection:
    verdicts = cache(shared.reader.verdict)
    result, because = headline(group, ranking, verdicts)
    bracket = draw_bracket(group, ranking)
    matches = list(detail_matches(group, ranking, bracket, verdicts))
    flags = {flag for match in matches for flag in match.flags}
    playing = {side.rollout.index for match in matches for side in match.sides}
    return QuerySection(
        number=number,
        query=group.query,
        ranking=ranking,
        headline=result,
        because=because,
        certainty=certainty(group, ranking),
        notes=[*jury_lines(ranking), *notes(group, ranking)],
        explanations={r.index: r.explanation for r in ranking.rollouts if r.explanation},
        facts=group_facts(summarize_group(number, group, ranking, verdicts, shared.reader.scored), ranking),
        lines=standings(group, ranking),
        failed=[r for r in group.rollouts if r.status == "failed"],
        seeding=seeding_lines(group, ranking),
        scale=seeding_scale(ranking.matches),
        bracket=bracket,
        flags={flag: meaning for flag, meaning in MATCH_FLAGS.items() if flag in flags},
        matches=matches,
        beside={r.index: excerpt(r.trajectory, shared.room_beside) for r in group.rollouts if r.index in playing},
        missing=failed_verdicts(group, ranking, shared.failures, shared.form),
        shown=[(r, excerpt(r.trajectory, shared.room_alone)) for r in group.rollouts],
        anchors=frozenset(r.index for r in group.rollouts if r.role == "anchor"),
        score_name=score_name(ranking),
        able=sum(r.status == "ok" for r in group.rollouts),
        brief=next((r.instructions for r in group.rollouts if r.instructions), None),
    )
