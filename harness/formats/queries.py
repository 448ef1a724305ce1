"""Queries from the outside: one text, or a file of them (JSONL, CSV, plain lines, or `-` for standard input)."""

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from harness.core.errors import UsageError, did_you_mean, on_a_line, option, quoted
from harness.core.group_cache import Packed
from harness.core.records import Query
from harness.core.setting import shard_in
from harness.core.unicode import valid_unicode, visible
from harness.core.user_files import is_file, text_lines
from harness.formats import json_values


class PackedQueries(Packed[Query]):
    """Queries of a file, each unpacked when it is asked for: of 40 characters in 130 bytes, where an object takes 800.

    Their items and metadata are what JSON gave: lists, dicts, texts and numbers.
    """

    def __init__(self, queries: Iterable[Query]) -> None:
        """Pack the queries as they come."""
        names = tuple(Query.model_fields)
        super().__init__(
            attrgetter(*names), lambda values: Query.model_construct(**dict(zip(names, values, strict=True))), queries
        )


Queries = Sequence[Query] | Iterator[Query]


def in_shard(queries: Queries, shard: str | None) -> Queries:
    """Return the queries that fall into a shard such as `3/8`, in their order; None: all. A stream stays a stream."""
    if shard is None:
        return queries
    part = shard_in(shard)
    chosen = (query for query in queries if part.holds(query.id))
    return chosen if isinstance(queries, Iterator) else list(chosen)


_ROLES = ("assistant", "developer", "system", "tool", "user")


def items_of_messages(messages: Sequence[JsonValue]) -> tuple[json_values.JsonObject, ...]:
    """Return the input items of a conversation. Raises ValueError saying what is wrong with a message."""
    items: list[json_values.JsonObject] = []
    for message in json_values.objects_of_kinds([*messages], "message", "role", _ROLES):
        role, content = message["role"], message.get("content")
        if role == "tool":
            call_id = str(message.get("tool_call_id"))
            items.append({"type": "function_call_output", "call_id": call_id, "output": _text(content)})
            continue
        if content not in (None, "", []):
            items.append({"role": role, "content": _text(content) if role == "assistant" else _input_content(content)})
        for call in json_values.objects_in(message, "tool_calls"):
            function = json_values.object_in(call, "function")
            if not function.get("name"):
                raise ValueError("a tool call without a name")
            named: json_values.JsonObject = {
                "name": str(function["name"]),
                "arguments": str(function.get("arguments") or "{}"),
            }
            items.append({"type": "function_call", "call_id": str(call.get("id"))} | named)
    return tuple(items)


def _input_content(content: JsonValue) -> JsonValue:
    """Return content with its parts as the SDK's input items have them."""
    if not isinstance(content, list):
        return content
    parts: list[JsonValue] = []
    for part in content:
        match part:
            case {"type": "text", "text": text}:
                parts.append({"type": "input_text", "text": text})
            case {"type": "image_url", "image_url": {"url": url, **more}}:
                parts.append({"type": "input_image", "image_url": url, "detail": more.get("detail", "auto")})
            case {"type": "image_url", "image_url": str(url)}:
                parts.append({"type": "input_image", "image_url": url, "detail": "auto"})
            case {"type": "file", "file": dict(file)}:
                parts.append({"type": "input_file"} | file)
            case _:
                parts.append(part)
    return parts


def _text(content: JsonValue) -> str:
    if not isinstance(content, list):
        return str("" if content is None else content)
    return "\n".join(str(part.get("text") or part.get("refusal") or "") for part in content if isinstance(part, dict))


_TEXT_KEYS = ("query", "text", "input", "question", "prompt")
_REFERENCE_KEYS = ("reference", "expected", "answer", "target")
_LONGEST_ID = 200
_SURELY = 0.8
"""How alike a name and a misspelt one are (difflib's ratio): `qurey` and `query`, not `context` and `text`."""
_OF_OTHERS = {".ipynb", ".py", ".toml", ".xml", ".yaml", ".yml"}
"""Endings of texts whose lines are no queries."""
_FILE = re.compile(r"\S+\.(csv|json|jsonl|md|ndjson|py|py:\w+|tsv|txt)")


def query_from(text: str, *, reference: str | None = None, id: str | None = None, place: str = "") -> Query:  # noqa: A002
    """Return a query. Its id is made from its text unless given.

    Raises UsageError, which begins with the `place`, for an empty text or an unfit id.
    """
    if not text.strip():
        raise UsageError(f"{place}the query is empty; give some text")
    reference = None if reference is None else valid_unicode(reference)
    return Query(id=_checked_id(id, place) if id else _id(text), text=valid_unicode(text), reference=reference)


def _checked_id(query_id: str, place: str = "") -> str:
    """Return the id that a file names. It stands in tables and is typed: short, on one line, with nothing hidden."""
    query_id = valid_unicode(query_id)
    shown = f"{place}the query id {quoted(query_id)}"
    if len(query_id) > _LONGEST_ID:
        raise UsageError(f"{shown} has {len(query_id):,} characters; at most {_LONGEST_ID} fit")
    if visible(query_id) != query_id or "\n" in query_id or "\t" in query_id:
        raise UsageError(f"{shown} holds a character that is not shown or breaks the line")
    return query_id


def read_queries(source: str) -> Iterator[Query]:
    """Return the queries of a file, as they are read; `-` is standard input.

    JSONL: one object a line with "query" (or chat "messages") and optionally "id", "reference" and anything else (kept
    as metadata), or one string a line. CSV (.csv, .tsv, or a first line with such names): a column "query", the others
    alike. Any other text: one query a line. Raises UsageError naming file and line for what cannot be read, an empty
    query, or an id used twice.
    """
    name = on_a_line(source)
    for at, query in enumerate(_each_once(_placed(source, name), f"{option('queries', name)}: no query in it")):
        for key in query.metadata if at == 0 and query.reference is None else ():
            if meant := did_you_mean(key.lower(), _REFERENCE_KEYS, _SURELY):
                log = logging.getLogger("arena-harness")
                log.warning("%s: %s is metadata, which no judge sees%s", name, quoted(key), meant)
        yield query


def named_file(text: str) -> str | None:
    """Return `is a file`, or that it names one that is not there, of a text that is a file's name; else None."""
    if is_file(Path(re.sub(r"\.py:\w+$", ".py", text))):
        return "is a file"
    return "names a file that is not there" if _FILE.fullmatch(text) else None


Asked = str | Query | Mapping[str, JsonValue] | Path
"""A query in Python: its text, a Query, or an object as a line of a JSONL file; or the path of a file of queries."""


def make_queries(asked: Asked | Iterable[Asked]) -> Sequence[Query] | Iterator[Query]:
    """Return the queries that a Python caller names, one or many; those of an iterator come as they are asked for.

    Raises UsageError as `read_queries`; the place of a query among many is counted from 0.
    """
    if isinstance(asked, Path):
        return list(read_queries(str(asked)))
    if isinstance(asked, str) and (what := named_file(asked)):
        ways = "Path(...) asks what is in a file, {'query': ...} the text itself"
        raise UsageError(f"the query {quoted(asked)} {what}: {ways}")
    if isinstance(asked, str | Query | Mapping):
        return [_make_query(asked, "")]
    if not isinstance(asked, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not check types
        raise UsageError(f"queries are a text, a Query, a mapping, a Path, or several of them, not {quoted(asked)}")
    placed = ((f"query {at}", _make_query(one, f"query {at}: ")) for at, one in enumerate(asked))
    queries = _each_once(placed, "there is no query: give one at least")
    return queries if isinstance(asked, Iterator) else list(queries)


def _make_query(asked: Any, place: str) -> Query:
    if isinstance(asked, Query):
        return asked
    if isinstance(asked, str):
        return query_from(asked, place=place)
    if not isinstance(asked, Mapping):
        raise UsageError(f"{place}a query is a text, a Query or a mapping, not a {type(asked).__name__}")
    try:
        row: json_values.JsonObject = json.loads(json.dumps(dict(cast("Mapping[str, Any]", asked)), allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise UsageError(f"{place}the query holds something that is no JSON") from None
    return _from_object(row, place.removesuffix(": ") or "the query")


def _each_once(placed: Iterable[tuple[str, Query]], if_none: str) -> Iterator[Query]:
    """Yield queries. Raises UsageError where an id comes again, naming the place; `if_none` where there is none."""
    ids: set[str] = set()
    for place, query in placed:
        if query.id in ids:
            raise UsageError(
                f"{place}: the query id {query.id!r} stands there twice, here of {quoted(query.text)}; give each query "
                "an id of its own"
            )
        ids.add(query.id)
        yield query
    if not ids:
        raise UsageError(if_none)


def _placed(source: str, name: str) -> Iterator[tuple[str, Query]]:
    """Yield the queries with their places."""
    ending = Path(source).suffix.lower()
    if ending in _OF_OTHERS:
        raise UsageError(
            f"{option('queries', name)}: {ending} is no file of queries; give .jsonl, .csv, or lines of .txt"
        )
    lines = text_lines(None if source == "-" else Path(source), option("queries", name))
    first = next(lines, (1, ""))
    header, lines = re.split("[,;\t]", first[1].strip().replace('"', "")), chain([first], lines)
    if ending in {".csv", ".tsv"} or (len(header) > 1 and not {*_TEXT_KEYS}.isdisjoint(header)):
        for number, row in json_values.csv_rows((line for _, line in lines), name):
            yield f"{name}:{number}", _from_object(dict(row), f"{name}:{number}")
        return
    for number, line in lines:
        if line.strip():
            place = f"{name}:{number}"
            yield place, _from_line(line.strip(), place, jsonl=ending in {".json", ".jsonl", ".ndjson"})


def _from_line(line: str, place: str, *, jsonl: bool) -> Query:
    """Return the query of a line: of JSON where it must be or looks like JSON, else the line itself."""
    value: JsonValue = line
    each = "; an object a line, as `jq -c '.[]'` writes a list" if line.startswith("[") else ""
    if jsonl or line.startswith(("{", '"')):
        try:
            value = json_values.parse_json(line)
        except ValueError as exc:
            if jsonl or line.startswith("{"):  # else a plain line that begins with a quotation
                raise UsageError(f"{place}: not JSON ({on_a_line(exc)}){each}") from None
    if isinstance(value, str):
        return query_from(value, place=f"{place}: ")
    if not isinstance(value, dict):
        raise UsageError(f"{place}: expected an object or a string, found {type(value).__name__}{each}")
    return _from_object(value, place)


def _from_object(row: json_values.JsonObject, place: str) -> Query:
    texts = {name: value for name in _TEXT_KEYS if isinstance(value := row.get(name), str | list)}
    key = next((name for name, value in texts.items() if (value.strip() if isinstance(value, str) else value)), None)
    messages = row.get("messages")
    if key is None and isinstance(messages, list):
        key, row = "query", _with_items(row, messages, place)
    if key is None:
        names = " or ".join(repr(name) for name in _TEXT_KEYS)
        meant = next(filter(None, (did_you_mean(name.lower(), _TEXT_KEYS, _SURELY) for name in row)), "")
        raise UsageError(
            f"{place}: no text under {names} (a list of the SDK's input items does as well), "
            f"and no chat messages under 'messages'; there are: {quoted(', '.join(row))}{meant}"
        )
    reference = next((str(row[name]) for name in _REFERENCE_KEYS if row.get(name) is not None), None)
    metadata = {name: value for name, value in row.items() if name not in {key, "id", *_REFERENCE_KEYS}}
    id_given, content = json_values.text_in(row, "id"), row[key]
    if not isinstance(content, list):
        query = query_from(str(content), reference=reference, id=id_given, place=f"{place}: ")
        return query.model_copy(update={"metadata": metadata})
    items: list[json_values.JsonObject] = []
    for value in content:
        if not isinstance(value, dict) or not {"role", "type"} & value.keys():
            raise UsageError(f"{place}: an input item must be an object with a role or a type, not {quoted(value)}")
        items.append(value)
    id_made = _checked_id(id_given, f"{place}: ") if id_given else _id(json.dumps(content, sort_keys=True))
    return Query(id=id_made, text=items_text(items), items=tuple(items), reference=reference, metadata=metadata)


def _with_items(row: json_values.JsonObject, messages: list[JsonValue], place: str) -> json_values.JsonObject:
    """Return a row of chat messages with the SDK's input items as its query.

    A last message of the assistant's is the answer to the conversation: the reference, where none is named.
    """
    rest = {name: value for name, value in row.items() if name != "messages"}
    last = messages[-1] if messages else None
    if isinstance(last, dict) and last.get("role") == "assistant" and not last.get("tool_calls"):
        messages = messages[:-1]
        if not any(row.get(name) is not None for name in _REFERENCE_KEYS):
            rest |= {"reference": _content(last.get("content"))}
    try:
        items = items_of_messages(messages) if messages else ()
    except ValueError as exc:
        raise UsageError(f"{place}: {on_a_line(exc)}") from None
    if not any(item.get("role") == "user" for item in items):
        raise UsageError(f"{place}: no message is a user's")
    content: list[JsonValue] = [dict(item) for item in items]
    return rest | {"query": content}


def items_text(items: Sequence[json_values.JsonObject]) -> str:
    """Return the SDK's input items as text for people and judges: who said what; images and files by name."""
    if len(items) == 1 and items[0].get("role") == "user":
        return _content(items[0].get("content"))
    return "\n\n".join(
        f"{item.get('role') or item.get('type')}: {_content(item.get('content', item.get('output')))}" for item in items
    )


def _content(content: JsonValue) -> str:
    if not isinstance(content, list):
        return str("" if content is None else content)
    texts: list[str] = []
    for part in content:
        if isinstance(part, dict):
            url = str(part.get("image_url") or part.get("file_url") or "")[:80]
            name = part.get("filename") or part.get("file_id") or url
            texts.append(str(part.get("text") or f"[{part.get('type', 'part')} {name}]"))
        else:
            texts.append(str(part))
    return "\n".join(texts)


def _id(text: str) -> str:
    return "q" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
