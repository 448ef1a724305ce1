"""Files of trajectories: which format each object in them has, and errors that name file and line."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from pydantic import JsonValue, ValidationError

from harness.core.errors import UsageError
from harness.formats.atif import is_atif, read_atif
from harness.formats.imported import ImportedTrajectory
from harness.formats.json_values import JsonObject, parse_json
from harness.formats.messages import read_messages

Format = Literal["messages", "atif"]
FORMATS: tuple[Format, ...] = get_args(Format)
_READERS: Mapping[Format, Callable[[JsonObject], ImportedTrajectory]] = {"messages": read_messages, "atif": read_atif}


def read_trajectories(paths: Sequence[Path], format: Format | None = None) -> Iterator[ImportedTrajectory]:  # noqa: A002 - the option's name
    """Yield the trajectories of files, as they are read: JSON (an object, or a list of them) or JSONL.

    Without `format` each object tells its own. Raises UsageError naming file, line and what is wrong.
    """
    for path in paths:
        count = 0
        for place, document in _objects(path):
            yield _read(document, place, format or ("atif" if is_atif(document) else "messages"))
            count += 1
        if not count:
            raise UsageError(f"{path}: no trajectory in it")


def _read(document: JsonObject, place: str, name: Format) -> ImportedTrajectory:
    try:
        return _READERS[name](document)
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise UsageError(f"{place}: no trajectory in the format {name!r} ({_reason(exc)})") from None


def _objects(path: Path) -> Iterator[tuple[str, JsonObject]]:
    """Yield the objects of a file, each with its place in it."""
    try:
        if path.suffix.lower() == ".json":
            yield from _objects_of_json(path)
        else:
            yield from _objects_of_jsonl(path)
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"{path}: cannot be read ({getattr(exc, 'strerror', None) or exc})") from None


def _objects_of_json(path: Path) -> Iterator[tuple[str, JsonObject]]:
    document = _json(path.read_text("utf-8"), str(path))
    items = document if isinstance(document, list) else [document]
    for number, item in enumerate(items, 1):
        place = f"{path} item {number}" if len(items) > 1 else str(path)
        yield place, _object(item, place)


def _objects_of_jsonl(path: Path) -> Iterator[tuple[str, JsonObject]]:
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                place = f"{path}:{number}"
                yield place, _object(_json(line.removeprefix("\ufeff"), place), place)


def _json(text: str, place: str) -> JsonValue:
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"{place}: not JSON ({exc})") from None


def _object(value: JsonValue, place: str) -> JsonObject:
    if not isinstance(value, dict):
        raise UsageError(f"{place}: expected an object, found a {type(value).__name__}")
    return value


def _reason(exc: Exception) -> str:
    if isinstance(exc, ValidationError):
        first = exc.errors()[0]
        return f"{'.'.join(str(at) for at in first['loc'])}: {first['msg']}"
    return str(exc).splitlines()[0] if isinstance(exc, ValueError) else f"{type(exc).__name__}: {exc}"
