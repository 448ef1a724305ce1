"""What steps were worth, for the terminal."""

from collections.abc import Iterator

from rich.text import Text

from harness.report.summary.credit import CreditedGroup, CreditedRollout
from harness.report.terminal.table import Column, TableRow, fitted_line, on_one_line, table_lines, visible_text
from harness.report.text import as_sentence, signed

_STEPS = (
    Column("call", 1, right=True),
    Column("value", 4, right=True),
    Column("credit", 2, right=True),
    Column("95 %", 3, right=True),
    Column("shared", 6, right=True),
    Column("named", 7),
    Column("did", 5, wish=40),
)


def credit_lines(group: CreditedGroup, width: int) -> Iterator[Text]:
    """Yield what stands out in each rollout of a group, then the steps of each, a table a rollout."""
    yield fitted_line(group.query.text, width, "bold")
    yield visible_text(as_sentence(_summary(group)))
    for rollout in group.rollouts:
        yield visible_text("")
        yield from rollout_credit_lines(rollout, width)


def decisive_lines(group: CreditedGroup, width: int) -> Iterator[Text]:
    """Yield a group in few lines: which step decided in which rollout."""
    yield fitted_line(f"{group.query.id}: {group.query.text}", width, "bold")
    sentences = [rollout.sentence for rollout in group.rollouts if rollout.sentence]
    yield from (visible_text(f"  {as_sentence(sentence)}") for sentence in sentences or [_summary(group)])


def _summary(group: CreditedGroup) -> str:
    if group.reason:
        return f"no credit: {group.reason}"
    points = "score points above the mean of the group" if group.worth == "margin" else "points of verifiable reward"
    found = sum(rollout.decisive is not None for rollout in group.rollouts)
    return f"in {points}; in {found} of {len(group.rollouts)} rollouts a step stands out"


def rollout_credit_lines(rollout: CreditedRollout, width: int) -> Iterator[Text]:
    """Yield what each step of a rollout was worth."""
    head = f"rollout {rollout.index}"
    if not rollout.steps:
        yield visible_text(as_sentence(f"{head}: no credit: {rollout.reason}"))
        return
    yield visible_text(f"{head}, {signed(rollout.end)} at its end", style="bold")
    if rollout.sentence:
        yield visible_text(as_sentence(rollout.sentence))
    rows: list[TableRow] = []
    for step in rollout.steps:
        low, high = step.worth.interval
        cells = (
            *(str(step.call), signed(step.worth.value), signed(step.worth.credit)),
            *(f"[{signed(low)}, {signed(high)}]", str(step.worth.shared), step.worth.named or ""),
            on_one_line(step.did),
        )
        rows.append(TableRow(cells, "bold" if step.worth.named else ""))
    yield from table_lines(_STEPS, rows, width)
