"""What a page shows of one query, put together from its records."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.core.cost import total_cost
from harness.core.errors import counted
from harness.core.group_cache import cached_group
from harness.core.rankings import GroupRanking, Unjudged, Unscored
from harness.core.records import Group, Query, Rollout, Trajectory
from harness.judging.transcript_form import TranscriptForm, recorded_form
from harness.report.html.diffs import ALONE
from harness.report.html.facts import Fact, group_facts
from harness.report.html.outcome import Outcome, RolloutCard, StandingsLine, outcome, rollout_cards, standings
from harness.report.summary import match_details
from harness.report.summary.credit import CreditedGroup, RunCredit
from harness.report.summary.group import summarize_group
from harness.report.summary.match_verdicts import MATCH_FLAGS, VerdictLookup, judged_sides, rollout_flags, verdict_keys
from harness.report.summary.pair_table import PairTable, pair_table
from harness.report.summary.ranking import group_of
from harness.report.summary.rollouts import jury_lines, notes, placed_rollouts, score_name


@dataclass(frozen=True)
class AnswerPiece:
    """A piece of an answer, and what became of the claim that it is, if it is one."""

    text: str
    title: str = ""
    """What became of the claim."""
    step: int | None = None
    unsupported: bool = False


@dataclass(frozen=True)
class CheckedAnswer:
    """An answer in pieces, and how many of its claims are unsupported, or why none was looked up."""

    pieces: tuple[AnswerPiece, ...]
    sentence: str


def checked_answer(trajectory: Trajectory, shown: str, reference: str | None) -> CheckedAnswer:
    """Look up the claims of an answer as far as a page shows it."""
    from harness.evidence.check import check_trajectory  # noqa: PLC0415 - only a rubric with `evidence: yes` needs it

    claims = check_trajectory(trajectory.model_copy(update={"answer": shown}), reference)
    if claims is None:
        missing = "Claims were not looked up: the record has no tool output of this agent, or not all."
        return CheckedAnswer((AnswerPiece(shown),), missing)
    pieces, end = list[AnswerPiece](), 0
    for claim in claims:
        place = f"step {claim.step}" if claim.step else "the query or the reference"
        how = {"supported": f"stands in {place}", "derivable": f"derives from {place}"}
        title = how.get(claim.state, "stands in no tool output")
        unsupported = claim.state == "unsupported"
        pieces += [AnswerPiece(shown[end : claim.start]), AnswerPiece(claim.text, title, claim.step, unsupported)]
        end = claim.start + len(claim.text)
    missing = sum(piece.unsupported for piece in pieces)
    verb = "stands" if missing == 1 else "stand"
    sentence = f"{missing} of {counted(len(claims), 'claim')} that could be looked up {verb} in no tool output."
    return CheckedAnswer((*pieces, AnswerPiece(shown[end:])), sentence if claims else "No claim could be looked up.")


@dataclass(frozen=True)
class MeanMark:
    """The mean of a rollout's marks in one dimension, over the verdicts that gave one."""

    mean: float
    best: bool
    """Whether no other rollout has a higher mean in this dimension; neither best nor worst where all are equal."""
    worst: bool


@dataclass(frozen=True)
class MarksMatrix:
    """The mean marks of a group: a row a rollout, best first, and a column a dimension."""

    dimensions: tuple[str, ...]
    rows: tuple[tuple[int, tuple[MeanMark | None, ...]], ...]
    """Each rollout that has marks, and its mean mark in each dimension; None where no verdict gave one."""


def marks_matrix(group: Group, ranking: GroupRanking, verdicts: VerdictLookup) -> MarksMatrix | None:
    """Return the mean marks of a group's rollouts; None where no match has marks. Repeated matches count once."""
    marks: dict[int, dict[str, list[int]]] = {}
    for entrant, scores in judged_sides(ranking, verdicts):
        of_one = marks.setdefault(entrant, {})
        for dimension, mark in scores.dimensions.items():
            of_one.setdefault(dimension, []).append(mark)
    dimensions = tuple(dict.fromkeys(name for of_one in marks.values() for name in of_one))
    if not dimensions:
        return None
    means = {index: {name: sum(m) / len(m) for name, m in of_one.items()} for index, of_one in marks.items()}
    columns = {name: [of_one[name] for of_one in means.values() if name in of_one] for name in dimensions}

    def mean_mark(index: int, name: str) -> MeanMark | None:
        if (mean := means[index].get(name)) is None:
            return None
        worst, best = min(columns[name]), max(columns[name])
        return MeanMark(mean, best=worst < best == mean, worst=mean == worst < best)

    placed = [p.rollout.index for p in placed_rollouts(group, ranking) if p.rollout.index in means]
    return MarksMatrix(dimensions, tuple((at, tuple(mean_mark(at, name) for name in dimensions)) for at in placed))


@dataclass(frozen=True)
class FailedVerdict:
    """A verdict that failed, the rollouts that it was to compare, and its record; None if the archive has no record."""

    key: str
    subject: str
    verdict: Unjudged | Unscored | None


def failed_verdicts(
    group: Group, ranking: GroupRanking, failures: Mapping[str, Unjudged | Unscored], form: TranscriptForm
) -> list[FailedVerdict]:
    """Return the verdicts that a group had to do without; `form` is how its transcripts were made."""
    if not ranking.failed_verdicts:
        return []
    indexes: dict[str, list[str]] = {}
    for rollout in group.rollouts:
        whole = form(rollout.trajectory, group.query.reference)
        parts = (whole, replace(whole, path=""), replace(whole, answer=""))  # a rubric may mark one block only
        parts += tuple(replace(part, record=None) for part in parts)  # as plain models see it
        for transcript in {part.hash for part in parts}:
            indexes.setdefault(transcript, []).append(str(rollout.index))
    labels = {transcript: f"rollout {' or '.join(names)}" for transcript, names in indexes.items()}
    failed: list[FailedVerdict] = []
    for key in ranking.failed_verdicts:
        verdict = failures.get(key)
        subject = "a verdict no longer here"
        if isinstance(verdict, Unjudged):
            first, second = (labels.get(t, "a transcript no longer here") for t in (verdict.first, verdict.second))
            subject = f"{first} against {second}"
        elif verdict:
            subject = f"a list of {len(verdict.transcripts)}"
        failed.append(FailedVerdict(key, subject, verdict))
    return failed


@dataclass(frozen=True)
class SeedLabel:
    """One entrant in the seeding: its score against the anchor, and the anchor's score against it."""

    place: int | None
    index: int
    score: float | None = None
    against: float | None = None
    match: int | None = None
    """The number of the match; None for the anchor's own line, and for a match that is open."""


def seeding_lines(group: Group, ranking: GroupRanking) -> list[SeedLabel]:
    """Return the seeding matches as lines, best seed first; the matches still open last."""
    played = {m.a: (number, m) for number, m in enumerate(ranking.matches, 1) if m.round == 0}
    if not played:
        return []
    order = match_details.seeds_by_anchor(ranking.matches)
    anchor = next(match.b for _, match in played.values())
    entrants = [r.index for r in group.rollouts if r.status == "ok" and r.index != anchor]
    lines: list[SeedLabel] = []
    for at, entrant in enumerate(order, 1):
        place = at if set(entrants) <= set(order) else None
        if entrant == anchor:
            mean = sum(match.score_b for _, match in played.values()) / len(played)
            lines.append(SeedLabel(place, entrant, score=mean))
        else:
            number, match = played[entrant]
            lines.append(SeedLabel(place, entrant, match.score_a, match.score_b, number))
    return lines + [SeedLabel(None, entrant) for entrant in entrants if entrant not in order]


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
    """Whole marks below and above every seeding score, for the ends of an axis."""
    bracket: match_details.BracketDrawing | None
    flags: dict[str, str]
    """The flags of its matches, and what each means."""
    matches: list[match_details.MatchDetails]
    missing: list[FailedVerdict]
    cards: list[RolloutCard]
    """Each rollout, best first."""
    anchors: frozenset[int]
    score_name: str
    """What the scores of the rollouts are, with their scale."""
    able: int
    """How many rollouts ended well."""
    brief: str | None
    """The instructions that the agent worked under."""
    checked: dict[int, CheckedAnswer]
    """By rollout its answer with its claims underlined, where the rubric asks for evidence."""
    credit: CreditedGroup | None
    """What each step was worth; None where that is not shown, or cannot be read."""


def _checked(cards: Iterable[RolloutCard], reference: str | None) -> dict[int, CheckedAnswer]:
    return {
        r.index: checked_answer(r.trajectory, card.shown.answer.shown, reference)
        for card in cards
        if (r := card.line.row.rollout).status == "ok"
    }


class SectionMaker:
    """Makes the sections of a ranking's queries, each by itself."""

    def __init__(
        self,
        reader: RunReader,
        ranking: RankingFile,
        groups: Iterable[GroupRanking],
        runs: int,
        *,
        with_credit: bool = False,
    ) -> None:
        """Take what the sections of `groups` share: the more `runs` on one page, the less room each path has."""
        self._reader = reader
        self._room = ALONE.each(runs)
        keys = {key for ranked in groups for key in ranked.failed_verdicts}
        verdicts = reader.verdicts() if keys else ()
        self._credit = RunCredit(reader, ranking) if with_credit else None
        self._failures = {v.key: v for v in verdicts if isinstance(v, Unjudged | Unscored) and v.key in keys}
        self._form: TranscriptForm = recorded_form(ranking.head.settings, ranking.head.judge, ranking.head.rendering)

    def section(self, number: int, query: Query, ranking: GroupRanking) -> QuerySection:
        """Return the section of the `number`-th query. Raises ArchiveDamaged."""
        group = group_of(self._reader, query, ranking)
        verdicts = cache(self._reader.verdict)
        summary = summarize_group(number, cached_group(group, ranking, verdicts), ranking, self._reader.scored)
        bought = [
            *map(self._reader.verdict, verdict_keys(ranking.matches)),
            *map(self._reader.scored, ranking.verdicts),
            *map(self._failures.get, ranking.failed_verdicts),
        ]
        verdicts_cost = total_cost(verdict.cost for verdict in bought if verdict)  # when they were bought
        bracket = match_details.draw_bracket(group, ranking)
        matches = list(match_details.detail_matches(group, ranking, bracket, verdicts))
        flags = {flag for match in matches for flag in match.flags}
        seeding = [score for m in ranking.matches if m.round == 0 for score in (m.score_a, m.score_b)]
        low, high = (int(min(seeding)), int(max(seeding))) if seeding else (0, 9)
        lines = standings(group, ranking)
        pairs = pair_table(group, ranking)
        cards = rollout_cards(lines, matches, rollout_flags(ranking, verdicts), self._room)
        return QuerySection(
            id=f"q{number}",
            query=query,
            ranking=ranking,
            outcome=outcome(group, ranking, verdicts, summary.agents, verdicts_cost),
            notes=[*jury_lines(ranking), *notes(group, ranking)],
            facts=group_facts(summary, ranking, verdicts_cost),
            lines=lines,
            matrix=marks_matrix(group, ranking, verdicts),
            pairs=pairs if pairs.mostly_met and pairs.of > 1 else None,
            failed=[r for r in group.rollouts if r.status == "failed"],
            seeding=seeding_lines(group, ranking),
            scale=(low, max(high + 1, low + 2)),
            bracket=bracket,
            flags={flag: meaning for flag, meaning in MATCH_FLAGS.items() if flag in flags},
            matches=matches,
            missing=failed_verdicts(group, ranking, self._failures, self._form),
            cards=cards,
            anchors=frozenset(r.index for r in group.rollouts if r.role == "anchor"),
            score_name=score_name(ranking),
            able=sum(r.status == "ok" for r in group.rollouts),
            checked=_checked(cards, query.reference) if self._form.evidence else {},
            credit=self._credit and self._credit.of_readable(query),
            brief=next((r.instructions for r in group.rollouts if r.instructions), None),
        )

    def name_failures(self, ranking: GroupRanking) -> list[str]:
        """Name the failures of the verdicts that a group had to do without."""
        failures = (self._failures.get(key) for key in ranking.failed_verdicts)
        return [f"{failure.key} {failure.started_at}" for failure in failures if failure]
