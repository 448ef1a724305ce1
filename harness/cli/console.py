"""Tables and colours on a terminal, in which nothing is hidden and no text is taken for markup."""

import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook
from rich.segment import Segment
from rich.text import Text

from harness.core.unicode import visible

_WIDTH_WITHOUT_TERMINAL = 140


def stdout() -> Console:
    """Return a console for results; wide enough for a table where nobody's terminal sets the width."""
    return _VisibleConsole(width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL)


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
