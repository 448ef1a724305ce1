"""JSON and CSV as others write them: reading them, and taking values of a known kind out.

What is not of that kind raises ValueError with a sentence that the reader of the file puts the place in front of.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, takewhile

from pydantic import JsonValue, TypeAdapter, ValidationError

from harness.core.errors import UsageError, quoted
from harness.core.unicode import valid_unicode

JsonObject = Mapping[str, JsonValue]

_DEEPEST = 100
_TOO_DEEP = f"nested more than {_DEEPEST} deep"
_NUMBER: TypeAdapter[float | None] = TypeAdapter(float | None)


def parse_json(text: str) -> JsonValue:
    """Read JSON; half a surrogate pair becomes U+FFFD.

    Raises ValueError for what is not JSON, for NaN and for infinities, and for what is nested more than 100 deep: what
    reads or writes it later goes down by recursion.
    """
    try:
        value: JsonValue = json.loads(text)
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(_DEEPEST + 1):
        if not level:
            break
        inner = (each for outer in level for each in (outer.values() if isinstance(outer, dict) else outer))
        level = [each for each in inner if isinstance(each, dict | list)]
    if level:
        raise ValueError(_TOO_DEEP)
    valid = valid_unicode(written)
    return value if valid == written else json.loads(valid)


def length_in_common(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many values, such as characters or messages, two sequences begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def object_in(parent: JsonObject, name: str) -> JsonObject:
    """Return the object under `name`; an empty one where there is none."""
    value = parent.get(name) or {}
    if not isinstance(value, dict):
        raise ValueError(f"`{name}` must be an object, not a {type(value).__name__}")  # noqa: TRY004 - a fault of the file
    return value


def objects_in(parent: JsonObject, name: str) -> Sequence[JsonObject]:
    """Return the list of objects under `name`; an empty one where there is none."""
    value = parent.get(name) or []
    if not isinstance(value, list):
        raise ValueError(f"`{name}` must be a list, not a {type(value).__name__}")  # noqa: TRY004 - as above
    objects = [item for item in value if isinstance(item, dict)]
    if len(objects) < len(value):
        raise ValueError(f"`{name}` must hold objects only")
    return objects


def objects_of_kinds(values: JsonValue, name: str, key: str, kinds: Sequence[str]) -> list[JsonObject]:
    """Return a list of messages or steps (`name`), each of which says one of some kinds under `key`."""
    if not isinstance(values, list) or not values:
        raise ValueError(f"`{name}s` must be a list of {name}s")
    objects: list[JsonObject] = []
    for number, value in enumerate(values, 1):
        kind = value.get(key) if isinstance(value, dict) else None
        if not isinstance(value, dict) or kind not in kinds:
            raise ValueError(f"{name} {number} has the {key} {quoted(kind)}, not one of {', '.join(kinds)}")
        objects.append(value)
    return objects


def number_in(parent: JsonObject, name: str) -> float | None:
    """Return the number under `name`; None where there is none."""
    try:
        return _NUMBER.validate_python(parent.get(name))
    except ValidationError as exc:
        raise ValueError(f"{name}: {exc.errors()[0]['msg']}") from None


def first_fault(exc: ValidationError) -> str:
    """Return the first thing that is wrong with a value, after its place in it."""
    first = exc.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def text_in(parent: JsonObject, name: str) -> str | None:
    """Return the value under `name` as text; None where there is none."""
    value = parent.get(name)
    return None if value is None else str(value)


_LONGEST_FIELD = 256 << 20
"""Characters of a field; Python's own limit is 128 Ki."""


def csv_rows(lines: Iterator[str], name: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number of each row's line, and its fields that are not empty. Raises UsageError naming the line."""
    header = next(lines, "")  # what stands in it most often is between the fields
    ends_fields = max(",;\t", key=re.sub('"[^"]*"', "", header).count)
    rows = csv.DictReader(chain([header], lines), restkey="", delimiter=ends_fields)
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
        names = (f"{n}".strip() for n in rows.fieldnames or ())
        (column, times), *_ = Counter(filter(None, names)).most_common(1) or [("", 1)]
        if times > 1:
            raise UsageError(f"{name}:1: two columns are named {quoted(column)}")
        if isinstance(row.get(""), list):
            many = f"{name}:{rows.line_num}: more fields than the first line names"
            raise UsageError(f"{many}; a text that holds {ends_fields!r} needs quotes")
        yield rows.line_num, {column.strip(): field for column, field in row.items() if field}
