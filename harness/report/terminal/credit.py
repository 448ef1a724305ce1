"""What steps were worth, for the terminal."""

import json
from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from harness.report.summary.credit import CreditedGroup, CreditedRollout, tree_ways
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
_TREE = (
    Column("credit", 1, right=True),
    Column("", 3),
    Column("rollouts", 4, wish=16),
    Column("did", 2, wish=40),
)
_BAR = 8


def credit_lines(group: CreditedGroup, width: int) -> Iterator[Text]:
    """Yield what stands out in each rollout of a group, then the steps of each, a table a rollout."""
    yield fitted_line(group.query.text, width, "bold")
    yield visible_text(as_sentence(_summary(group)))
    yield from tree_lines(group.rollouts, width)
    for rollout in group.rollouts:
        yield visible_text("")
        yield from rollout_credit_lines(rollout, width)


def tree_lines(rollouts: Sequence[CreditedRollout], width: int) -> Iterator[Text]:
    """Yield the tree of rollouts, a line a way, further in the more often they parted before; nothing without steps."""
    rows: list[TableRow] = []
    for way in tree_ways(rollouts):
        who, bar = ", ".join(map(str, way.rollouts)), "\N{FULL BLOCK}" * round(_BAR * abs(way.bar))
        end = "" if way.end is None else f", ends at {signed(way.end)}"
        did = "\N{NO-BREAK SPACE}" * 2 * way.level + on_one_line(way.step.did) + end
        rows.append(TableRow((way.step.amount, bar, who, did), "bold" if way.step.worth.named else ""))
    if rows:
        yield from table_lines(_TREE, rows, width)


def graphviz_lines(groups: Iterable[CreditedGroup]) -> Iterator[str]:
    """Yield the trees of groups in Graphviz's language: a box a state, with its value, or an end; an arrow a step."""
    yield "digraph credit {"
    yield "  rankdir=LR; node [shape=box]"
    for number, group in enumerate(groups):
        yield f"  subgraph cluster_{number} {{"
        yield f"    label={_quoted(f'{group.query.id}: {group.query.text}')}"
        for way in tree_ways(group.rollouts):
            start, end = (_quoted(f"{number} {state}") for state in way.ends)
            worth, who = way.step.worth, ", ".join(map(str, way.rollouts))
            yield f"    {start} [label={_quoted(signed(worth.value))}]"
            if way.end is not None:
                yield f"    {end} [style=rounded label={_quoted(f'rollout {who}: {signed(way.end)}')}]"
            label = _quoted(f"{way.step.did}: {way.step.amount} (rollout {who})")
            yield f"    {start} -> {end} [label={label}{' style=bold' if worth.named else ''}]"
        yield "  }"
    yield "}"


def _quoted(text: str) -> str:
    """Return a text as Graphviz takes it, which escapes quotes and backslashes as JSON does."""
    return json.dumps(on_one_line(text), ensure_ascii=False)


def decisive_lines(group: CreditedGroup, width: int) -> Iterator[Text]:
    """Yield a group in few lines: which step decided in which rollout."""
    yield fitted_line(f"{group.query.id}: {group.query.text}", width, "bold")
    sentences = [rollout.sentence for rollout in group.rollouts if rollout.sentence]
    yield from (visible_text(f"  {as_sentence(sentence)}") for sentence in sentences or [_summary(group)])


def _summary(group: CreditedGroup) -> str:
    if group.reason:
        return f"no credit: {group.reason}"
    points = "score points" if group.worth == "margin" else "points of verifiable reward"
    found = sum(rollout.decisive is not None for rollout in group.rollouts)
    return f"in {points} above the mean of the group; in {found} of {len(group.rollouts)} rollouts a step stands out"


def rollout_credit_lines(rollout: CreditedRollout, width: int) -> Iterator[Text]:
    """Yield what each step of a rollout was worth."""
    head = f"rollout {rollout.index}" + (f" ({rollout.branch.role})" if rollout.branch else "")
    if not rollout.steps:
        yield visible_text(as_sentence(f"{head}: no credit: {rollout.reason}"))
        return
    end, margin = signed(rollout.end), signed(rollout.margin)
    beside = "" if end == margin else f" (its margin: {margin})"
    yield visible_text(f"{head}, {end} at its end{beside}", style="bold")
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
