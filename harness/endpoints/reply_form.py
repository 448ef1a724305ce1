"""The form of a model's reply: whether each member is of its kind, and what the Agents SDK can read of the reply.

The SDK takes the members as they come, and fails on a strange one with Python's words, as if the agent were to blame.
"""

from collections.abc import Mapping
from typing import Any, cast

from harness.endpoints.usage import sdk_counts


def has_form(reply: Mapping[str, Any]) -> bool:
    """Tell whether the message of a chat reply, or the output of a response, can be a model's."""
    if choice := first_choice(reply):
        message = choice.get("message")
        return _is_message(message) or (message is None and choice.get("finish_reason") == "content_filter")
    output = reply.get("output")
    return isinstance(output, list) and all(map(_is_item, items_of(output)))


def for_sdk(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reply that has its form, as the SDK reads it: text in one part, and no usage that counts nothing."""
    choice = first_choice(reply)
    usage = sdk_counts(reply.get("usage"), of_chat=bool(choice))
    if not choice:
        return {"id": None, **reply, "usage": usage}
    message = members_of(choice.get("message"))
    content = message_text(message) if isinstance(message.get("content"), list) else message.get("content")
    whole = {
        "finish_reason": None,
        **choice,
        "message": {"role": "assistant", **message, "content": content},
        "logprobs": members_of(choice.get("logprobs")) or None,
    }
    return {**reply, "usage": usage, "choices": [whole, *reply["choices"][1:]]}


def message_text(message: Mapping[str, Any]) -> str:
    """Return the text of a chat message, which some gateways give in parts."""
    content = message.get("content")
    if isinstance(content, list):
        texts = (members_of(part).get("text") for part in items_of(content))
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def members_of(value: Any) -> dict[str, Any]:
    """Return a JSON object itself, not a copy; an empty one for any other value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def items_of(value: Any) -> list[Any]:
    """Return a JSON array itself, whatever is in it; an empty one for any other value."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def first_choice(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first choice of a chat reply; nothing for any other reply."""
    return members_of(next(iter(items_of(reply.get("choices"))), None))


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    members = cast("dict[str, Any]", message)
    if not all(isinstance(members.get(name), str | None) for name in ("refusal", "reasoning_content")):
        return False
    content, calls = members.get("content"), members.get("tool_calls")
    has_content = isinstance(content, str | list | None) and all(map(_is_part, items_of(content)))
    return has_content and isinstance(calls, list | None) and all(map(_is_call, items_of(calls)))


def _is_part(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(members_of(part).get("text"), str | None)


def _is_call(call: Any) -> bool:
    members = members_of(call)
    return isinstance(members.get("id"), str) and (
        members.get("type") == "custom" or _has_texts(members_of(members.get("function")), "name", "arguments")
    )


def _is_item(item: Any) -> bool:
    """Tell whether an item of a response's output holds what every item of its type does."""
    members = members_of(item)
    match members.get("type"):
        case "message":
            content = members.get("content")
            return isinstance(content, list) and all(map(_is_output_part, items_of(content)))
        case "function_call":
            return _has_texts(members, "name", "arguments", "call_id")
        case kind:
            return isinstance(kind, str)


def _is_output_part(part: Any) -> bool:
    members = members_of(part)
    named = {"output_text": "text", "refusal": "refusal"}.get(str(members.get("type")))
    return isinstance(members.get("type"), str) and (named is None or _has_texts(members, named))


def _has_texts(members: Mapping[str, Any], *names: str) -> bool:
    return all(isinstance(members.get(name), str) for name in names)
