"""One group in detail, for the terminal: a rollout's path, who beat whom, its matches, one match with every score."""

from collections.abc import Iterator

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from harness.core.errors import counted
from harness.core.rankings import GroupRanking
from harness.core.records import Group
from harness.core.workspace_files import files_text
from harness.judging.transcript_form import TranscriptForm
from harness.report.summary.match_details import MatchDetails, detail_matches, draw_bracket
from harness.report.summary.match_verdicts import VerdictLookup
from harness.report.summary.pair_table import PairTable, cycles_sentence
from harness.report.summary.rollouts import asked_words, numbered_steps, own_models
from harness.report.terminal.table import Column, TableRow, on_one_line, table_lines, table_width, visible_text
from harness.report.text import EMPTY_ANSWER, as_sentence, signed


def path_lines(group: Group, index: int) -> RenderableType:
    """Return one rollout's path and answer, as they were captured."""
    rollout = next(r for r in group.rollouts if r.index == index)
    branch = f", {rollout.branch.words}" if rollout.branch else ""
    head = f"rollout {index} ({rollout.role}, {asked_words(rollout)}{branch}), {rollout.status}"
    parts: list[RenderableType] = [visible_text(head, style="bold")]
    for number, step in numbered_steps(rollout.trajectory.path):
        texts = {"": step.reasoning, "input: ": step.tool_input, "output: ": step.tool_output, "error: ": step.error}
        lines = (f"\n{label}{value}".replace("\n", "\n   ") for label, value in texts.items() if value)
        tool = f" {step.tool_name}" if step.tool_name else ""
        parts.append(visible_text(f"\n{number}. {step.kind}{tool}", *((t, "not bold") for t in lines), style="bold"))
    if rollout.failure:
        parts.append(visible_text(f"failed: {rollout.failure.kind}: {rollout.failure.message}", style="red"))
    parts += [visible_text(f"captured in part: {gap}", style="red") for gap in rollout.capture_gaps]
    said = [error for error in (rollout.clean_up_error, rollout.verify_error) if error]
    said += [f"run_config: {', '.join(rollout.effective.run_config)}"] if rollout.effective.run_config else []
    parts += [visible_text(f"note: {note}") for note in (*said, *rollout.effective.exceptions, *own_models(rollout))]
    answer = rollout.trajectory.answer
    if answer.strip() or rollout.status == "ok":
        parts += [visible_text("\nAnswer", style="bold"), visible_text(answer if answer.strip() else EMPTY_ANSWER)]
    if files := rollout.trajectory.files:
        parts += [visible_text("\nFiles", style="bold"), visible_text(files_text(files, on_one_line, str))]
    return Lines(*parts)


_FLIPPED = "*"


def pair_table_lines(table: PairTable, width: int) -> RenderableType:
    """Return by how many mean score points each row leads each column; both orders too where `width` has room."""
    indexes = [rollout.index for rollout in table.rollouts]
    full, means = (
        [[str(row), *(_cell(table, row, column, both_orders=both) for column in indexes)] for row in indexes]
        for both in (True, False)
    )
    fits = table_width(full) <= width
    columns = [Column("", 1, right=True)]
    columns += [Column(str(index), at, right=True) for at, index in enumerate(indexes, 2)]
    orders = "; in brackets the row shown first, then the column" if fits else ""
    flips = f"; {_FLIPPED} changed with order, {table.flipped}" if table.flipped else ""
    circles = cycles_sentence(table.cycles)
    return Lines(
        visible_text("Who beat whom: the row's mean score less the column's", style="bold"),
        *table_lines(columns, full if fits else means, width),
        visible_text(f"{table.met} of {counted(table.of, 'pair')} met{orders}{flips}."),
        *([visible_text(as_sentence(circles))] if circles else []),
    )


def _cell(table: PairTable, row: int, column: int, *, both_orders: bool) -> str:
    pair = table.pairs.get((row, column))
    if pair is None:
        return "" if row == column else "–"
    mean = (signed(pair.difference) if pair.difference else "0.00") + (_FLIPPED if pair.flipped else "")
    if not both_orders:
        return mean
    leads = (pair.led_when_first(pair.row), pair.led_when_first(pair.column))
    return f"{mean} ({' '.join('–' if lead is None else signed(lead, 1) for lead in leads)})"


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
    rows: list[tuple[str, ...]] = []
    title_above = ""
    for details in detail_matches(group, ranking, draw_bracket(group, ranking), verdicts):
        sides = [cell for side in details.sides for cell in (str(side.rollout.index), f"{side.score:.2f}")]
        winner = "tie" if details.match.winner is None else str(details.match.winner)
        round_title = "" if details.title == title_above else details.title
        rows.append((str(details.number), round_title, *sides, winner, ", ".join(details.flags)))
        title_above = details.title
    return Lines(title, *table_lines(_COLUMNS, rows, width))


def match_lines(
    group: Group, ranking: GroupRanking, verdicts: VerdictLookup, number: int, form: TranscriptForm | None, width: int
) -> RenderableType:
    """Return match `number` (from 1): its scores, the judge's words, and with a `form` both transcripts as judged."""
    every = detail_matches(group, ranking, draw_bracket(group, ranking), verdicts)
    details = next(d for d in every if d.number == number)
    a, b = details.sides
    between = f"rollout {a.rollout.index} {a.score:.2f} v rollout {b.rollout.index} {b.score:.2f}"
    head = [visible_text(f"match {details.number}, {details.title}: {between}", style="bold")]
    head += [visible_text(f"note: {flag}") for flag in details.flags]
    transcripts: list[Text] = []
    for rollout, shown in (
        [(s.rollout, form(s.rollout.trajectory, group.query.reference)) for s in details.sides] if form else ()
    ):
        transcripts += [visible_text(f"\nrollout {rollout.index}, path", style="bold"), visible_text(shown.path)]
        transcripts += [visible_text(f"\nrollout {rollout.index}, answer", style="bold"), visible_text(shown.answer)]
    said: list[Text] = []
    for order in details.orders:
        shown_first = f"\nrollout {order.first} shown first"
        if order.verdict is None:
            said.append(visible_text(f"{shown_first}: the verdict is no longer in the archive"))
            continue
        winner = "a tie" if order.winner is None else f"rollout {order.winner}"
        said.append(visible_text(f"{shown_first}: {winner}, says {order.verdict.judge}", style="bold"))
        remarks = [(title, s, remark) for title, pair in order.remarks for s, remark in zip((a, b), pair, strict=True)]
        said += [visible_text(f"{title} of {s.rollout.index}: {remark}") for title, s, remark in remarks if remark]
        said += [visible_text(f"{title}: {remark}") for title, remark in order.other_remarks]
        for flag in order.flags:
            lowered = f" ({flag.lowered})" if flag.lowered else ""
            said.append(visible_text(f"flag on rollout {flag.side}: {flag.words}{lowered}"))
    return Lines(*head, *_scores(details, width), *said, *transcripts)


def _scores(details: MatchDetails, width: int) -> Iterator[Text]:
    """Yield a table for each judge: what each verdict of that judge gave both sides."""
    a, b = (str(side.rollout.index) for side in details.sides)
    orders = [(order.first, order.verdict.judge) for order in details.orders if order.verdict]
    for judge in dict.fromkeys(judge for _, judge in orders):
        chosen = [at for at, (_, of) in enumerate(orders) if of == judge]
        columns = [Column(f"{a} : {b}", 1)]
        columns += [Column(f"{orders[at][0]} shown first", 2 + at, right=True) for at in chosen]
        seconds = [row.pairs[at][1] for row in details.marks for at in chosen]
        wide = max(0 if mark is None else len(f"{mark:g}") for mark in seconds)
        rows: list[TableRow] = []
        for row in details.marks:
            pairs = [  # the second one as wide as the widest: so the colons of a column stand below each other
                "–" if one is None or other is None else f"{one:g} : {f'{other:g}':>{wide}}"
                for one, other in (row.pairs[at] for at in chosen)
            ]
            rows.append(TableRow((row.label, *pairs), "bold" if row.overall else ""))
        yield visible_text(f"\nscores 0–10, says {judge}", style="bold")
        yield from table_lines(columns, rows, width)
