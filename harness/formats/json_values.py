"""JSON as others write it: reading it, and taking values of a known kind out of an object.

What is not of that kind raises ValueError with a sentence that the reader of the file puts the place in front of.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue, TypeAdapter, ValidationError

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
    _check_depth(value)
    valid = valid_unicode(written)
    return value if valid == written else json.loads(valid)


def _check_depth(value: JsonValue) -> None:
    level: list[JsonValue] = [value]
    for _ in range(_DEEPEST + 1):
        level = [inner for outer in level for inner in _inner(outer) if isinstance(inner, dict | list)]
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def _inner(value: JsonValue) -> Iterable[JsonValue]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


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


def number_in(parent: JsonObject, name: str) -> float | None:
    """Return the number under `name`; None where there is none."""
    try:
        return _NUMBER.validate_python(parent.get(name))
    except ValidationError as exc:
        raise ValueError(f"{name}: {exc.errors()[0]['msg']}") from None


def text_in(parent: JsonObject, name: str) -> str | None:
    """Return the value under `name` as text; None where there is none."""
    value = parent.get(name)
    return None if value is None else str(value)
