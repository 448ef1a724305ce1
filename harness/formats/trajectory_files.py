"""Files of trajectories: which format each object in them has, and errors that name file and line."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from itertools import chain, islice
from json import dumps
from pathlib import Path
from typing import Any, Literal, cast, get_args

from pydantic import JsonValue, ValidationError

from harness.core.errors import UsageError, on_a_line, quoted, short_message
from harness.core.rankings import ImportedLine
from harness.core.records import Failure
from harness.core.user_files import is_folder, read_text, text_lines
from harness.formats.atif import read_atif
from harness.formats.chat_turns import checked_messages, read_messages, turns_after, turns_of_chat
from harness.formats.foreign import LACKING, SHAPES, ForeignFormat, shape_named
from harness.formats.foreign_chats import ForeignChat, talk_messages
from harness.formats.json_values import JsonObject, first_fault, length_in_common, object_in, objects_in, parse_json
from harness.formats.queries import query_from
from harness.formats.training import origins
from harness.formats.training.line_readers import bounded, read_art_group, read_group, talk_fields
from harness.formats.turns import Turn


def read_trl_pair(document: JsonObject, origin: origins.LineOrigin) -> Iterator[origins.ImportedTrajectory]:
    """Yield the better and the worse side of a preference. Raises ValueError."""
    names = ("chosen", "rejected")
    prompt, sides = document.get("prompt"), [document.get(name) for name in names]
    if "prompt" not in document:  # then it is what both sides begin with
        alike: Any = sides
        if not all(isinstance(side, str) for side in sides):
            alike = [talk_messages(side, name, "assistant") for side, name in zip(sides, names, strict=True)]
        shared = length_in_common(*alike)
        prompt, sides = alike[0][:shared], [side[shared:] for side in alike]
        prompt = prompt.strip() if isinstance(prompt, str) else prompt
        if not prompt:
            raise ValueError("no `prompt`, and `chosen` and `rejected` do not begin alike")
        if not all(sides):
            raise ValueError("no `prompt`, and one of `chosen` and `rejected` is the beginning of the other")
    talks = [talk_messages(side, name, "assistant") for side, name in zip(sides, names, strict=True)]
    unread = document.keys() - {"prompt", "tools", *names}
    yield from _sides(talk_messages(prompt, "prompt", "user"), talks, document, origin, unread)


def read_openai_pair(document: JsonObject, origin: origins.LineOrigin) -> Iterator[origins.ImportedTrajectory]:
    """Yield the better and the worse side of a preference. Raises ValueError."""
    asked, names = object_in(document, "input"), ("preferred_output", "non_preferred_output")
    prompt = talk_messages(asked.get("messages"), "input.messages", "user")
    talks = [talk_messages(document.get(name), name, "assistant") for name in names]
    unread = (document.keys() - {"input", *names}) | (asked.keys() - {"messages", "tools"})
    yield from _sides(prompt, talks, asked, origin, unread)


def _sides(
    prompt: Sequence[JsonObject],
    sides: Sequence[Sequence[JsonObject]],
    offering: JsonObject,
    origin: origins.LineOrigin,
    unread: set[str],
) -> Iterator[origins.ImportedTrajectory]:
    known = origin.line.rollouts if origin.line and len(origin.line.rollouts) == 2 else (None, None)
    unplaced = tuple(f"the key {key!r}" for key in sorted(unread))
    for index, side in zip(known, sides, strict=True):
        text = dumps([prompt, side], ensure_ascii=False, default=dict)
        content = sha256(text.encode()).hexdigest()
        yield _imported(origin, index, turns_after(prompt, side, offering), unplaced, content)


def read_example(document: JsonObject, origin: origins.LineOrigin) -> Iterator[origins.ImportedTrajectory]:
    """Yield the one rollout of an example: of a prompt with its completion, or of a chat. Raises ValueError."""
    if ranks := sorted({"label", "reward"} & document.keys()):
        raise ValueError(f"`{ranks[0]}` ranks it, and an example is the best of its query: name no format")
    if {"prompt", "completion"} <= document.keys():
        turns = turns_after(objects_in(document, "prompt"), objects_in(document, "completion"), document)
        unplaced = tuple(f"the key {key!r}" for key in document if key not in {"prompt", "completion", "tools"})
    else:
        checked_messages(document.get("messages"))
        turns, unplaced = turns_of_chat(document)
    if not turns:
        raise ValueError("no message is one that the assistant said there")
    source = origin.line
    yield _imported(origin, source.rollouts[0] if source and source.rollouts else None, turns, unplaced)


def _imported(
    origin: origins.LineOrigin,
    index: int | None,
    turns: Sequence[Turn],
    unplaced: tuple[str, ...],
    content: str | None = None,
) -> origins.ImportedTrajectory:
    return origins.ImportedTrajectory(
        format=origin.format,
        query_id=origin.line.query if origin.line else None,
        index=index,
        content=content,
        line=origin,
        unplaced=unplaced,
        **talk_fields(turns),
    )


Format = Literal["messages", "atif", "groups", "art", "sft", "dpo", "openai-preference", ForeignFormat]
IMPORT_FORMATS: tuple[Format, ...] = get_args(Format)


def read_trajectories(paths: Sequence[Path], format: Format | None = None) -> Iterator[origins.ImportedTrajectory]:  # noqa: A002 - the option's name
    """Yield the trajectories of files, as they are read: JSON (an object, or a list of them) or JSONL.

    Of a folder all files of JSONL are read, but for the one of sources. Without `format` each object tells its own.
    Raises UsageError naming file, line and what is wrong.
    """
    for path in paths:
        files = [path]
        if is_folder(path):
            files = sorted(file for file in path.glob("*.jsonl") if file.name != origins.SOURCES)
        if not files:
            raise UsageError(f"{on_a_line(path)}: no file of JSONL in this folder")
        for file in files:
            items = _items(file)
            if (first := next(items, None)) is None:
                raise UsageError(f"{on_a_line(file)}: no trajectory in it")
            name = format or _format_of(first)
            if (shape := shape_named(name)) and shape.whole:
                lines: list[JsonValue] = [dict(item.document) for item in chain((first,), items)]
                yield from _read(_Item(on_a_line(file), {"lines": lines}, None), name)
                continue
            for item in chain((first,), items):
                yield from _read(item, format or _format_of(item))


@dataclass(frozen=True)
class _Item:
    """An object in a file."""

    place: str
    document: JsonObject
    source: ImportedLine | None
    """What is behind it, if it is a line of an export that is as it was."""


def _items(path: Path) -> Iterator[_Item]:
    """Yield the objects of a file."""
    name, suffix = on_a_line(path), path.suffix.lower()
    if suffix in {".json", ".eval"}:
        document = _json(read_text(path, name) if suffix == ".json" else _inspect_log(path, name), name)
        items = document if isinstance(document, list) else [document]
        places = [f"{name} item {number}" for number, _ in enumerate(items, 1)] if len(items) > 1 else [name]
        placed = ((place, item, None) for place, item in zip(places, items, strict=False))
    else:
        source_of = origins.sources_beside(path)
        lines = ((f"{name}:{number}", number, line) for number, line in text_lines(path, name) if line.strip())
        placed = ((place, _json(line, place), source_of(number, line)) for place, number, line in lines)
    for place, value, source in placed:
        if not isinstance(value, dict):
            raise UsageError(f"{place}: expected an object, found a {type(value).__name__}")
        yield _Item(place, value, source)


def _inspect_log(path: Path, name: str) -> str:
    """Return a log that inspect_ai packed, as JSON."""
    if find_spec("inspect_ai") is None:
        how = f"pip install inspect-ai, or import what `inspect log dump {name}` prints, as a file .json"
        raise UsageError(f"{name}: a packed log of Inspect, which inspect_ai alone reads: {how}")
    try:
        log: Any = import_module("inspect_ai.log").read_eval_log(str(path), resolve_attachments=True)
        return log.model_dump_json(exclude_none=True)
    except Exception as exc:  # noqa: BLE001 - whatever that package makes of a stranger's file
        raise UsageError(f"{name}: inspect_ai cannot read it ({short_message(str(exc))})") from None


def _json(text: str, place: str) -> JsonValue:
    try:
        return parse_json(text)
    except ValueError as exc:
        raise UsageError(f"{place}: not JSON ({on_a_line(exc)})") from None


_SHOWN: Mapping[origins.LineFormat, set[str]] = {
    "groups": {"rollouts"},
    "art": {"trajectories"},
    "dpo": {"chosen", "rejected"},
    "openai-preference": {"input", "preferred_output"},
}
"""By which keys the formats of training data show themselves; examples, by the file beside them alone."""
_LINE_READERS: Mapping[
    origins.LineFormat, Callable[[JsonObject, origins.LineOrigin], Iterator[origins.ImportedTrajectory]]
] = {
    "groups": read_group,
    "art": read_art_group,
    "sft": read_example,
    "dpo": read_trl_pair,
    "openai-preference": read_openai_pair,
}


def _format_of(item: _Item) -> Format:
    """Return the format that an object shows. What was exported is known by what is said beside it.

    Raises UsageError naming what an object of no format lacks.
    """
    document = item.document
    if str(document.get("schema_version", "")).startswith("ATIF-"):
        return "atif"
    if "conversations" not in document:
        for name, keys in _SHOWN.items():
            if keys <= document.keys():
                return name
    if item.source and ("messages" in document or {"prompt", "completion"} <= document.keys()):
        return "sft"
    if "messages" in document:
        return "messages"
    for foreign, shape in SHAPES.items():
        if shape.shown(document):
            return foreign
    keys = ", ".join(map(quoted, islice(document, 8))) or "none"
    strange = f"no format that is read here has such keys ({keys}); name its format"
    raise UsageError(f"{item.place}: {next((lacks for is_it, lacks in LACKING if is_it(document)), strange)}")


def _read(item: _Item, name: Format) -> Sequence[origins.ImportedTrajectory]:
    try:
        if shape := shape_named(name):
            trajectories = [_read_chat(chat, name) for chat in shape.read(item.document)]
        elif name in get_args(origins.LineFormat):
            line_format = cast("origins.LineFormat", name)
            # preferences of one run and query are one group, other lines one each
            run = item.source.run if item.source else ""
            key = run if name in {"dpo", "openai-preference"} else item.place
            line = origins.LineOrigin(line_format, key, line=item.source)
            trajectories = list(_LINE_READERS[line_format](item.document, line))
        else:
            trajectories = [_read_alone(item, name)]
        for trajectory in trajectories:
            query_from(trajectory.query, id=trajectory.query_id)
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        text = str(exc) if isinstance(exc, ValueError) else f"{type(exc).__name__}: {exc}"
        reason = first_fault(exc) if isinstance(exc, ValidationError) else short_message(text.partition("\n")[0])
        raise UsageError(f"{item.place}: no trajectory in the format {name!r} ({reason})") from None
    except UsageError as exc:
        raise UsageError(f"{item.place}: {exc}") from None
    return trajectories


def _read_alone(item: _Item, name: Format) -> origins.ImportedTrajectory:
    """Read a line that brings no ranking, and note what is behind it, beside what else it said of itself."""
    noted: dict[str, Any] = {}
    if name == "atif":
        trajectory = read_atif(item.document)
    else:
        noted["turns"], noted["unplaced"] = turns_of_chat(item.document)
        trajectory = read_messages(item.document)
    if item.source:
        metadata = {**trajectory.metadata, origins.SOURCE_KEY: item.source.model_dump(mode="json")}
        noted |= {"metadata": metadata, "apart": item.source.run}
    return trajectory.model_copy(update=noted)


def _read_chat(chat: ForeignChat, name: Format) -> origins.ImportedTrajectory:
    """Return a chat of another program's file as a trajectory: its reward is kept, and ranks nothing."""
    checked_messages(chat.document.get("messages"))
    bounded(chat.document, "reward")
    turns, unplaced = turns_of_chat(chat.document)
    failure = {"kind": "internal", "type": "Imported", "message": chat.failed} if chat.failed else None
    noted = {
        "format": name,
        "turns": turns,
        "unplaced": (*chat.unplaced, *unplaced),
        "failure": Failure.model_validate(failure) if failure else None,
    }
    return read_messages(chat.document).model_copy(update=noted)
