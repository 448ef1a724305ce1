"""Files of trajectories: which format each object in them has, and errors that name file and line."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, cast, get_args

from pydantic import JsonValue, ValidationError

from harness.core.errors import UsageError, on_a_line, short_message
from harness.core.rankings import ImportedLine
from harness.core.user_files import is_folder, read_text, text_lines
from harness.formats.atif import is_atif, read_atif
from harness.formats.chat_turns import turns_of_chat, unplaced_in_chat
from harness.formats.imported_trajectory import ImportedTrajectory
from harness.formats.json_values import JsonObject, parse_json
from harness.formats.messages import read_messages
from harness.formats.queries import query_from
from harness.formats.training_lines.art_groups import is_art_group, read_art_group
from harness.formats.training_lines.examples import is_completion, read_example
from harness.formats.training_lines.groups import is_group, read_group
from harness.formats.training_lines.origins import SOURCE_KEY, SOURCES, LineFormat, LineOrigin, sources_beside
from harness.formats.training_lines.pairs import is_openai_pair, is_trl_pair, read_openai_pair, read_trl_pair

Format = Literal["messages", "atif", "groups", "art", "sft", "dpo", "openai-preference"]
FORMATS: tuple[Format, ...] = get_args(Format)


def read_trajectories(paths: Sequence[Path], format: Format | None = None) -> Iterator[ImportedTrajectory]:  # noqa: A002 - the option's name
    """Yield the trajectories of files, as they are read: JSON (an object, or a list of them) or JSONL.

    Of a folder all files of JSONL are read, but for the one of sources. Without `format` each object tells its own.
    Raises UsageError naming file, line and what is wrong.
    """
    for path in chain.from_iterable(map(_files_of, paths)):
        count = 0
        for item in _items(path):
            yield from _read(item, format or _format_of(item))
            count += 1
        if not count:
            raise UsageError(f"{on_a_line(path)}: no trajectory in it")


def _files_of(path: Path) -> Sequence[Path]:
    if not is_folder(path):
        return [path]
    files = sorted(file for file in path.glob("*.jsonl") if file.name != SOURCES)
    if not files:
        raise UsageError(f"{on_a_line(path)}: no file of JSONL in this folder")
    return files


_SHOWN: Sequence[tuple[Format, Callable[[JsonObject], bool]]] = (
    ("atif", is_atif),
    ("groups", is_group),
    ("art", is_art_group),
    ("dpo", is_trl_pair),
    ("openai-preference", is_openai_pair),
    ("sft", is_completion),
)
"""By what each format shows itself, the surest first."""


@dataclass(frozen=True)
class _Item:
    """An object in a file."""

    place: str
    document: JsonObject
    source: ImportedLine | None = None
    """What is behind it, if it is a line of an export that is as it was."""


def _format_of(item: _Item) -> Format:
    """Return the format that an object shows. A chat that was exported is the best of its query."""
    for name, is_shown in _SHOWN:
        if is_shown(item.document):
            return name
    return "sft" if item.source else "messages"


def _chat(document: JsonObject) -> ImportedTrajectory:
    """Read chat messages with their turns: `read_messages` alone is for whoever wants what a judge reads."""
    kept = {"turns": turns_of_chat(document), "unplaced": unplaced_in_chat(document)}
    return read_messages(document).model_copy(update=kept)


_READERS: Mapping[str, Callable[[JsonObject], ImportedTrajectory]] = {"messages": _chat, "atif": read_atif}
_LINE_READERS: Mapping[LineFormat, Callable[[JsonObject, LineOrigin], Iterator[ImportedTrajectory]]] = {
    "groups": read_group,
    "art": read_art_group,
    "sft": read_example,
    "dpo": read_trl_pair,
    "openai-preference": read_openai_pair,
}


def _read(item: _Item, name: Format) -> Sequence[ImportedTrajectory]:
    try:
        if name in _READERS:
            trajectories = [_with_source(_READERS[name](item.document), item.source)]
        else:
            form = cast("LineFormat", name)
            trajectories = list(_LINE_READERS[form](item.document, _origin(form, item)))
        for trajectory in trajectories:
            query_from(trajectory.query, id=trajectory.query_id)
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise UsageError(f"{item.place}: no trajectory in the format {name!r} ({_reason(exc)})") from None
    except UsageError as exc:
        raise UsageError(f"{item.place}: {exc}") from None
    return trajectories


def _with_source(trajectory: ImportedTrajectory, source: ImportedLine | None) -> ImportedTrajectory:
    """Note what is behind a line that brings no ranking, beside what else it said of itself."""
    if source is None:
        return trajectory
    noted = {**trajectory.metadata, SOURCE_KEY: source.model_dump(mode="json")}
    return trajectory.model_copy(update={"metadata": noted, "apart": source.run})


def _origin(name: LineFormat, item: _Item) -> LineOrigin:
    """Return the origin of a line. Preferences of one run and query are one group, other lines one each."""
    run = item.source.run if item.source else ""
    return LineOrigin(name, run if name in {"dpo", "openai-preference"} else item.place, line=item.source)


def _items(path: Path) -> Iterator[_Item]:
    """Yield the objects of a file."""
    name = on_a_line(path)
    if path.suffix.lower() == ".json":
        document = _json(read_text(path, name), name)
        items = document if isinstance(document, list) else [document]
        for number, item in enumerate(items, 1):
            place = f"{name} item {number}" if len(items) > 1 else name
            yield _Item(place, _object(item, place))
        return
    source_of = sources_beside(path)
    for number, line in text_lines(path, name):
        if line.strip():
            place = f"{name}:{number}"
            yield _Item(place, _object(_json(line, place), place), source_of(number, line))


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
