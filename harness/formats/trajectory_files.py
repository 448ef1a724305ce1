"""Files of trajectories: which format each object in them has, and errors that name file and line."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, takewhile
from json import dumps
from pathlib import Path
from typing import Literal, cast, get_args

from pydantic import JsonValue, ValidationError

from harness.core.errors import UsageError, on_a_line, short_message
from harness.core.rankings import ImportedLine
from harness.core.user_files import is_folder, read_text, text_lines
from harness.formats.atif import is_atif, read_atif
from harness.formats.chat_turns import Conversation, offered_tools, turns_after, turns_of_chat, unplaced_in_chat
from harness.formats.imported_trajectory import ImportedTrajectory
from harness.formats.json_values import JsonObject, object_in, objects_in, parse_json
from harness.formats.messages import checked_messages, read_messages
from harness.formats.queries import query_from
from harness.formats.training.line_readers import is_art_group, is_group, read_art_group, read_group, talk_fields
from harness.formats.training.origins import SOURCE_KEY, SOURCES, LineFormat, LineOrigin, sources_beside

_TRL_KEYS = {"prompt", "chosen", "rejected", "tools"}
_OPENAI_KEYS = {"input", "preferred_output", "non_preferred_output"}
_INPUT_KEYS = {"messages", "tools"}


def is_trl_pair(document: JsonObject) -> bool:
    """Return whether an object is a preference as TRL has them."""
    return {"chosen", "rejected"} <= document.keys()


def is_openai_pair(document: JsonObject) -> bool:
    """Return whether an object is a preference as OpenAI has them."""
    return {"input", "preferred_output"} <= document.keys()


def read_trl_pair(document: JsonObject, origin: LineOrigin) -> Iterator[ImportedTrajectory]:
    """Yield the better and the worse side of a preference. Raises ValueError."""
    given = [document.get(name) for name in ("chosen", "rejected")]
    if "prompt" in document:
        prompt, sides = _talk(document["prompt"], "prompt", "user"), _talks(given)
    else:
        prompt, sides = _split(given)
    yield from _sides(prompt, sides, document, origin, document.keys() - _TRL_KEYS)


def read_openai_pair(document: JsonObject, origin: LineOrigin) -> Iterator[ImportedTrajectory]:
    """Yield the better and the worse side of a preference. Raises ValueError."""
    asked = object_in(document, "input")
    prompt = _talk(asked.get("messages"), "input.messages", "user")
    sides = [_talk(document.get(name), name, "assistant") for name in ("preferred_output", "non_preferred_output")]
    unread = (document.keys() - _OPENAI_KEYS) | (asked.keys() - _INPUT_KEYS)
    yield from _sides(prompt, sides, asked, origin, unread)


def _talk(value: JsonValue, name: str, role: str) -> Sequence[JsonObject]:
    """Return messages; a text is a message of `role`. Raises ValueError."""
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        raise ValueError(f"`{name}` must be a text or a list of messages")
    return [message for message in value if isinstance(message, dict)]


def _talks(sides: Sequence[JsonValue]) -> list[Sequence[JsonObject]]:
    return [_talk(side, name, "assistant") for side, name in zip(sides, ("chosen", "rejected"), strict=True)]


def _split(sides: Sequence[JsonValue]) -> tuple[Sequence[JsonObject], list[Sequence[JsonObject]]]:
    """Return what both sides begin with, which TRL takes for the prompt, and the rest of each. Raises ValueError."""
    texts = [side for side in sides if isinstance(side, str)]
    if len(texts) == len(sides):
        shared = _shared(*texts)
        prompt, rest = texts[0][:shared].strip(), _talks([text[shared:] for text in texts])
        begin_alike, has_rest = bool(prompt), all(len(text) > shared for text in texts)
        asked = _talk(prompt, "prompt", "user")
    else:
        talks = _talks(sides)
        shared = _shared(*talks)
        asked, rest = talks[0][:shared], [talk[shared:] for talk in talks]
        begin_alike, has_rest = bool(shared), all(rest)
    if not begin_alike:
        raise ValueError("no `prompt`, and `chosen` and `rejected` do not begin alike")
    if not has_rest:
        raise ValueError("no `prompt`, and one of `chosen` and `rejected` is the beginning of the other")
    return asked, rest


def _shared(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many characters, or messages, two sides begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _sides(
    prompt: Sequence[JsonObject],
    sides: Sequence[Sequence[JsonObject]],
    offering: JsonObject,
    origin: LineOrigin,
    unread: set[str],
) -> Iterator[ImportedTrajectory]:
    tools, hosted = offered_tools(offering)
    known = origin.line.rollouts if origin.line and len(origin.line.rollouts) == 2 else (None, None)
    for index, side in zip(known, sides, strict=True):
        turns = turns_after(prompt, side, Conversation(tools=tools, hosted=hosted))
        text = dumps([prompt, side], ensure_ascii=False, default=dict)
        yield ImportedTrajectory(
            format=origin.format,
            query_id=origin.line.query if origin.line else None,
            index=index,
            content=sha256(text.encode()).hexdigest(),
            line=origin,
            unplaced=tuple(f"the key {key!r}" for key in sorted(unread)),
            **talk_fields(turns),
        )


_KEYS = {"prompt", "completion", "tools"}


def is_completion(document: JsonObject) -> bool:
    """Return whether an object is a prompt with its completion."""
    return {"prompt", "completion"} <= document.keys()


def read_example(document: JsonObject, origin: LineOrigin) -> Iterator[ImportedTrajectory]:
    """Yield the one rollout of an example. Raises ValueError."""
    if is_completion(document):
        prompt, completion = objects_in(document, "prompt"), objects_in(document, "completion")
        tools, hosted = offered_tools(document)
        turns = turns_after(prompt, completion, Conversation(tools=tools, hosted=hosted))
        unplaced = tuple(f"the key {key!r}" for key in document if key not in _KEYS)
    else:
        checked_messages(document.get("messages"))
        turns, unplaced = turns_of_chat(document), unplaced_in_chat(document)
    if not turns:
        raise ValueError("no message is one that the assistant said there")
    source = origin.line
    yield ImportedTrajectory(
        format=origin.format,
        query_id=source.query if source else None,
        index=source.rollouts[0] if source and source.rollouts else None,
        line=origin,
        unplaced=unplaced,
        **talk_fields(turns),
    )


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
