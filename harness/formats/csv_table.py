"""The rows of a CSV file, by the names in its first line."""

import csv
from collections.abc import Iterator

from harness.core.errors import UsageError

_LONGEST_FIELD = 256 << 20
"""Characters of a field; Python's own limit is 128 Ki."""


def csv_rows(lines: Iterator[str], name: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number of each row's line, and its fields that are not empty. Raises UsageError naming the line."""
    rows = csv.DictReader(lines, restkey="")
    while True:
        before = csv.field_size_limit(_LONGEST_FIELD)
        try:
            row = next(rows, None)
        except csv.Error as exc:
            raise UsageError(f"{name}:{rows.line_num + 1}: {exc}") from None
        finally:  # the limit is the whole process's
            csv.field_size_limit(before)
        if row is None:
            return
        if isinstance(row.get(""), list):
            raise UsageError(
                f"{name}:{rows.line_num}: more fields than the first line names; a text with commas needs quotes"
            )
        yield rows.line_num, {column: field for column, field in row.items() if field}
