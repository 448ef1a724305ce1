"""Messages as each consumer takes them. Here arguments of tool calls are what the model wrote: text that holds JSON."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from harness.formats.json_values import parse_json
from harness.formats.training.losses import LeftOut
from harness.formats.turns import Message

_OPENAI_KEYS = {"role", "content", "tool_calls", "tool_call_id", "name", "refusal"}
"""What a message of OpenAI's fine-tuning files may hold."""


def trl_messages(messages: Iterable[Message]) -> list[Message]:
    """Return messages as TRL and chat templates take them, arguments as objects. Raises LeftOut."""
    return [_with_arguments(message, _as_object) for message in messages]


def openai_messages(messages: Iterable[Message]) -> list[Message]:
    """Return messages as OpenAI's files take them: system for developer, no reasoning."""
    return [_for_openai(message) for message in messages]


def lost_for_openai(messages: Iterable[Message]) -> tuple[str, ...]:
    """Return what OpenAI's files have no place for, each thing by its name."""
    return tuple(key for message in messages for key in message if key not in _OPENAI_KEYS)


def with_plain_ids(messages: Sequence[Message]) -> list[Message]:
    """Return messages whose tool calls are numbered as they come: two rollouts' ids always differ."""
    numbers: dict[str, str] = {}

    def number(call_id: Any) -> str:
        return numbers.setdefault(str(call_id), f"call_{len(numbers)}")

    return [_renumbered(message, number) for message in messages]


def _renumbered(message: Message, number: Callable[[Any], str]) -> Message:
    if calls := message.get("tool_calls"):
        message = message | {"tool_calls": [call | {"id": number(call.get("id"))} for call in calls]}
    if "tool_call_id" in message:
        message = message | {"tool_call_id": number(message["tool_call_id"])}
    return message


def _with_arguments(message: Message, change: Callable[[Any], Any]) -> Message:
    if not (calls := message.get("tool_calls")):
        return message
    if not all("function" in call for call in calls):
        raise LeftOut("a call of a tool that is no function")
    changed = [
        call | {"function": call["function"] | {"arguments": change(call["function"]["arguments"])}} for call in calls
    ]
    return message | {"tool_calls": changed}


def _as_object(arguments: Any) -> dict[str, Any]:
    try:
        value: Any = parse_json(arguments)
    except (TypeError, ValueError):
        value = None
    if not isinstance(value, dict):
        raise LeftOut("the arguments of a tool call are no JSON object")
    return value  # pyright: ignore[reportUnknownVariableType] - of JSON


def _for_openai(message: Message) -> Message:
    kept = {key: value for key, value in message.items() if key in _OPENAI_KEYS}
    if kept["role"] == "developer":
        kept["role"] = "system"
    if kept.get("content") is None and not kept.get("tool_calls") and not kept.get("refusal"):
        kept["content"] = ""
    return kept
