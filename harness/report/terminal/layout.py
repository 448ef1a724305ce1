"""The look that all tables share, and texts on one line."""

from collections.abc import Collection, Iterable

from rich import box
from rich.table import Table


def plain_table(
    columns: Iterable[str], *, right: Collection[str] = (), title: str | None = None, no_wrap: bool = True
) -> Table:
    """Return an empty table with a rule below its head; the columns named in `right` are aligned to the right."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=no_wrap)
    return table


def on_one_line(text: str, length: int) -> str:
    """Return a text on one line, cut to `length` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"
