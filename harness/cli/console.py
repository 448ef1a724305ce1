"""Tables and colours on a terminal, in which nothing is hidden and no text is taken for markup."""

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, cast

import click
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook
from rich.segment import Segment
from rich.text import Text

from harness.cli import options
from harness.core.unicode import visible

_NO_LIMIT = 100_000
"""The width of what has none."""
_COLUMNS = re.compile("[1-9][0-9]{0,3}")


def stdout() -> Console:
    """Return a console for results.

    It is as wide as COLUMNS says, else as the terminal; with --wide, and in a pipe, as wide as what is printed.
    """
    return _VisibleConsole(width=_width(click.get_current_context(silent=True)))


def _width(context: click.Context | None) -> int | None:
    """Return the characters of a line; None for those of the terminal."""
    if context and options.is_wide(context):
        return _NO_LIMIT
    environ = cast("Mapping[str, str]", (context and context.obj) or {})
    if _COLUMNS.fullmatch(columns := environ.get("COLUMNS", "")):
        return int(columns)
    return None if sys.stdout.isatty() else _NO_LIMIT


def stderr(*, quiet: bool = False) -> Console:
    """Return a console for what is not the result."""
    return _VisibleConsole(stderr=True, quiet=quiet)


class _VisibleConsole(Console):
    """Marks what a terminal would obey: in strings before they are laid out, and in all that is written.

    rich drops some control characters without a trace, so strings are marked before rich sees them.
    """

    def __init__(self, *, width: int | None = None, stderr: bool = False, quiet: bool = False) -> None:
        super().__init__(width=width, stderr=stderr, quiet=quiet, highlight=False, markup=False, emoji=False)
        self.push_render_hook(_Marking())

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


class _Marking(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Marked(renderable) for renderable in renderables]


class _Marked:
    """What `renderable` draws, with marks. rich's own control codes, such as the cursor's for bars, stay."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self._renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
