"""Texts on one line, in which nothing is hidden."""

from rich.text import Text

from harness.core.unicode import visible

EXCERPT = 200
"""Characters that a row shows of a long text at most, however wide the terminal is."""


def visible_text(*parts: str | tuple[str, str], style: str = "") -> Text:
    """Return texts, or pairs of a text and its style, as one text with marks for what a terminal would obey.

    Marked here because rich's own Text drops some control characters without a trace.
    """
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((visible(text), own_style) for text, own_style in pairs), style=style)


def line_of_text(text: str, style: str = "", *, wrap: bool = False) -> Text:
    """Return a text with marks that stays on one line, however narrow the terminal is; with `wrap`, that is wrapped."""
    line = visible_text(text, style=style)
    if not wrap:
        line.no_wrap, line.overflow = True, "ignore"
    return line


def on_one_line(text: str, length: int = EXCERPT) -> str:
    """Return a text on one line, with marks for what a terminal would obey, cut to `length` characters."""
    flat = " ".join(visible(text).split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"
