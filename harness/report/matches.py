"""A group's matches for the terminal: all of them by round, or one with every mark and what the judge said."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from harness.core.rankings import GroupRanking
from harness.core.records import Group
from harness.report.bracket import drawn_bracket
from harness.report.excerpts import ALONE
from harness.report.match_details import Meeting, meetings
from harness.report.summary import Verdicts
from harness.transcripts import TokenBudget, transcribe


def matches_table(group: Group, ranked: GroupRanking, verdicts: Verdicts) -> RenderableType:
    """Return the matches in the order played, by round: who met, what they scored, who came through."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("match", "round", "rollout", "score", "rollout", "score", "winner", "notes"):
        table.add_column(name, justify="right" if name in {"match", "score"} else "left")
    before = ""
    for met in _all(group, ranked, verdicts):
        a, b = met.sides
        winner = "tie" if met.match.winner is None else str(met.match.winner)
        table.add_row(
            str(met.number),
            "" if met.title == before else escape(met.title),
            _who(a.rollout.index, won=a.won),
            f"{a.score:.2f}",
            _who(b.rollout.index, won=b.won),
            f"{b.score:.2f}",
            winner,
            ", ".join(met.flags),
        )
        before = met.title
    return Lines(Text(f"{ranked.topology}, ranked by {ranked.estimator}", style="bold"), table)


def match_lines(
    group: Group, ranked: GroupRanking, verdicts: Verdicts, number: int, budget: TokenBudget | None
) -> RenderableType:
    """Return match `number` (from 1): marks in each order, the judge's words, and both transcripts as it had them."""
    met = next(m for m in _all(group, ranked, verdicts) if m.number == number)
    return Lines(*_head(met), _marks(met), *_said(met), *_transcripts(met, budget))


def _all(group: Group, ranked: GroupRanking, verdicts: Verdicts) -> Iterator[Meeting]:
    return meetings(group, ranked, drawn_bracket(group, ranked), verdicts, ALONE.most)


def _who(index: int, *, won: bool) -> Text:
    return Text(str(index), style="bold" if won else "")


def _head(met: Meeting) -> Iterator[Text]:
    a, b = met.sides
    yield Text(
        f"match {met.number}, {met.title}: rollout {a.rollout.index} {a.score:.2f} v rollout "
        f"{b.rollout.index} {b.score:.2f}",
        style="bold",
    )
    for flag in met.flags:
        yield Text(f"note: {flag}")


def _marks(met: Meeting) -> Table:
    a, b = (str(side.rollout.index) for side in met.sides)
    judged = [o for o in met.orders if o.verdict]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("marks")
    for order in judged:
        table.add_column(f"{a} v {b}, {order.first} shown first", justify="right")
    for line in met.marks:
        pairs = (" – " if None in pair else f"{pair[0]:g} : {pair[1]:g}" for pair in line.pairs)
        table.add_row(line.label, *pairs, style="bold" if line.overall else "")
    return table


def _said(met: Meeting) -> Iterator[Text]:
    for order in met.orders:
        if order.verdict is None:
            yield Text(f"\nrollout {order.first} shown first: the verdict is no longer in the archive")
            continue
        named = "a tie" if order.winner is None else f"rollout {order.winner}"
        yield Text(f"\nrollout {order.first} shown first: {named}, says {order.verdict.judge}", style="bold")
        for title, pair in order.remarks:
            yield from _remarks(title, met, pair)
        for rollout, flag, capped in order.flags:
            yield Text(f"flag on rollout {rollout}: {flag}{f' ({capped})' if capped else ''}")


def _remarks(title: str, met: Meeting, pair: Sequence[str]) -> Iterator[Text]:
    for side, remark in zip(met.sides, pair, strict=True):
        if remark:
            yield Text(f"{title} of {side.rollout.index}: {remark}")


def _transcripts(met: Meeting, budget: TokenBudget | None) -> Iterator[Text]:
    for side in met.sides:
        shown = transcribe(side.rollout.trajectory, budget)
        yield Text(f"\nrollout {side.rollout.index}, path", style="bold")
        yield Text(shown.path)
        yield Text(f"\nrollout {side.rollout.index}, answer", style="bold")
        yield Text(shown.answer)
