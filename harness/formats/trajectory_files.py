"""Files of trajectories: which format each object in them has, and errors that name file and line."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from pydantic import JsonValue, ValidationError

from harness.core.errors import UsageError, on_a_line, short_message
from harness.core.user_files import read_text, text_lines
from harness.formats.atif import is_atif, read_atif
from harness.formats.chat_turns import turns_of_chat, unplaced_in_chat
from harness.formats.imported import ImportedTrajectory
from harness.formats.json_values import JsonObject, parse_json
from harness.formats.messages import read_messages
from harness.formats.queries import query_from

Format = Literal["messages", "atif"]
FORMATS: tuple[Format, ...] = get_args(Format)


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
            raise UsageError(f"{on_a_line(path)}: no trajectory in it")


def _chat(document: JsonObject) -> ImportedTrajectory:
    """Read chat messages with their turns: `read_messages` alone is for whoever wants what a judge reads."""
    kept = {"turns": turns_of_chat(document), "unplaced": unplaced_in_chat(document)}
    return read_messages(document).model_copy(update=kept)


_READERS: Mapping[Format, Callable[[JsonObject], ImportedTrajectory]] = {"messages": _chat, "atif": read_atif}


def _read(document: JsonObject, place: str, name: Format) -> ImportedTrajectory:
    try:
        trajectory = _READERS[name](document)
        query_from(trajectory.query, id=trajectory.query_id)
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise UsageError(f"{place}: no trajectory in the format {name!r} ({_reason(exc)})") from None
    except UsageError as exc:
        raise UsageError(f"{place}: {exc}") from None
    return trajectory


def _objects(path: Path) -> Iterator[tuple[str, JsonObject]]:
    """Yield the objects of a file, each with its place in it."""
    name = on_a_line(path)
    if path.suffix.lower() == ".json":
        document = _json(read_text(path, name), name)
        items = document if isinstance(document, list) else [document]
        for number, item in enumerate(items, 1):
            place = f"{name} item {number}" if len(items) > 1 else name
            yield place, _object(item, place)
        return
    for number, line in text_lines(path, name):
        if line.strip():
            yield f"{name}:{number}", _object(_json(line, f"{name}:{number}"), f"{name}:{number}")


def _json(text: str, place: str) -> JsonValue:
    try:
        return parse_json(text)
    except ValueError as exc:
        raise UsageError(f"{place}: not JSON ({on_a_line(exc)})") from None


def _object(value: JsonValue, place: str) -> JsonObject:
    if not isinstance(value, dict):
        raise UsageError(f"{place}: expected an object, found a {type(value).__name__}")
    return value


def _reason(exc: Exception) -> str:
    if isinstance(exc, ValidationError):
        first = exc.errors()[0]
        return f"{'.'.join(str(at) for at in first['loc'])}: {first['msg']}"
    reason = str(exc) if isinstance(exc, ValueError) else f"{type(exc).__name__}: {exc}"
    return short_message(reason.partition("\n")[0])
