"""How far to believe a judge: a line for each of its figures."""

from rich.table import Table

from harness.report.judge_quality import JudgeQuality
from harness.report.terminal.layout import plain_table


def quality_table(quality: JudgeQuality) -> Table:
    """Return a judge's figures, each with what it means."""
    verdicts = f"{quality.tally.verdicts} verdicts on different answers"
    table = plain_table((), title=f"judge {quality.judge}, rubric {quality.rubric}: {verdicts}")
    for name in ("", "figure", "which says"):
        table.add_column(name, overflow="fold")
    for figure in quality.figures:
        table.add_row(figure.label, figure.value, figure.meaning)
    return table
