"""The queries that a side lost, each with its pairs: scores in both orders, the judge's words, both transcripts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from harness.archive.comparison_reader import ComparisonReader
from harness.core.comparisons import ComparedQuery, ComparedRollout, CrossMatch
from harness.report.html.excerpts import BESIDE_A_MATCH, ExcerptText, cut_excerpt
from harness.report.summary.comparison import MetQuery
from harness.report.summary.match_details import JudgedOrder, MarkRow, judged_order, mark_rows
from harness.transcripts.clean_text import clean

_ANSWER = 4_000
"""Characters of an answer that are shown on the largest page too."""


@dataclass(frozen=True)
class PairedSide:
    """One rollout of a pair, with what the judge read of it."""

    label: str
    rollout: ComparedRollout
    score: float | None
    won: bool
    answer: ExcerptText
    path: ExcerptText


@dataclass(frozen=True)
class LostPair:
    """A pair of rollouts of two sides."""

    title: str
    match: CrossMatch
    outcome: str
    sides: tuple[PairedSide, PairedSide]
    marks: tuple[MarkRow, ...]
    judged: tuple[JudgedOrder[str], ...]
    """The orders whose verdicts are in the archive: one for each pair of columns of `marks`."""
    orders: tuple[JudgedOrder[str], ...]


@dataclass(frozen=True)
class LostQuery:
    """A query that the second side lost."""

    met: MetQuery
    pairs: tuple[LostPair, ...]

    @property
    def metadata(self) -> list[tuple[str, str]]:
        """The query's metadata in words; what is no text as JSON."""
        members = self.met.query.metadata.items()
        return [(key, v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)) for key, v in members]


def lost_queries(
    lost: Sequence[MetQuery], sides: tuple[int, int], labels: tuple[str, str], reader: ComparisonReader
) -> list[LostQuery]:
    """Return the queries with their pairs; the more pairs, the less room each transcript has. Raises ArchiveDamaged."""

    def worst_first(match: CrossMatch) -> tuple[bool, float, float]:
        return match.outcome is None, match.outcome or 0.0, (match.score_second or 0.0) - (match.score_first or 0.0)

    matches = [[*sorted(met.query.pairs(sides), key=worst_first), *met.query.pairs(sides, "anchor")] for met in lost]
    room = BESIDE_A_MATCH.each(2 * sum(map(len, matches)))
    return [
        LostQuery(met, tuple(_pair(at, met.query, match, labels, reader, room) for at, match in enumerate(of, 1)))
        for met, of in zip(lost, matches, strict=True)
    ]


def _pair(
    number: int, query: ComparedQuery, match: CrossMatch, labels: tuple[str, str], reader: ComparisonReader, room: int
) -> LostPair:
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
    return LostPair(
        title="Anchors, not in the win rate" if match.role == "anchor" else f"Pair {number}",
        match=match,
        outcome="both failed: a tie" if match.forfeit == "both" else outcome or "not judged: a verdict is missing",
        sides=(_side(query, match, 0, first, reader, room), _side(query, match, 1, second, reader, room)),
        marks=tuple(mark_rows(scores)),
        judged=tuple(order for order, _ in verdicts),
        orders=orders,
    )


def _side(
    query: ComparedQuery, match: CrossMatch, at: int, label: str, reader: ComparisonReader, room: int
) -> PairedSide:
    index = (match.first, match.second)[at]
    rollout = next(r for r in query.rollouts[match.sides[at]] if r.index == index)
    answer, path = (
        clean(reader.blobs.get(blob)).strip() if blob else "" for blob in (rollout.answer_blob, rollout.path_blob)
    )
    return PairedSide(
        label=label,
        rollout=rollout,
        score=(match.score_first, match.score_second)[at],
        won=match.outcome == float(at),
        answer=cut_excerpt(ExcerptText("Answer", answer), max(room, _ANSWER)),
        path=cut_excerpt(ExcerptText("Path", path), room),
    )
