"""Queries from the outside: one text, or a file of them (JSONL, CSV, plain lines, or `-` for standard input)."""

import csv
import hashlib
import io
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import JsonValue

from harness.core.errors import UsageError
from harness.core.records import Query
from harness.core.unicode import valid_unicode
from harness.formats.json_values import JsonObject, parse_json, text_in

_TEXT_KEYS = ("query", "text", "input", "question", "prompt")
_REFERENCE_KEYS = ("reference", "expected", "answer")


def query_from(text: str, *, reference: str | None = None, id: str | None = None) -> Query:  # noqa: A002
    """Return a query. Its id is made from its text unless given. Raises UsageError for an empty text."""
    if not text.strip():
        raise UsageError("the query is empty; give some text, or leave it out for the agent's own example")
    reference = None if reference is None else valid_unicode(reference)
    return Query(id=valid_unicode(id or _id(text)), text=valid_unicode(text), reference=reference)


def read_queries(source: str) -> Iterator[Query]:
    """Yield the queries of a file, as they are read; `-` is standard input.

    JSONL: one object a line with "query" and optionally "id", "reference" and anything else (kept as metadata), or
    one string a line. CSV (by its ending): a column "query", the others alike. Any other text: one query a line.
    Raises UsageError naming file and line for what cannot be read, an empty query, or an id used twice.
    """
    ids: set[str] = set()
    for number, query in _numbered(source):
        if query.id in ids:
            raise UsageError(f"{source}:{number}: the query id {query.id!r} stands there twice")
        ids.add(query.id)
        yield query
    if not ids:
        raise UsageError(f"--queries {source}: no query in it")


def _numbered(source: str) -> Iterator[tuple[int, Query]]:
    """Yield the queries with their line numbers."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"--queries {source}: cannot be read ({getattr(exc, 'strerror', None) or exc})") from None
    text, ending = text.removeprefix("\ufeff"), Path(source).suffix.lower()
    if ending == ".csv":
        yield from _rows(text, source)
        return
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines: JSON may hold U+2028 and its like
        if line.strip():
            yield number, _from_line(line.strip(), f"{source}:{number}", jsonl=ending in {".jsonl", ".ndjson"})


def _rows(text: str, source: str) -> Iterator[tuple[int, Query]]:
    rows = csv.DictReader(io.StringIO(text), restkey="")
    try:
        for row in rows:
            place = f"{source}:{rows.line_num}"
            if isinstance(row.get(""), list):
                raise UsageError(f"{place}: more fields than the first line names; a text with commas needs quotes")
            yield rows.line_num, _from_object({name: field for name, field in row.items() if field}, place)
    except csv.Error as exc:
        raise UsageError(f"{source}:{rows.line_num + 1}: {exc}") from None


def _from_line(line: str, place: str, *, jsonl: bool) -> Query:
    value = _line_value(line, place, jsonl=jsonl)
    if isinstance(value, str):
        if not value.strip():
            raise UsageError(f"{place}: the query is empty")
        return query_from(value)
    if not isinstance(value, dict):
        raise UsageError(f"{place}: expected an object or a string, found {type(value).__name__}")
    return _from_object(value, place)


def _line_value(line: str, place: str, *, jsonl: bool) -> JsonValue:
    """Return what a line holds: JSON where it must be or looks like JSON, else the line itself."""
    if not jsonl and not line.startswith(("{", '"')):
        return line
    try:
        return parse_json(line)
    except (ValueError, RecursionError) as exc:
        if jsonl or line.startswith("{"):
            raise UsageError(f"{place}: not JSON ({exc})") from None
        return line  # a plain line that begins with a quotation


def _from_object(row: JsonObject, place: str) -> Query:
    key = next((name for name in _TEXT_KEYS if _holds_query(row.get(name))), None)
    if key is None:
        names = " or ".join(repr(name) for name in _TEXT_KEYS)
        raise UsageError(f"{place}: no text under {names} (a list of the SDK's input items does as well)")
    reference = next((str(row[name]) for name in _REFERENCE_KEYS if row.get(name) is not None), None)
    metadata = {name: value for name, value in row.items() if name not in {key, "id", *_REFERENCE_KEYS}}
    id_given, content = text_in(row, "id"), row[key]
    if isinstance(content, list):
        items = _items(content, place)
        id_made = id_given or _id(json.dumps(content, sort_keys=True))
        return Query(id=id_made, text=items_text(items), items=items, reference=reference, metadata=metadata)
    query = query_from(str(content), reference=reference, id=id_given)
    return query.model_copy(update={"metadata": metadata})


def _holds_query(value: JsonValue) -> bool:
    return bool(value.strip()) if isinstance(value, str) else isinstance(value, list) and value != []


def items_text(items: Sequence[JsonObject]) -> str:
    """Return the SDK's input items as text for people and judges: who said what; images and files by name."""
    if len(items) == 1 and items[0].get("role") == "user":
        return _content(items[0].get("content"))
    return "\n\n".join(
        f"{item.get('role') or item.get('type')}: {_content(item.get('content', item.get('output')))}" for item in items
    )


def _content(content: JsonValue) -> str:
    if not isinstance(content, list):
        return str("" if content is None else content)
    return "\n".join(_part(part) for part in content)


def _part(part: JsonValue) -> str:
    if not isinstance(part, dict):
        return str(part)
    name = part.get("filename") or part.get("file_id") or str(part.get("image_url") or part.get("file_url") or "")[:80]
    return str(part.get("text") or f"[{part.get('type', 'part')} {name}]")


def _items(values: Sequence[JsonValue], place: str) -> tuple[JsonObject, ...]:
    items: list[JsonObject] = []
    for value in values:
        if not isinstance(value, dict) or not {"role", "type"} & value.keys():
            raise UsageError(f"{place}: an input item must be an object with a role or a type, not {str(value)[:60]!r}")
        items.append(value)
    return tuple(items)


def _id(text: str) -> str:
    return "q" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
