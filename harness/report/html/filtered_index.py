"""A table of queries that is filtered and sorted in the page: its filters, and the one script that a page may run."""

import hashlib
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.report.html.facts import page_template

_FIELDS = 5
"""Fields of the metadata that an index can be filtered by."""
_VALUES = 20
"""Different values of a field above which nobody picks one of them from a list."""
_SHOWN = 6
"""Fields of the metadata that a row shows."""

Metadata = Mapping[str, float | str]
"""What came with a query: numbers, and the beginnings of all else as text."""


@dataclass(frozen=True)
class Filter:
    """A field of the metadata that rows can be filtered by."""

    attribute: str
    label: str
    values: Sequence[str]


def index_filters(rows: Sequence[Metadata]) -> list[Filter]:
    """Return the fields of the metadata that have few different values, the most common fields first."""
    named = Counter(name for metadata in rows for name in metadata)
    values = {name: {_words(metadata[name]) for metadata in rows if name in metadata} for name in named}
    picked = [name for name, _ in named.most_common() if 1 < len(values[name]) <= _VALUES][:_FIELDS]
    return [Filter(f"m{i}", name, sorted(values[name])) for i, name in enumerate(picked)]


@dataclass(frozen=True)
class RowMetadata:
    """The metadata of a row: what it is filtered by, each under the name of an attribute, and what it shows."""

    chosen: Mapping[str, str]
    shown: Sequence[tuple[str, str]]


def row_metadata(metadata: Metadata, filters: Sequence[Filter]) -> RowMetadata:
    """Return what the row of a query has of the query's metadata."""
    return RowMetadata(
        chosen={f.attribute: _words(metadata[f.label]) for f in filters if f.label in metadata},
        shown=[(name, _words(value)) for name, value in metadata.items()][:_SHOWN],
    )


def _words(value: float | str) -> str:
    return value[:40] if isinstance(value, str) else f"{value:g}"


def script_hash() -> str:
    """Return the hash by which a page's policy admits the script of its index, and no other."""
    script = page_template("index_controls.js").render().encode()
    return b64encode(hashlib.sha256(script).digest()).decode()
