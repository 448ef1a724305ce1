"""Queries from the outside: one text, or a file of them (JSONL, CSV, plain lines, or `-` for standard input)."""

import csv
import hashlib
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from harness.core.errors import UsageError
from harness.core.records import Query
from harness.transcripts import valid_unicode

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
        text = sys.stdin.read() if source == "-" else Path(source).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"--queries {source}: cannot be read ({getattr(exc, 'strerror', None) or exc})") from None
    text, ending = text.removeprefix("\ufeff"), Path(source).suffix.lower()
    if ending == ".csv":
        yield from _rows(text, source)
        return
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines: JSON may hold U+2028 and its like
        if line.strip():
            yield number, _from_line(line, f"{source}:{number}", jsonl=ending in {".jsonl", ".ndjson"})


def _rows(text: str, source: str) -> Iterator[tuple[int, Query]]:
    rows = csv.DictReader(io.StringIO(text), restkey="")
    try:
        for row in rows:
            where = f"{source}:{rows.line_num}"
            if isinstance(row.get(""), list):
                raise UsageError(f"{where}: more fields than the first line names; a text with commas needs quotes")
            yield rows.line_num, _from_mapping({k: v for k, v in row.items() if v}, where)
    except csv.Error as exc:
        raise UsageError(f"{source}:{rows.line_num + 1}: {exc}") from None


def _from_line(line: str, where: str, *, jsonl: bool) -> Query:
    line = line.strip()
    value: Any = line
    if jsonl or line.startswith(("{", '"')):
        try:
            value = _json(line)
        except (ValueError, RecursionError) as exc:
            if jsonl or line.startswith("{"):  # else a plain line that begins with a quotation
                raise UsageError(f"{where}: not JSON ({exc})") from None
    if isinstance(value, str) and not value.strip():
        raise UsageError(f"{where}: the query is empty")
    if isinstance(value, str):
        return query_from(value)
    if not isinstance(value, dict):
        raise UsageError(f"{where}: expected an object or a string, found {type(value).__name__}")
    return _from_mapping(cast("dict[str, Any]", value), where)


def _from_mapping(row: dict[str, Any], where: str) -> Query:
    key = next((k for k in _TEXT_KEYS if _asks(row.get(k))), None)
    if key is None:
        names = " or ".join(repr(k) for k in _TEXT_KEYS)
        raise UsageError(f"{where}: no text under {names} (a list of the SDK's input items does as well)")
    reference = next((str(row[k]) for k in _REFERENCE_KEYS if row.get(k) is not None), None)
    rest = {k: v for k, v in row.items() if k not in {key, "id", *_REFERENCE_KEYS}}
    given = "" if row.get("id") is None else str(row["id"])
    if isinstance(row[key], str):
        return query_from(row[key], reference=reference, id=given).model_copy(update={"metadata": rest})
    items = _items(row[key], where)
    known = given or _id(json.dumps(row[key], sort_keys=True))
    return Query(id=known, text=items_text(items), items=items, reference=reference, metadata=rest)


def _asks(value: Any) -> bool:
    return bool(value.strip()) if isinstance(value, str) else isinstance(value, list) and value != []


def items_text(items: Sequence[Mapping[str, Any]]) -> str:
    """Return the SDK's input items as text for people and judges: who said what; images and files by name."""
    if len(items) == 1 and items[0].get("role") == "user":
        return _content(items[0].get("content"))
    return "\n\n".join(
        f"{i.get('role') or i.get('type')}: {_content(i.get('content', i.get('output')))}" for i in items
    )


def _content(content: Any) -> str:
    if not isinstance(content, list):
        return str("" if content is None else content)
    parts = cast("list[Mapping[str, Any]]", content)
    return "\n".join(_part(p) for p in parts)


def _part(part: Mapping[str, Any]) -> str:
    name = part.get("filename") or part.get("file_id") or str(part.get("image_url") or part.get("file_url") or "")[:80]
    return str(part.get("text") or f"[{part.get('type', 'part')} {name}]")


def _items(found: Sequence[Any], where: str) -> tuple[Mapping[str, Any], ...]:
    for item in found:
        shown = str(item)[:60]
        if not isinstance(item, dict) or not {"role", "type"} & cast("dict[str, Any]", item).keys():
            raise UsageError(f"{where}: an input item must be an object with a role or a type, not {shown!r}")
    return tuple(found)


def _json(line: str) -> Any:
    """Read JSON. Raises ValueError also for NaN and infinities; half a surrogate pair becomes U+FFFD."""
    return json.loads(valid_unicode(json.dumps(json.loads(line), ensure_ascii=False, allow_nan=False)))


def _id(text: str) -> str:
    return "q" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
