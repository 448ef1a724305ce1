"""The queries of a comparison: a row for each, and its pairs in full, with the judge's words and both transcripts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.page_folder import page_name
from harness.core import comparisons
from harness.core.group_cache import brief_metadata
from harness.report.html.diffs import BESIDE_A_MATCH, ExcerptText, cut_excerpt
from harness.report.html.filtered_index import Filter, RowMetadata, index_filters, row_metadata
from harness.report.summary.comparison import MetQuery, met_queries, places_of
from harness.report.summary.match_details import JudgedOrder, MarkRow, judged_order, mark_rows

_ANSWER = 4_000
"""Characters of an answer that are shown on the largest page too."""


@dataclass(frozen=True)
class PairedSide:
    """One rollout of a pair, with what the judge read of it."""

    label: str
    rollout: comparisons.ComparedRollout
    score: float | None
    won: bool
    answer: ExcerptText
    path: ExcerptText


@dataclass(frozen=True)
class ShownPair:
    """A pair of rollouts of two sides."""

    title: str
    match: comparisons.CrossMatch
    outcome: str
    sides: tuple[PairedSide, PairedSide]
    marks: tuple[MarkRow, ...]
    judged: tuple[JudgedOrder[str], ...]
    """The orders whose verdicts are in the archive: one for each pair of columns of `marks`."""
    orders: tuple[JudgedOrder[str], ...]


@dataclass(frozen=True)
class QueryRow:
    """A query on which two sides met, and how the second one did."""

    met: MetQuery
    id: str
    """Its name in links, the same however many queries there are."""
    page: str
    """The file name of its page, where each query has one."""
    metadata: RowMetadata

    @property
    def outcome(self) -> Literal["lost", "won", "tied"]:
        """What the second side did."""
        return "lost" if self.met.outcome < 0.5 else "won" if self.met.outcome > 0.5 else "tied"


@dataclass(frozen=True)
class ShownQuery:
    """A query with all its pairs."""

    row: QueryRow
    pairs: tuple[ShownPair, ...]


@dataclass(frozen=True)
class TwoSides:
    """What came of two sides' queries."""

    result: comparisons.SideResult
    rows: Sequence[QueryRow]
    """All queries on which the two met, the second side's worst first."""
    filters: Sequence[Filter]

    @property
    def id(self) -> str:
        """The name of the section in links of the page."""
        return _link(self.result)


def pairings(comparison: comparisons.Comparison, queries: Sequence[comparisons.ComparedQuery]) -> list[TwoSides]:
    """Return what came of the queries for each two sides."""
    made: list[TwoSides] = []
    for result in comparison.results:
        met = met_queries(queries, places_of(comparison, result))
        metadata = [brief_metadata(one.query.metadata) for one in met]
        filters = index_filters(metadata)
        names = [page_name(one.name) for one in met]
        rows = [
            QueryRow(one, f"{_link(result)}-{name.removesuffix('.html')}", name, row_metadata(own, filters))
            for one, name, own in zip(met, names, metadata, strict=True)
        ]
        made.append(TwoSides(result, rows, filters))
    return made


def _link(result: comparisons.SideResult) -> str:
    return f"{result.sides[1]}{result.sides[0]}".lower()


def shown_queries(
    comparison: comparisons.Comparison, pairing: TwoSides, rows: Sequence[QueryRow], reader: ComparisonReader
) -> list[ShownQuery]:
    """Return queries with their pairs; the more pairs, the less room each transcript has. Raises ArchiveDamaged."""

    def worst_first(match: comparisons.CrossMatch) -> tuple[bool, float, float]:
        return match.outcome is None, match.outcome or 0.0, (match.score_second or 0.0) - (match.score_first or 0.0)

    sides, labels = places_of(comparison, pairing.result), pairing.result.sides
    queries = [row.met.query for row in rows]
    matches = [[*sorted(query.pairs(sides), key=worst_first), *query.pairs(sides, "anchor")] for query in queries]
    room = BESIDE_A_MATCH.each(2 * sum(map(len, matches)))
    return [
        ShownQuery(row, tuple(_pair(at, row.met.query, match, labels, reader, room) for at, match in enumerate(of, 1)))
        for row, of in zip(rows, matches, strict=True)
    ]


def _pair(
    number: int,
    query: comparisons.ComparedQuery,
    match: comparisons.CrossMatch,
    labels: tuple[str, str],
    reader: ComparisonReader,
    room: int,
) -> ShownPair:
    first, second = labels
    orders = tuple(
        judged_order(first, second, reader.verdict(key), left_first=True)
        if shown_first == "first"
        else judged_order(second, first, reader.verdict(key), left_first=False)
        for key, shown_first in zip(match.verdicts, match.shown_first, strict=True)
    )
    verdicts = [(order, order.verdict) for order in orders if order.verdict]
    scores = [(v.a, v.b) if order.first == first else (v.b, v.a) for order, v in verdicts]
    outcome = {"first": f"{first} won", "second": f"{second} won", "tie": "a tie"}.get(match.winner or "")
    if match.forfeit:
        outcome = f"{first if match.forfeit == 'first' else second} failed, and so lost without being judged"
    return ShownPair(
        title="Anchors, not in the win rate" if match.role == "anchor" else f"Pair {number}",
        match=match,
        outcome="both failed: a tie" if match.forfeit == "both" else outcome or "not judged: a verdict is missing",
        sides=(_side(query, match, 0, first, reader, room), _side(query, match, 1, second, reader, room)),
        marks=tuple(mark_rows(scores)),
        judged=tuple(order for order, _ in verdicts),
        orders=orders,
    )


def _side(
    query: comparisons.ComparedQuery,
    match: comparisons.CrossMatch,
    at: int,
    label: str,
    reader: ComparisonReader,
    room: int,
) -> PairedSide:
    index = (match.first, match.second)[at]
    rollout = next(r for r in query.rollouts[match.sides[at]] if r.index == index)
    blobs = rollout.answer_blob, rollout.path_blob
    answer, path = (reader.blobs.get(blob).strip() if blob else "" for blob in blobs)
    return PairedSide(
        label=label,
        rollout=rollout,
        score=(match.score_first, match.score_second)[at],
        won=match.outcome == float(at),
        answer=cut_excerpt(ExcerptText("Answer", answer), max(room, _ANSWER)),
        path=cut_excerpt(ExcerptText("Path", path), room),
    )
