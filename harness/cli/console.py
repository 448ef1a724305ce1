"""Tables and colours on a terminal, in which nothing is hidden and no text is taken for markup."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, cast

import click
from rich.console import Console, ConsoleDimensions, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook
from rich.segment import Segment
from rich.text import Text

from harness.cli import options
from harness.core.unicode import visible

_NO_LIMIT = 100_000
"""The width of what has none."""
_COLUMNS = re.compile("[1-9][0-9]{0,3}")
_USUAL_WIDTH, _USUAL_HEIGHT = 80, 25
"""Of a terminal that does not say how large it is."""


def stdout() -> Console:
    """Return a console for results.

    It is as wide as COLUMNS says, else as the terminal; with --wide, and in a pipe, as wide as what is printed.
    """
    return _VisibleConsole(width=_width(click.get_current_context(silent=True)))


def print_lines(lines: Callable[[int], Iterable[RenderableType]]) -> None:
    """Print a result: what `lines` makes for the width of the console."""
    console = stdout()
    for line in lines(console.width):
        console.print(line)


def _width(context: click.Context | None) -> int | None:
    """Return the characters of a line; None for those of the terminal."""
    if context and options.is_wide(context):
        return _NO_LIMIT
    return _columns(context) or (None if sys.stdout.isatty() else _NO_LIMIT)


def _columns(context: click.Context | None) -> int | None:
    """Return what COLUMNS says; None where it says nothing."""
    return int(columns) if _COLUMNS.fullmatch(columns := _environ(context).get("COLUMNS", "")) else None


def _environ(context: click.Context | None) -> Mapping[str, str]:
    return cast("Mapping[str, str]", (context and context.obj) or {})


def stderr(*, quiet: bool = False) -> Console:
    """Return a console for what is not the result; without a terminal its lines are not wrapped."""
    width = _columns(click.get_current_context(silent=True)) or (None if sys.stderr.isatty() else _NO_LIMIT)
    return _VisibleConsole(width=width, stderr=True, quiet=quiet)


def terminal(descriptor: int, encoding: str) -> Console:
    """Return a console on an open file descriptor, which is a terminal.

    It is as wide as COLUMNS says, else as that terminal is at any time.
    """
    return _TerminalConsole(descriptor, encoding, _columns(click.get_current_context(silent=True)))


class _VisibleConsole(Console):
    """Marks what a terminal would obey: in strings before they are laid out, and in all that is written.

    rich drops some control characters without a trace, so strings are marked before rich sees them.
    """

    def __init__(
        self, *, width: int | None = None, stderr: bool = False, quiet: bool = False, file: IO[str] | None = None
    ) -> None:
        super().__init__(
            width=width,
            stderr=stderr,
            quiet=quiet,
            file=file,
            color_system=None if _environ(click.get_current_context(silent=True)).get("NO_COLOR") else "auto",
            highlight=False,
            markup=False,
            emoji=False,
        )
        self.push_render_hook(_Marking())

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


class _TerminalConsole(_VisibleConsole):
    def __init__(self, descriptor: int, encoding: str, columns: int | None) -> None:
        self._descriptor, self._columns = descriptor, columns
        super().__init__(file=open(descriptor, "w", encoding=encoding, errors="backslashreplace", closefd=False))  # noqa: SIM115 - as long as the console

    @property
    def size(self) -> ConsoleDimensions:  # pyright: ignore[reportIncompatibleMethodOverride] - nobody sets it here
        """The size of that terminal; rich would ask those of the standard streams, which may be files."""
        columns, lines = os.get_terminal_size(self._descriptor)
        return ConsoleDimensions(self._columns or columns or _USUAL_WIDTH, lines or _USUAL_HEIGHT)


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
