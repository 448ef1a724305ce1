"""A rollout's model calls as the archive holds them, packed into one text (harness.rollouts.raw), without the SDK."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, cast

from pydantic import Field, TypeAdapter

from harness.archive.typed_records import checked
from harness.core.records import Record

LONG = 2048
"""Characters from which on a text is kept for itself. JSON that is shorter as a whole is not searched for long texts:
the search takes longer than everything else that is done for a call."""


class _PackedCall(Record):
    text: bool
    kept: Annotated[int, Field(ge=0)]
    changed: dict[str, Any]
    input: list[Any]
    reply: dict[str, Any]
    beside: dict[str, Any] | None = None
    """The fields that differ from those beside the last reply that had some."""
    gone: tuple[str, ...] = ()
    """Fields that stood beside that one, and not beside this."""


PlainCall = tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]
"""Of a call its request, its reply, and what stood beside that."""
_CALLS = TypeAdapter(list[_PackedCall])
_NESTS = (dict, list)
MARKS = {"$text", "$json", "$own"}
"""Keys of what stands for something else."""


def unpack_plain(
    text: str, get: Callable[[str], str], where: object = "raw calls"
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the request and the reply of each call as the archive holds them: many times faster than with objects.

    `get` finds kept texts. Raises ArchiveDamaged naming `where` for any text that `pack` never gave.
    """
    return checked(text, lambda text: [(request, reply) for request, reply, _ in unpacked(text, get)], where)


def unpacked(text: str, get: Callable[[str], str]) -> Iterator[PlainCall]:
    """Yield the calls of a packed text. Raises ValueError for another text."""
    request, items = dict[str, Any](), list[Any]()
    told: dict[str, Any] = {}

    def whole(value: Any) -> Any:
        return _whole(value, get) if '"$' in text else value

    for packed in _CALLS.validate_python(json.loads(text)):
        items = [*items[: packed.kept], *whole(packed.input)]
        changed = {k: whole(v) for k, v in packed.changed.items()}
        request = request | changed | {"input": items[0] if packed.text else items}
        if packed.beside is not None:
            kept = {k: v for k, v in told.items() if k not in packed.gone}
            told = kept | whole(packed.beside)
        yield request, whole(packed.reply), None if packed.beside is None else told


def parts(text: str, where: object = "raw calls") -> list[str]:
    """Return the names of the texts that a packed one refers to. Raises ArchiveDamaged as above."""

    def read(packed: str) -> list[str]:
        calls = json.loads(packed)
        _CALLS.validate_python(calls)
        return list(_names(calls))

    return checked(text, read, where) if '"$' in text else []


def _whole(value: Any, get: Callable[[str], str]) -> Any:
    """Return a value with all that stands for something else replaced. Most of the time of `credit` is spent here."""
    if isinstance(value, list):
        return [_whole(v, get) if isinstance(v, _NESTS) else v for v in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if len(fields) == 1:
        ((mark, inner),) = fields.items()
        if mark == "$text":
            return get(inner)
        if mark == "$json":
            return json.loads(get(inner))
        if mark == "$own":
            fields = cast("dict[str, Any]", inner)
    return {k: _whole(v, get) if isinstance(v, _NESTS) else v for k, v in fields.items()}


def _names(value: Any) -> Iterator[str]:
    within: Iterable[Any] = cast("list[Any]", value) if isinstance(value, list) else ()
    if isinstance(value, dict):
        match list(cast("dict[str, Any]", value).items()):
            case [("$text" | "$json", str() as name)]:
                yield name
            case [("$own", own_fields)]:
                within = cast("dict[str, Any]", own_fields).values()
            case fields:
                within = [inner for _, inner in fields]
    for inner in within:
        yield from _names(inner)
