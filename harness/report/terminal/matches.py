"""A group's matches for the terminal: all of them by round, or one with every score and what the judge said."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from harness.core.rankings import GroupRanking
from harness.core.records import Group
from harness.report.summary.bracket import draw_bracket
from harness.report.summary.match_details import Marks, MatchDetails, detail_matches
from harness.report.summary.match_verdicts import VerdictLookup
from harness.report.terminal.layout import visible_text
from harness.report.terminal.table import Column, TableRow, table_lines
from harness.transcripts.transcript import TranscriptForm

_COLUMNS = (
    Column("match", 1, right=True),
    Column("round", 7),
    Column("rollout", 2, right=True),
    Column("score", 3, right=True),
    Column("rollout", 4, right=True),
    Column("score", 5, right=True),
    Column("winner", 6, right=True),
    Column("notes", 8, wish=40),
)


def matches_table(group: Group, ranking: GroupRanking, verdicts: VerdictLookup, width: int) -> RenderableType:
    """Return the matches in the order played, by round: who met, what they scored, who won."""
    title = visible_text(f"{ranking.topology}, ranked by {ranking.estimator}", style="bold")
    return Lines(title, *table_lines(_COLUMNS, _rows(_details(group, ranking, verdicts)), width))


def _rows(matches: Iterable[MatchDetails]) -> Iterator[TableRow]:
    title_above = ""
    for details in matches:
        a, b = details.sides
        cells = (
            str(details.number),
            "" if details.title == title_above else details.title,
            str(a.rollout.index),
            f"{a.score:.2f}",
            str(b.rollout.index),
            f"{b.score:.2f}",
            "tie" if details.match.winner is None else str(details.match.winner),
            ", ".join(details.flags),
        )
        yield TableRow(cells)
        title_above = details.title


def match_lines(
    group: Group, ranking: GroupRanking, verdicts: VerdictLookup, number: int, form: TranscriptForm | None, width: int
) -> RenderableType:
    """Return match `number` (from 1): its scores, the judge's words, and both transcripts as the judge had them.

    Without a `form` the transcripts are left out.
    """
    details = next(d for d in _details(group, ranking, verdicts) if d.number == number)
    transcripts = _transcripts(details, form) if form else ()
    return Lines(*_head(details), *_scores(details, width), *_judgements(details), *transcripts)


def _details(group: Group, ranking: GroupRanking, verdicts: VerdictLookup) -> Iterator[MatchDetails]:
    return detail_matches(group, ranking, draw_bracket(group, ranking), verdicts)


def _head(details: MatchDetails) -> Iterator[Text]:
    a, b = details.sides
    yield visible_text(
        f"match {details.number}, {details.title}: rollout {a.rollout.index} {a.score:.2f} v rollout "
        f"{b.rollout.index} {b.score:.2f}",
        style="bold",
    )
    for flag in details.flags:
        yield visible_text(f"note: {flag}")


def _scores(details: MatchDetails, width: int) -> Iterator[Text]:
    """Yield a table for each judge: what each verdict of that judge gave both sides."""
    a, b = (str(side.rollout.index) for side in details.sides)
    orders = [(order.first, order.verdict.judge) for order in details.orders if order.verdict]
    for judge in dict.fromkeys(judge for _, judge in orders):
        chosen = [at for at, (_, of) in enumerate(orders) if of == judge]
        columns = [
            Column(f"{a} : {b}", 1),
            *(Column(f"{orders[at][0]} shown first", 2 + at, right=True) for at in chosen),
        ]
        wide = max(len(_mark(b)) for row in details.marks for at in chosen for b in row.pairs[at][1:])
        rows = (
            TableRow((row.label, *(_pair(row.pairs[at], wide) for at in chosen)), "bold" if row.overall else "")
            for row in details.marks
        )
        yield visible_text(f"\nscores 0–10, says {judge}", style="bold")
        yield from table_lines(columns, rows, width)


def _pair(pair: Marks, wide: int) -> str:
    """Return both marks, the second `wide` characters wide: so the colons of a column stand below each other."""
    return "–" if None in pair else f"{_mark(pair[0])} : {_mark(pair[1]):>{wide}}"


def _mark(mark: float | None) -> str:
    return "" if mark is None else f"{mark:g}"


def _judgements(details: MatchDetails) -> Iterator[Text]:
    """Yield what the judge said in each order."""
    for order in details.orders:
        if order.verdict is None:
            yield visible_text(f"\nrollout {order.first} shown first: the verdict is no longer in the archive")
            continue
        winner = "a tie" if order.winner is None else f"rollout {order.winner}"
        yield visible_text(f"\nrollout {order.first} shown first: {winner}, says {order.verdict.judge}", style="bold")
        for title, pair in order.remarks:
            yield from _remarks(title, details, pair)
        for flag in order.flags:
            lowered = f" ({flag.lowered})" if flag.lowered else ""
            yield visible_text(f"flag on rollout {flag.rollout}: {flag.words}{lowered}")


def _remarks(title: str, details: MatchDetails, pair: Sequence[str]) -> Iterator[Text]:
    for side, remark in zip(details.sides, pair, strict=True):
        if remark:
            yield visible_text(f"{title} of {side.rollout.index}: {remark}")


def _transcripts(details: MatchDetails, form: TranscriptForm) -> Iterator[Text]:
    for side in details.sides:
        shown = form(side.rollout.trajectory)
        yield visible_text(f"\nrollout {side.rollout.index}, path", style="bold")
        yield visible_text(shown.path)
        yield visible_text(f"\nrollout {side.rollout.index}, answer", style="bold")
        yield visible_text(shown.answer)
