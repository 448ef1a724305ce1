"""A conversation in the messages of Chat Completions as the SDK's input items, which fit both of OpenAI's APIs."""

from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from harness.core.errors import quoted
from harness.formats.json_values import JsonObject, object_in, objects_in

_ROLES = {"system", "developer", "user", "assistant", "tool"}


def items_of_messages(messages: Sequence[JsonValue]) -> tuple[JsonObject, ...]:
    """Return the input items of a conversation. Raises ValueError saying what is wrong with a message."""
    items: list[JsonObject] = []
    for number, message in enumerate(messages, 1):
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(message, dict) or role not in _ROLES:
            raise ValueError(f"message {number} has the role {quoted(role)}, not one of {', '.join(sorted(_ROLES))}")
        items += _items(message)
    return tuple(items)


def _items(message: JsonObject) -> Iterator[JsonObject]:
    content = message.get("content")
    if message["role"] == "tool":
        call_id = str(message.get("tool_call_id"))
        yield {"type": "function_call_output", "call_id": call_id, "output": _text(content)}
        return
    if content not in (None, "", []):
        assistant = message["role"] == "assistant"
        yield {"role": message["role"], "content": _text(content) if assistant else _parts(content)}
    for call in objects_in(message, "tool_calls"):
        function = object_in(call, "function")
        if not function.get("name"):
            raise ValueError("a tool call without a name")
        named: JsonObject = {"name": str(function["name"]), "arguments": str(function.get("arguments") or "{}")}
        yield {"type": "function_call", "call_id": str(call.get("id"))} | named


def _parts(content: JsonValue) -> JsonValue:
    """Return content with its parts as the SDK's input items have them."""
    return [_part(part) for part in content] if isinstance(content, list) else content


def _part(part: JsonValue) -> JsonValue:
    match part:
        case {"type": "text", "text": text}:
            return {"type": "input_text", "text": text}
        case {"type": "image_url", "image_url": {"url": url, **more}}:
            return {"type": "input_image", "image_url": url, "detail": more.get("detail", "auto")}
        case {"type": "image_url", "image_url": str(url)}:
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case {"type": "input_audio"}:
            return part
        case {"type": "file", "file": dict(file)}:
            return {"type": "input_file"} | file
        case _:
            return part


def _text(content: JsonValue) -> str:
    if not isinstance(content, list):
        return str("" if content is None else content)
    return "\n".join(str(part.get("text") or part.get("refusal") or "") for part in content if isinstance(part, dict))
