"""What a page shows of one query, put together from its records."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.core.extracts import extract_of
from harness.core.rankings import GroupRanking
from harness.core.records import Query, Rollout
from harness.core.sums import sum_if_known
from harness.report.html.excerpts import ALONE
from harness.report.html.facts import Fact, group_facts
from harness.report.html.query.failed_verdicts import FailedVerdict, failed_verdicts, failures_by_key
from harness.report.html.query.outcome import Outcome, QuerySpending, outcome
from harness.report.html.query.rollout_cards import RolloutCard, rollout_cards
from harness.report.html.query.seeding import SeedLabel, seeding_lines, seeding_scale
from harness.report.html.query.standings import StandingsLine, standings
from harness.report.summary.bracket import BracketDrawing, draw_bracket
from harness.report.summary.dimension_marks import MarksMatrix, marks_matrix
from harness.report.summary.group import summarize_group
from harness.report.summary.match_details import MatchDetails, detail_matches
from harness.report.summary.match_verdicts import MATCH_FLAGS, verdict_keys
from harness.report.summary.notes import jury_lines, notes
from harness.report.summary.pair_table import PairTable, pair_table
from harness.report.summary.placed_rollouts import score_name
from harness.report.summary.ranking import group_of
from harness.transcripts.transcript import TranscriptForm, recorded_form


@dataclass(frozen=True)
class QuerySection:
    """All that a page shows of one query."""

    id: str
    """What the ids of its elements begin with."""
    query: Query
    ranking: GroupRanking
    outcome: Outcome
    notes: list[str]
    facts: list[Fact]
    lines: list[StandingsLine]
    matrix: MarksMatrix | None
    pairs: PairTable | None
    """Who beat whom; None where fewer than half of the pairs met."""
    failed: list[Rollout]
    seeding: list[SeedLabel]
    scale: tuple[int, int]
    bracket: BracketDrawing | None
    flags: dict[str, str]
    """The flags of its matches, and what each means."""
    matches: list[MatchDetails]
    missing: list[FailedVerdict]
    cards: list[RolloutCard]
    """Each rollout, best first."""
    anchors: frozenset[int]
    score_name: str
    """What the scores of the rollouts are, with their scale."""
    able: int
    """How many rollouts ended well."""
    explanations: dict[int, str]
    """A listwise judge's reason for the score of a rollout, by index."""
    brief: str | None
    """The instructions that the agent worked under."""


class SectionMaker:
    """Makes the sections of a ranking's queries, each by itself."""

    def __init__(self, reader: RunReader, ranking: RankingFile, groups: Iterable[GroupRanking], runs: int) -> None:
        """Take what sections share. `runs` rollouts stand on one page: the more, the less room each path has.

        `groups` are those of which sections are made.
        """
        self._reader = reader
        self._room = ALONE.each(runs)
        self._failures = failures_by_key(reader, groups)
        self._form: TranscriptForm = recorded_form(ranking.head.settings, ranking.head.judge, ranking.head.rendering)

    def section(self, number: int, query: Query, ranking: GroupRanking) -> QuerySection:
        """Return the section of the `number`-th query. Raises ArchiveDamaged."""
        group = group_of(self._reader, query, ranking)
        verdicts = cache(self._reader.verdict)
        summary = summarize_group(number, extract_of(group, ranking, verdicts), ranking, self._reader.scored)
        spent = QuerySpending(summary.agents, self._verdicts_usd(ranking), len(ranking.failed_verdicts))
        bracket = draw_bracket(group, ranking)
        matches = list(detail_matches(group, ranking, bracket, verdicts))
        flags = {flag for match in matches for flag in match.flags}
        lines = standings(group, ranking)
        pairs = pair_table(group, ranking, verdicts)
        return QuerySection(
            id=f"q{number}",
            query=query,
            ranking=ranking,
            outcome=outcome(group, ranking, verdicts, spent),
            notes=[*jury_lines(ranking), *notes(group, ranking)],
            facts=group_facts(summary, ranking, spent.verdicts_usd),
            lines=lines,
            matrix=marks_matrix(group, ranking, verdicts),
            pairs=pairs if pairs.mostly_met and pairs.of > 1 else None,
            failed=[r for r in group.rollouts if r.status == "failed"],
            seeding=seeding_lines(group, ranking),
            scale=seeding_scale(ranking.matches),
            bracket=bracket,
            flags={flag: meaning for flag, meaning in MATCH_FLAGS.items() if flag in flags},
            matches=matches,
            missing=failed_verdicts(group, ranking, self._failures, self._form),
            cards=rollout_cards(lines, matches, ranking, verdicts, self._room),
            anchors=frozenset(r.index for r in group.rollouts if r.role == "anchor"),
            score_name=score_name(ranking),
            able=sum(r.status == "ok" for r in group.rollouts),
            explanations={r.index: r.explanation for r in ranking.rollouts if r.explanation},
            brief=next((r.instructions for r in group.rollouts if r.instructions), None),
        )

    def failures_of(self, ranking: GroupRanking) -> list[str]:
        """Name the failures of the verdicts that a group had to do without."""
        failures = (self._failures.get(key) for key in ranking.failed_verdicts)
        return [f"{failure.key} {failure.started_at}" for failure in failures if failure]

    def _verdicts_usd(self, ranking: GroupRanking) -> float | None:
        """Return what the verdicts of a ranking cost when they were bought, failed ones too."""
        return sum_if_known(self._prices(ranking))

    def _prices(self, ranking: GroupRanking) -> Iterator[float | None]:
        for key in verdict_keys(ranking.matches):
            if judged := self._reader.verdict(key):
                yield judged.price_usd
        for key in ranking.verdicts:
            if scored := self._reader.scored(key):
                yield scored.price_usd
        for key in ranking.failed_verdicts:
            if failure := self._failures.get(key):
                yield failure.price_usd
