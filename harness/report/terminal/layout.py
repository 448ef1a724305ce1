"""The look that all tables share, and texts on one line."""

from collections.abc import Collection, Iterable

from rich import box
from rich.table import Table
from rich.text import Text

from harness.core.unicode import visible


def plain_table(
    columns: Iterable[str], *, right: Collection[str] = (), title: str | None = None, no_wrap: bool = True
) -> Table:
    """Return an empty table with a rule below its head; the columns named in `right` are aligned to the right."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=no_wrap)
    return table


def visible_text(*parts: str | tuple[str, str], style: str = "") -> Text:
    """Return texts, or pairs of a text and its style, as one text with marks for what a terminal would obey.

    Marked here because rich's own Text drops some control characters without a trace.
    """
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((visible(text), own_style) for text, own_style in pairs), style=style)


def on_one_line(text: str, length: int) -> str:
    """Return a text on one line, with marks for what a terminal would obey, cut to `length` characters."""
    flat = " ".join(visible(text).split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"
