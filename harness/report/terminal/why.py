"""Why one of two rollouts is above the other, for the terminal."""

from collections.abc import Iterator

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from harness.core.workspace_files import files_text
from harness.report.summary.pair_table import cycles_sentence
from harness.report.summary.why_records import PairExplanation, call_words
from harness.report.terminal.credit import tree_lines
from harness.report.terminal.table import Column, TableRow, fitted_line, on_one_line, table_lines, visible_text
from harness.report.text import as_sentence, fixed, readable_name, signed

_SIDES = (
    Column("rollout", 1, right=True),
    Column("role", 4),
    Column("place", 2, right=True),
    Column("score", 3, right=True),
    Column("status", 5, wish=24),
)
_NOTES = ("changed with order", "inconsistent", "met before")
_NOTE = "the new ranking is of these two alone, and the newest: `--ranking` names this one then"


def pair_lines(why: PairExplanation, width: int) -> RenderableType:
    """Return the explanation of a pair, `width` characters wide: how they stand first, then what decided."""
    return Lines(*_standing(why, width), *_matches(why, width), *_not_met(why, width), *_paths_and_words(why, width))


def _standing(why: PairExplanation, width: int) -> Iterator[Text]:
    yield fitted_line(why.query.text, width, "bold")
    yield visible_text(as_sentence(why.standing_sentence), style="bold")
    if lead := why.lead_sentence:
        yield visible_text(as_sentence(lead))
    columns = [Column(why.score_name, 3, right=True) if column.name == "score" else column for column in _SIDES]
    rows = (
        (
            str(s.index),
            s.branch.words if s.branch else s.role,
            s.place,
            fixed(s.score) or "–",
            f"failed: {s.failure}" if s.failure else "ok",
        )
        for s in (why.a, why.b)
    )
    yield from table_lines(columns, rows, width)


def _matches(why: PairExplanation, width: int) -> Iterator[Text]:
    """Yield the matches in which they met, and the marks that decided."""
    yield _paragraph(why.matches_sentence)
    a, b = why.a.index, why.b.index
    if why.matches:
        orders = [Column(f"{a} : {b}, {first} first", 2 + at, right=True) for at, first in enumerate((a, b))]
        mean, winner = Column("mean", 4, right=True), Column("winner", 5, right=True)
        columns = [Column("match", 1, right=True), *orders, mean, winner, Column("notes", 6)]
        met: list[list[str]] = []
        for meeting in why.matches:
            scores: dict[int, list[str]] = {a: [], b: []}
            for first, (x, y) in zip(meeting.shown_first, meeting.scores, strict=True):
                scores[first].append(f"{x:g} : {y:g}")
            of_orders = (", ".join(each) or "–" for each in scores.values())
            holds = (meeting.flipped, meeting.inconsistent, meeting.repeated)
            notes = (name for name, held in zip(_NOTES, holds, strict=True) if held)
            won = "tie" if meeting.winner is None else str(meeting.winner)
            met.append([str(meeting.number), *of_orders, _scores(meeting.mean), won, ", ".join(notes)])
        yield from table_lines(columns, met, width)

    if why.dimensions:
        yield visible_text("\nMean marks; * decided:")
        rows: list[TableRow] = []
        for lead in why.dimensions:
            name = f"{'* ' if lead.decided else '  '}{on_one_line(readable_name(lead.name))}"
            difference = signed(lead.difference, 1) if lead.difference else "0.0"
            cells = (name, *(f"{mark:.1f}" for mark in lead.marks), difference)
            rows.append(TableRow(cells, "bold" if lead.decided else ""))
        marks = [Column(str(a), 3, right=True), Column(str(b), 4, right=True)]
        columns = [Column("dimension", 1), *marks, Column(f"{a} less {b}", 2, right=True)]
        yield from table_lines(columns, rows, width)


def _not_met(why: PairExplanation, width: int) -> Iterator[Text]:
    """Yield whom both met, and what makes the two meet, where they never did."""
    if why.common:
        yield visible_text("\nBoth met; mean scores:")
        heads = ("opponent", f"{why.a.index} : opponent", f"{why.b.index} : opponent")
        columns = [Column(name, at, right=True) for at, name in enumerate(heads, 1)]
        yield from table_lines(columns, ((str(c.index), _scores(c.a), _scores(c.b)) for c in why.common), width)
    if offer := why.meeting_sentence:
        yield _paragraph(offer)
    if why.meet:
        yield visible_text(f"  {why.meet.command}")
        yield visible_text(as_sentence(_NOTE))
    if circles := cycles_sentence(why.cycles):
        yield _paragraph(circles)


def _paths_and_words(why: PairExplanation, width: int) -> Iterator[Text]:
    """Yield where their paths part, what the judge said of each, and the flags."""
    yield _paragraph(why.parting_sentence)
    if why.first_parting:
        for side, call in ((why.a, why.first_parting.a), (why.b, why.first_parting.b)):
            yield fitted_line(f"  {side.name}: {call_words(call)}", width)
    for side, other in ((why.a, why.b), (why.b, why.a)):
        if own := [file for file in side.files if file not in other.files]:
            yield visible_text(f"\nFiles of {side.name} alone: {files_text(own, on_one_line, str)}")
    yield from map(_paragraph, why.credit_sentences)
    if why.credit and all(rollout.steps for rollout in why.credit):
        yield visible_text("\nWhat each model call changed:")
        yield from tree_lines(why.credit, width)
    before = "\n"
    for side, said in zip((why.a, why.b), why.judge, strict=True):
        if side.explanation or said:
            against = f" against {said.opponent}" if said and not why.matches else ""
            match = f", match {said.match}{against}" if said and not side.explanation else ""
            text = side.explanation or (said.text if said else "")
            yield visible_text(f"{before}The judge on {side.name}{match}: {text}")
            before = ""
    yield from (visible_text(as_sentence(flag.sentence)) for flag in why.flags)


def _scores(scores: tuple[float, float]) -> str:
    return " : ".join(f"{score:.2f}" for score in scores)


def _paragraph(sentence: str) -> Text:
    return visible_text("\n" + as_sentence(sentence))
