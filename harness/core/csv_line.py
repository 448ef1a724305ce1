"""A line of CSV that a spreadsheet shows as it is."""

import csv
import io
from collections.abc import Iterable
from typing import Any

from harness.core.unicode import valid_unicode

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a text begins that a spreadsheet would take for a formula."""


def csv_line(cells: Iterable[Any]) -> str:
    """Return cells as a line, with its line break; a text that a spreadsheet takes for a formula gets an apostrophe.

    Numbers are not guarded, so that a negative one stays a number.
    """
    line = io.StringIO()
    safe = (f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in cells)
    csv.writer(line, lineterminator="\n").writerow(safe)
    return valid_unicode(line.getvalue())
