"""The rankings of a run: a row for each, and what the newest changed against the one before."""

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from harness.core.unicode import visible_name
from harness.core.wording import counted
from harness.report.summary.notes import provisional_words
from harness.report.summary.ranking_change import RankingChange
from harness.report.summary.ranking_line import RankingLine
from harness.report.terminal.layout import on_one_line, visible_text
from harness.report.terminal.table import Column, TableRow, table_lines
from harness.report.text import dollars, enumeration, money

_COLUMNS = (
    Column("ranking", 1, wish=40),
    Column("when", 7),
    Column("judge", 2, wish=12),
    Column("rubric", 4, wish=12),
    Column("topology", 5),
    Column("estimator", 8),
    Column("complete", 3, right=True),
    Column("calls", 6, right=True),
    Column("reused", 10, right=True),
    Column("cost", 9, right=True),
)


def rankings_table(rankings: Iterable[RankingLine], width: int) -> Iterator[Text]:
    """Yield a table of rankings in the order given."""
    return table_lines(_COLUMNS, map(_row, rankings), width)


def _row(line: RankingLine) -> TableRow:
    return TableRow(
        (
            visible_name(line.ranking),
            f"{line.created_at:%Y-%m-%d %H:%M}",
            on_one_line(line.judge),
            on_one_line(line.rubric),
            visible_name(line.topology),
            visible_name(line.estimator),
            f"{line.complete:,} of {line.queries:,}"
            + provisional_words(line.estimator, provisional=bool(line.provisional)),
            *((f"{line.calls:,}", f"{line.reused:,}", dollars(line.judge_usd)) if line.begun else ("–", "–", "–")),
        )
    )


def rounds_lines(rankings: Sequence[RankingLine]) -> Iterator[Text]:
    """Yield what all rounds of a judging by batch took, of each that has come to its end, and of the newest."""
    for line in rankings:
        if line.all_rounds and (line.finished or line is rankings[-1]):
            calls, usd = line.all_rounds["calls"], line.all_rounds["usd"]
            yield visible_text(
                f"{visible_name(line.ranking)}, all rounds of batches: {counted(calls, 'call')}, {money(usd)}"
            )


def change_lines(change: RankingChange, *, name_queries: bool) -> Iterator[Text]:
    """Yield what a ranking changed against an earlier one; the moves name their queries only with `name_queries`."""
    queries = counted(change.of, "query", "queries")
    tau = "" if change.tau is None else f"Kendall's tau-b {change.tau:.2f}, "
    yield visible_text(
        f"against ranking {change.ranking} ({change.by}): winners changed on {change.winners_changed:,} of {queries}; "
        f"{tau}a rollout moved by {change.shift:.1f} places on average"
    )
    if change.moves:
        moves = [
            f"rollout {m.rollout}{f' of {m.query}' if name_queries else ''} from {m.before:g} to {m.after:g}"
            for m in change.moves
        ]
        yield visible_text(f"largest moves: {enumeration(moves)}")
