"""A group's matches for the terminal: all of them by round, or one with every mark and what the judge said."""

from collections.abc import Iterator, Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from harness.core.rankings import GroupRanking
from harness.core.records import Group
from harness.report.summary.bracket import draw_bracket
from harness.report.summary.match_details import MatchDetails, MatchSide, detail_matches
from harness.report.summary.match_verdicts import VerdictLookup
from harness.report.terminal.layout import plain_table, visible_text
from harness.transcripts import TranscriptForm


def matches_table(group: Group, ranking: GroupRanking, verdicts: VerdictLookup) -> RenderableType:
    """Return the matches in the order played, by round: who met, what they scored, who won."""
    columns = ("match", "round", "rollout", "score", "rollout", "score", "winner", "notes")
    table = plain_table(columns, right={"match", "score"}, no_wrap=False)
    title_above = ""
    for details in _details(group, ranking, verdicts):
        a, b = details.sides
        table.add_row(
            str(details.number),
            "" if details.title == title_above else details.title,
            _index(a),
            f"{a.score:.2f}",
            _index(b),
            f"{b.score:.2f}",
            "tie" if details.match.winner is None else str(details.match.winner),
            ", ".join(details.flags),
        )
        title_above = details.title
    return Lines(visible_text(f"{ranking.topology}, ranked by {ranking.estimator}", style="bold"), table)


def match_lines(
    group: Group, ranking: GroupRanking, verdicts: VerdictLookup, number: int, form: TranscriptForm
) -> RenderableType:
    """Return match `number` (from 1): its marks, the judge's words, and both transcripts as the judge had them."""
    details = next(d for d in _details(group, ranking, verdicts) if d.number == number)
    return Lines(*_head(details), _marks(details), *_judgements(details), *_transcripts(details, form))


def _details(group: Group, ranking: GroupRanking, verdicts: VerdictLookup) -> Iterator[MatchDetails]:
    return detail_matches(group, ranking, draw_bracket(group, ranking), verdicts)


def _index(side: MatchSide) -> Text:
    return visible_text(str(side.rollout.index), style="bold" if side.won else "")


def _head(details: MatchDetails) -> Iterator[Text]:
    a, b = details.sides
    yield visible_text(
        f"match {details.number}, {details.title}: rollout {a.rollout.index} {a.score:.2f} v rollout "
        f"{b.rollout.index} {b.score:.2f}",
        style="bold",
    )
    for flag in details.flags:
        yield visible_text(f"note: {flag}")


def _marks(details: MatchDetails) -> Table:
    a, b = (str(side.rollout.index) for side in details.sides)
    table = plain_table(("marks",), no_wrap=False)
    for order in details.orders:
        if order.verdict:
            table.add_column(f"{a} v {b}, {order.first} shown first", justify="right")
    for row in details.marks:
        pairs = (" – " if None in pair else f"{pair[0]:g} : {pair[1]:g}" for pair in row.pairs)
        table.add_row(row.label, *pairs, style="bold" if row.overall else "")
    return table


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
