"""OpenAI's published rules for the lines of preferences and of supervised examples.

Source: https://platform.openai.com/docs/guides/direct-preference-optimization and .../guides/supervised-fine-tuning.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

FEWEST_LINES = 10
"""OpenAI takes no smaller file."""
_ROLES = {"system", "user", "assistant", "tool"}
_KEYS = {"role", "content", "tool_calls", "tool_call_id", "name", "refusal"}
_PREFERENCE = {"input", "preferred_output", "non_preferred_output"}


def faults_of_preference(record: Any) -> Iterator[str]:
    """Yield what is wrong with a line of preferences."""
    fields = _fields(record)
    yield from _strange(fields, _PREFERENCE, "the line")
    asked = _fields(fields.get("input"))
    yield from _strange(asked, {"messages", "tools", "parallel_tool_calls"}, "input")
    yield from _talk(asked.get("messages"), "input.messages", extra=set())
    messages = asked.get("messages")
    if isinstance(messages, list) and messages and _fields(messages[-1]).get("role") == "assistant":  # pyright: ignore[reportUnknownArgumentType]
        yield "input.messages ends with the assistant"
    yield from _tools(asked)
    for name in ("preferred_output", "non_preferred_output"):
        yield from _output(fields.get(name), name)


def faults_of_example(record: Any) -> Iterator[str]:
    """Yield what is wrong with a line of supervised examples."""
    fields = _fields(record)
    yield from _strange(fields, {"messages", "tools", "parallel_tool_calls"}, "the line")
    yield from _talk(fields.get("messages"), "messages", extra={"weight"})
    messages = _list(fields.get("messages"))
    if messages and _fields(messages[-1]).get("role") != "assistant":
        yield "messages does not end with the assistant"
    weights = [_fields(m).get("weight", 1) for m in messages if _fields(m).get("role") == "assistant"]
    if any(weight not in (0, 1) for weight in weights):
        yield "a weight is neither 0 nor 1"
    elif messages and not any(weights):
        yield "no message of the assistant has weight 1"
    yield from _tools(fields)


def _output(value: Any, name: str) -> Iterator[str]:
    messages = _list(value)
    if len(messages) != 1 or _fields(messages[0]).get("role") != "assistant":
        yield f"{name} is not one message of the assistant"
    yield from _talk(value, name, extra=set(), begun=False)


def _talk(value: Any, name: str, *, extra: set[str], begun: bool = True) -> Iterator[str]:
    """Check a list of messages; with `begun`, each tool's message answers a call before it."""
    messages = _list(value)
    if not messages:
        yield f"{name} holds no message"
    open_calls: set[str] = set()
    for place, message in enumerate(map(_fields, messages)):
        where = f"{name}[{place}]"
        yield from _message(message, where, extra)
        if begun and message.get("role") == "tool" and message.get("tool_call_id") not in open_calls:
            yield f"{where} answers no tool call before it"
        open_calls |= {str(_fields(call).get("id")) for call in _list(message.get("tool_calls"))}


def _message(message: Mapping[str, Any], where: str, extra: set[str]) -> Iterator[str]:
    yield from _strange(message, _KEYS | extra, where)
    role, content, calls = message.get("role"), message.get("content"), _list(message.get("tool_calls"))
    if role not in _ROLES:
        yield f"{where}: role is {role!r}"
    if not (isinstance(content, str | list) or (content is None and role == "assistant")):
        yield f"{where}: content is no text"
    if role == "assistant" and not content and not calls and not message.get("refusal"):
        yield f"{where} says nothing"
    for call in map(_fields, calls):
        function = _fields(call.get("function"))
        if not isinstance(function.get("name"), str) or not isinstance(function.get("arguments"), str):
            yield f"{where}: a tool call needs a name, and arguments as a text"


def _tools(fields: Mapping[str, Any]) -> Iterator[str]:
    for place, tool in enumerate(map(_fields, _list(fields.get("tools")))):
        if tool.get("type") != "function" or not isinstance(_fields(tool.get("function")).get("name"), str):
            yield f"tools[{place}] is no function"


def _strange(fields: Mapping[str, Any], keys: set[str], where: str) -> Iterator[str]:
    if strange := sorted(set(fields) - keys):
        yield f"{where} has other keys: {', '.join(strange)}"


def _fields(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
