"""What a comparison is written to beside its page: Markdown for a pull request, and every match as CSV."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from harness.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.archive.comparison_reader import ComparisonReader
    from harness.core.comparisons import Comparison

_MARKDOWN = click.option(
    "--markdown",
    metavar="FILE",
    type=options.FILE,
    help="Of a comparison: write verdict, figures and the ten worst losses as Markdown.",
)
_CSV = click.option(
    "--csv", metavar="FILE", type=options.FILE, help="Of a comparison: write every match as a line of CSV."
)


def file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name the files, `markdown` and `csv`."""
    return _MARKDOWN(_CSV(command))


@dataclass(frozen=True)
class ComparisonFiles:
    """The files that a user asked for."""

    markdown: Path | None = None
    csv: Path | None = None

    def check(self) -> None:
        """Raise CannotWrite if one of them could not be written."""
        from harness.cli.new_files import check_writable

        check_writable(self.markdown, self.csv)

    def write(self, reader: ComparisonReader, comparison: Comparison) -> None:
        """Write them, over what is there. Raises CannotWrite."""
        from harness.cli.new_files import write_new
        from harness.report.csv import matches_csv
        from harness.report.markdown import comparison_markdown

        if self.markdown:
            write_new(self.markdown, comparison_markdown(comparison, reader.queries()), force=True)
        if self.csv:
            write_new(self.csv, "".join(matches_csv(comparison, reader.queries())), force=True)
