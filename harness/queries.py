"""Queries from the outside: one text, or a file of them (JSONL, CSV, plain lines, or `-` for standard input)."""

import csv
import hashlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from harness.errors import UsageError
from harness.records import Query

_TEXT_KEYS = ("query", "text", "input", "question", "prompt")
_REFERENCE_KEYS = ("reference", "expected", "answer")


def query_from(text: str, *, reference: str | None = None, id: str | None = None) -> Query:  # noqa: A002
    """Return a query. Its id is made from its text unless given. Raises UsageError for an empty text."""
    if not text.strip():
        raise UsageError("the query is empty; give some text, or leave it out for the agent's own example")
    return Query(id=id or _id(text), text=text, reference=reference)


def read_queries(source: str) -> Iterator[Query]:
    """Yield the queries of a file, as they are read; `-` is standard input.

    JSONL: one object a line with "query" and optionally "id", "reference" and anything else (kept as metadata), or
    one string a line. CSV (by its ending): a column "query", the others alike. Any other text: one query a line.
    Raises UsageError naming file and line for what cannot be read, an empty query, or an id used twice.
    """
    seen: set[str] = set()
    for number, query in _numbered(source):
        if query.id in seen:
            raise UsageError(f"{source}:{number}: the query id {query.id!r} stands there twice")
        seen.add(query.id)
        yield query
    if not seen:
        raise UsageError(f"--queries {source}: no query in it")


def _numbered(source: str) -> Iterator[tuple[int, Query]]:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"--queries {source}: cannot be read ({getattr(exc, 'strerror', None) or exc})") from None
    if source.endswith(".csv"):
        rows = csv.DictReader(io.StringIO(text))
        for row in rows:
            yield rows.line_num, _from_mapping({k: v for k, v in row.items() if v}, f"{source}:{rows.line_num}")
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield number, _from_line(line, f"{source}:{number}", jsonl=source.endswith((".jsonl", ".ndjson")))


def _from_line(line: str, where: str, *, jsonl: bool) -> Query:
    value: Any = line.strip()
    if jsonl or line.lstrip().startswith(("{", '"')):
        try:
            value = json.loads(line)
        except ValueError as exc:
            raise UsageError(f"{where}: not JSON ({exc})") from None
    if isinstance(value, str):
        return query_from(value)
    if not isinstance(value, dict):
        raise UsageError(f"{where}: expected an object or a string, found {type(value).__name__}")
    return _from_mapping(cast("dict[str, Any]", value), where)


def _from_mapping(row: dict[str, Any], where: str) -> Query:
    key = next((k for k in _TEXT_KEYS if isinstance(row.get(k), str) and row[k].strip()), None)
    if key is None:
        raise UsageError(f"{where}: no text under {' or '.join(repr(k) for k in _TEXT_KEYS)}")
    reference = next((str(row[k]) for k in _REFERENCE_KEYS if row.get(k) is not None), None)
    rest = {k: v for k, v in row.items() if k not in {key, "id", *_REFERENCE_KEYS}}
    return Query(id=str(row.get("id") or _id(row[key])), text=row[key], reference=reference, metadata=rest)


def _id(text: str) -> str:
    return "q" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
