"""The queries that a side lost, each with its pairs: scores in both orders, the judge's words, both transcripts."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness.core.comparisons import ComparedQuery, ComparedRollout, CrossMatch
from harness.core.verdicts import Judged
from harness.report.html.excerpts import BESIDE_A_MATCH, ExcerptText, cut_excerpt
from harness.report.summary.comparison import MetQuery
from harness.report.summary.match_details import MarkRow, OtherRemarks, Remarks, judge_remarks, mark_rows
from harness.report.summary.match_verdicts import VerdictLookup, cap_words, flag_words
from harness.transcripts.clean_text import clean

TextLookup = Callable[[str], str]
"""Returns a blob's text by its name. Raises ArchiveDamaged."""
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
class ShownOrder:
    """One verdict of a pair: who was shown first, and what the judge said."""

    first: str
    """The label of the side that was shown first, so that the judge calls it A."""
    second: str
    winner: str | None
    """The label of the side that it names; None for a tie."""
    verdict: Judged | None
    remarks: Remarks
    other_remarks: OtherRemarks
    flags: tuple[str, ...]


@dataclass(frozen=True)
class LostPair:
    """A pair of rollouts of two sides."""

    title: str
    match: CrossMatch
    outcome: str
    sides: tuple[PairedSide, PairedSide]
    marks: tuple[MarkRow, ...]
    judged: tuple[ShownOrder, ...]
    """The orders whose verdicts are in the archive: one for each pair of columns of `marks`."""
    orders: tuple[ShownOrder, ...]


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


@dataclass(frozen=True)
class ArchivedTexts:
    """Where verdicts and texts come from, and how much of a text is shown."""

    verdict: VerdictLookup
    text: TextLookup
    room: int
    """Characters of a path."""


def lost_queries(
    lost: Sequence[MetQuery], sides: tuple[int, int], labels: tuple[str, str], verdict: VerdictLookup, text: TextLookup
) -> list[LostQuery]:
    """Return the queries with their pairs; the more pairs, the less room each transcript has."""
    matches = [_matches(met.query, sides) for met in lost]
    archived = ArchivedTexts(verdict, text, BESIDE_A_MATCH.each(2 * sum(map(len, matches))))
    return [
        LostQuery(met, tuple(_pair(number, met.query, match, labels, archived) for number, match in enumerate(of, 1)))
        for met, of in zip(lost, matches, strict=True)
    ]


def _matches(query: ComparedQuery, sides: tuple[int, int]) -> list[CrossMatch]:
    """Return the pairs of samples, the second side's worst first, then the anchors' pair."""
    samples = query.pairs(sides)
    open_last = sorted(
        samples, key=lambda m: (m.outcome is None, m.outcome or 0.0, ((m.score_second or 0.0) - (m.score_first or 0.0)))
    )
    return [*open_last, *query.pairs(sides, "anchor")]


def _pair(
    number: int, query: ComparedQuery, match: CrossMatch, labels: tuple[str, str], archived: ArchivedTexts
) -> LostPair:
    shown = tuple(_orders(match, labels, archived.verdict))
    verdicts = [(order, order.verdict) for order in shown if order.verdict]
    scores = [(v.a, v.b) if order.first == labels[0] else (v.b, v.a) for order, v in verdicts]
    return LostPair(
        title="Anchors, not in the win rate" if match.role == "anchor" else f"Pair {number}",
        match=match,
        outcome=_outcome(match, labels),
        sides=(_side(query, match, 0, labels, archived), _side(query, match, 1, labels, archived)),
        marks=tuple(mark_rows(scores)),
        judged=tuple(order for order, _ in verdicts),
        orders=shown,
    )


def _outcome(match: CrossMatch, labels: tuple[str, str]) -> str:
    first, second = labels
    if match.forfeit == "both":
        return "both failed: a tie"
    if match.forfeit:
        return f"{first if match.forfeit == 'first' else second} failed, and so lost without being judged"
    if match.winner is None:
        return "not judged: a verdict is missing"
    return {"first": f"{first} won", "second": f"{second} won", "tie": "a tie"}[match.winner]


def _side(
    query: ComparedQuery, match: CrossMatch, at: int, labels: tuple[str, str], archived: ArchivedTexts
) -> PairedSide:
    index = (match.first, match.second)[at]
    rollout = next(r for r in query.rollouts[match.sides[at]] if r.index == index)
    return PairedSide(
        label=labels[at],
        rollout=rollout,
        score=(match.score_first, match.score_second)[at],
        won=match.outcome == float(at),
        answer=_excerpt("Answer", rollout.answer_blob, archived, max(archived.room, _ANSWER)),
        path=_excerpt("Path", rollout.path_blob, archived, archived.room),
    )


def _excerpt(label: str, blob: str | None, archived: ArchivedTexts, room: int) -> ExcerptText:
    text = clean(archived.text(blob)).strip() if blob else ""
    return cut_excerpt(ExcerptText(label, text), room)


def _orders(match: CrossMatch, labels: tuple[str, str], verdicts: VerdictLookup) -> Iterator[ShownOrder]:
    for key, shown_first in zip(match.verdicts, match.shown_first, strict=True):
        verdict = verdicts(key)
        first, second = labels if shown_first == "first" else labels[::-1]
        remarks, others = judge_remarks(verdict, left_first=shown_first == "first")
        yield ShownOrder(
            first=first,
            second=second,
            winner={"A": first, "B": second}.get(verdict.winner) if verdict else None,
            verdict=verdict,
            remarks=remarks,
            other_remarks=others,
            flags=tuple(_flags(first, second, verdict)),
        )


def _flags(first: str, second: str, verdict: Judged | None) -> Iterator[str]:
    sides = [(first, verdict.a), (second, verdict.b)] if verdict else []
    for label, scores in sides:
        for flag in scores.flags:
            lowered = cap_words(cap for cap in scores.caps if cap.flag == flag.kind)
            yield f"{label}: {flag_words(flag)}" + (f"; so the rubric caps {lowered}" if lowered else "")
