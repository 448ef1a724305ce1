"""A preference read back: TRL's `prompt`, `chosen`, `rejected`, or OpenAI's `input` and its two outputs."""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import takewhile
from json import dumps

from pydantic import JsonValue

from harness.formats.chat_turns import Conversation, offered_tools, turns_after
from harness.formats.imported_trajectory import ImportedTrajectory
from harness.formats.json_values import JsonObject, object_in
from harness.formats.training_lines.origins import LineOrigin
from harness.formats.training_lines.talk import read_of

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
            **read_of(turns),
        )
