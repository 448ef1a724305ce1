"""A trajectory of another program as a chat: what its row says, what goes into the metadata, what is named as lost."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from harness.core.errors import quoted
from harness.formats.json_values import JsonObject, parse_json
from harness.formats.turns import Message

_LONGEST = 10_000
"""A value of more characters is no metadata."""


@dataclass(frozen=True)
class ForeignChat:
    """A trajectory as an object of chat messages, what of it that object has no place for, and why it failed."""

    document: JsonObject
    unplaced: tuple[str, ...] = ()
    failed: str | None = None


def talk_messages(value: JsonValue, name: str, role: str) -> Sequence[JsonObject]:
    """Return messages; a text is a message of `role`. Raises ValueError."""
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        raise ValueError(f"`{name}` must be a text or a list of messages")
    return [message for message in value if isinstance(message, dict)]


def left_over(parent: JsonObject, read: str) -> dict[str, JsonValue]:
    """Return what is left of an object beside the keys that were read, and beside what is empty."""
    return {k: v for k, v in parent.items() if k not in read.split() and v not in (None, "", [], {})}


def left_names(parent: JsonObject, read: str, where: str) -> list[str]:
    """Return what is left of an object within a row, each thing by its name."""
    return [f"the key {quoted(key)} of {where}" for key in left_over(parent, read)]


def make_chat(
    row: JsonObject,
    read: str,
    messages: Iterable[JsonObject],
    *,
    unplaced: Iterable[str] = (),
    failed: JsonValue = None,
    **said: JsonValue,
) -> ForeignChat:
    """Return a chat of a row: what of it is not in `read` is metadata, if it is not too long."""
    beside = left_over(row, read)
    long = {key for key, value in beside.items() if len(json.dumps(value)) > _LONGEST}
    made = [dict(message) for message in messages]
    if failed and not any(message["role"] == "assistant" for message in made):
        made.append({"role": "assistant", "content": ""})
    metadata = {key: value for key, value in beside.items() if key not in long}
    document: dict[str, Any] = {**left_over(said, ""), "messages": made, "metadata": metadata}
    names = [*unplaced, *(f"the key {quoted(key)}" for key in sorted(long))]
    said_last = max((at for at, message in enumerate(made) if message.get("role") == "assistant"), default=-1)
    for message in made[said_last + 1 :]:  # in no turn, since nothing was said after it
        names += left_names(message, "role content tool_call_id name weight", "a message after the last reply")
    why = failed if isinstance(failed, str) else json.dumps(failed) if failed else None
    return ForeignChat(document, tuple(names), why and why[:500])


def as_message(message: JsonObject) -> Message:
    """Return a message with its calls as Chat Completions has them, and reasoning parts as reasoning."""
    made: Message = dict(message)
    if message.get("tool_calls"):
        calls: Any = message["tool_calls"]
        made["tool_calls"] = [as_call(parse_json(call) if isinstance(call, str) else call) for call in calls]
    if isinstance(content := message.get("content"), list):
        thoughts = [part for part in content if isinstance(part, dict) and part.get("type") == "reasoning"]
        if thoughts:
            made["content"] = [part for part in content if part not in thoughts]
            made["reasoning_content"] = "\n".join(str(t.get("reasoning") or t.get("text") or "") for t in thoughts)
            if details := [more for t in thoughts if (more := left_over(t, "type reasoning text"))]:
                made["reasoning_details"] = details
    return made


def as_call(call: Any) -> dict[str, Any]:
    """Return a call of a tool as Chat Completions has it: others put name and arguments beside its id."""
    function = call.get("function")
    if isinstance(function, dict):
        return call
    rest = {key: value for key, value in call.items() if key not in {"function", "name", "arguments"}}
    named = {"name": function or call.get("name"), "arguments": call.get("arguments", "{}")}
    return {"type": "function", **rest, "function": named}


def prompted(row: JsonObject, read: str, *, failed: JsonValue = None, **said: Any) -> ForeignChat:
    """Return the chat of a prompt with its completion; what the prompt holds was not said there."""
    prompt, completion = talk_messages(row.get("prompt"), "prompt", "user"), row.get("completion")
    replies: Sequence[JsonObject] = (
        [] if failed and not completion else talk_messages(completion, "completion", "assistant")
    )
    messages = [*({**as_message(m), "weight": 0} for m in prompt), *map(as_message, replies)]
    tools = said.pop("tools", row.get("tools"))
    return make_chat(row, f"prompt completion tools {read}", messages, failed=failed, tools=tools, **said)
