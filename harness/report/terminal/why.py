"""Why one of two rollouts is above the other, for the terminal."""

from collections.abc import Iterable, Iterator

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from harness.report.summary.pair_table import cycles_sentence
from harness.report.summary.why_records import (
    Meeting,
    PairExplanation,
    PairSide,
    call_words,
    lead_sentence,
    matches_sentence,
    meeting_sentence,
    parting_sentence,
    side_name,
    standing_sentence,
)
from harness.report.terminal.table import (
    SHORTEST,
    Column,
    TableRow,
    cut_to,
    line_of_text,
    on_one_line,
    table_lines,
    visible_text,
)
from harness.report.text import as_sentence, fixed, readable_name, signed

_SIDES = (
    Column("rollout", 1, right=True),
    Column("role", 4),
    Column("place", 2, right=True),
    Column("score", 3, right=True),
    Column("status", 5, wish=24),
)
_NOTE = "the new ranking is of these two alone, and the newest: `--ranking` names this one then"


def pair_lines(why: PairExplanation, width: int) -> RenderableType:
    """Return the explanation of a pair, `width` characters wide: how they stand first, then what decided."""
    return Lines(*_standing(why, width), *_met(why, width), *_apart(why, width), *_judged(why))


def _standing(why: PairExplanation, width: int) -> Iterator[Text]:
    yield line_of_text(cut_to(on_one_line(why.query.text), max(SHORTEST, width)), "bold")
    yield visible_text(as_sentence(standing_sentence(why)), style="bold")
    if lead := lead_sentence(why):
        yield visible_text(as_sentence(lead))
    columns = [Column(why.score_name, 3, right=True) if column.name == "score" else column for column in _SIDES]
    yield from table_lines(columns, (_side_row(side) for side in (why.a, why.b)), width)


def _side_row(side: PairSide) -> TableRow:
    status = f"failed: {side.failure}" if side.failure else "ok"
    return TableRow((str(side.index), side.role, side.place, fixed(side.score) or "–", status))


def _met(why: PairExplanation, width: int) -> Iterator[Text]:
    yield from _paragraph(matches_sentence(why))
    if why.matches:
        yield from table_lines(_meeting_columns(why), (_meeting_row(meeting, why) for meeting in why.matches), width)
    if why.dimensions:
        yield visible_text("\nMean marks; * decided:")
        columns = (
            Column("dimension", 1),
            Column(str(why.a.index), 3, right=True),
            Column(str(why.b.index), 4, right=True),
            Column(f"{why.a.index} less {why.b.index}", 2, right=True),
        )
        yield from table_lines(columns, _dimension_rows(why), width)
    if why.common:
        yield visible_text("\nBoth met; mean scores:")
        columns = tuple(Column(name, at, right=True) for at, name in enumerate(_common_heads(why), 1))
        yield from table_lines(columns, _common_rows(why), width)
    if way := meeting_sentence(why):
        yield from _paragraph(way)
    if why.meet:
        yield visible_text(f"  {why.meet.command}")
        yield visible_text(as_sentence(_NOTE))
    if circles := cycles_sentence(why.cycles):
        yield from _paragraph(circles)


def _meeting_columns(why: PairExplanation) -> list[Column]:
    a, b = why.a.index, why.b.index
    orders = [Column(f"{a} : {b}, {first} first", 2 + at, right=True) for at, first in enumerate((a, b))]
    return [
        Column("match", 1, right=True),
        *orders,
        Column("mean", 4, right=True),
        Column("winner", 5, right=True),
        Column("notes", 6),
    ]


def _meeting_row(meeting: Meeting, why: PairExplanation) -> TableRow:
    holds = (meeting.flipped, meeting.inconsistent, meeting.repeated)
    names = ("flipped", "inconsistent", "met before")
    cells = (
        str(meeting.number),
        *(_in_order(meeting, first) for first in (why.a.index, why.b.index)),
        _scores(meeting.mean),
        "tie" if meeting.winner is None else str(meeting.winner),
        ", ".join(name for name, held in zip(names, holds, strict=True) if held),
    )
    return TableRow(cells)


def _in_order(meeting: Meeting, first: int) -> str:
    pairs = zip(meeting.shown_first, meeting.scores, strict=False)
    return ", ".join(f"{a:g} : {b:g}" for shown, (a, b) in pairs if shown == first) or "–"


def _scores(scores: tuple[float, float]) -> str:
    return " : ".join(f"{score:.2f}" for score in scores)


def _dimension_rows(why: PairExplanation) -> Iterator[TableRow]:
    for lead in why.dimensions:
        name = f"{'* ' if lead.decided else '  '}{on_one_line(readable_name(lead.name))}"
        marks = (f"{mark:.1f}" for mark in lead.marks)
        yield TableRow(
            (name, *marks, signed(lead.difference, 1) if lead.difference else "0.0"), "bold" if lead.decided else ""
        )


def _common_heads(why: PairExplanation) -> tuple[str, str, str]:
    return ("opponent", f"{why.a.index} : opponent", f"{why.b.index} : opponent")


def _common_rows(why: PairExplanation) -> Iterator[TableRow]:
    return (TableRow((str(c.index), _scores(c.a), _scores(c.b))) for c in why.common)


def _apart(why: PairExplanation, width: int) -> Iterator[Text]:
    yield from _paragraph(parting_sentence(why))
    if why.first_parting:
        for side, call in ((why.a, why.first_parting.a), (why.b, why.first_parting.b)):
            yield line_of_text(cut_to(on_one_line(f"  {side_name(side)}: {call_words(call)}"), max(SHORTEST, width)))


def _judged(why: PairExplanation) -> Iterator[Text]:
    words = list(_words(why))
    if words:
        yield visible_text()
    for line in words:
        yield visible_text(line)
    for flag in why.flags:
        yield visible_text(as_sentence(flag.sentence))


def _words(why: PairExplanation) -> Iterable[str]:
    for side, said in zip((why.a, why.b), why.judge, strict=True):
        if side.explanation:
            yield f"The judge on {side_name(side)}: {side.explanation}"
        elif said:
            against = "" if why.matches else f" against {said.opponent}"
            yield f"The judge on {side_name(side)}, match {said.match}{against}: {said.text}"


def _paragraph(sentence: str) -> Iterator[Text]:
    yield visible_text("\n" + as_sentence(sentence))
