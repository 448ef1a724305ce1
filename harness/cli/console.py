"""Tables and colours on a terminal, in which nothing is hidden and no text is taken for markup."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import click
from rich.console import Console, ConsoleDimensions, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook
from rich.segment import Segment
from rich.text import Text

from harness.core.unicode import visible
from harness.report.terminal.table import PIPED

_NO_LIMIT = 2 * PIPED
"""The width of what has none."""
_COLUMNS = re.compile("[1-9][0-9]{0,3}")
_USUAL_WIDTH, _USUAL_HEIGHT = 80, 25
"""Of a terminal that does not say how large it is."""


def stdout() -> Console:
    """Return a console for results.

    It is as wide as COLUMNS says, else as the terminal; with --wide as what is printed, and in a pipe, too, where texts
    in tables are cut.
    """
    context = click.get_current_context(silent=True)
    if context and context.params.get("wide"):
        return _VisibleConsole(width=_NO_LIMIT)
    return _VisibleConsole(width=_columns() or (None if sys.stdout.isatty() else PIPED))


def print_lines(lines: Callable[[int], Iterable[RenderableType]]) -> None:
    """Print a result: what `lines` makes for the width of the console."""
    console = stdout()
    for line in lines(console.width):
        console.print(line)


def _columns() -> int | None:
    """Return what COLUMNS says; None where it says nothing."""
    return int(columns) if _COLUMNS.fullmatch(columns := _environ().get("COLUMNS", "")) else None


def _environ() -> Mapping[str, str]:
    context = click.get_current_context(silent=True)
    return cast("Mapping[str, str]", (context and context.obj) or {})


def stderr(*, quiet: bool = False) -> Console:
    """Return a console for what is not the result; without a terminal its lines are not wrapped."""
    width = _columns() or (None if sys.stderr.isatty() else _NO_LIMIT)
    return _VisibleConsole(width=width, stderr=True, quiet=quiet)


class _VisibleConsole(Console):
    """Marks what a terminal would obey: in strings before they are laid out, and in all that is written.

    rich drops some control characters without a trace, so strings are marked before rich sees them.
    """

    def __init__(self, **options: Any) -> None:
        colours = None if _environ().get("NO_COLOR") else "auto"
        super().__init__(**options, color_system=colours, highlight=False, markup=False, emoji=False)
        self.push_render_hook(_Marking())

    def on_broken_pipe(self) -> None:
        """Let the error reach the command, which may have more to do; rich would end the process here."""
        raise  # noqa: PLE0704 - rich calls this where it has caught the error

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


class TerminalConsole(_VisibleConsole):
    """A console on an open file descriptor, a terminal: as wide as COLUMNS says, else as that is at any time."""

    def __init__(self, descriptor: int, encoding: str) -> None:
        """Write there; nothing is closed at the end."""
        self._descriptor, self._columns = descriptor, _columns()
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
