"""OpenAI's published rules for the lines of preferences and of supervised examples.

Source: https://platform.openai.com/docs/guides/direct-preference-optimization and .../guides/supervised-fine-tuning.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.formats.training.checks import faults_of_tools, fields_of, list_of, other_keys

FEWEST_LINES = 10
"""OpenAI takes no smaller file."""
_ROLES = {"system", "user", "assistant", "tool"}
_KEYS = {"role", "content", "tool_calls", "tool_call_id", "name", "refusal"}
_PREFERENCE = {"input", "preferred_output", "non_preferred_output"}


def faults_of_preference(record: Any) -> Iterator[str]:
    """Yield what is wrong with a line of preferences."""
    fields = fields_of(record)
    yield from other_keys(fields, _PREFERENCE, "the line")
    asked = fields_of(fields.get("input"))
    yield from other_keys(asked, {"messages", "tools", "parallel_tool_calls"}, "input")
    yield from _talk(asked.get("messages"), "input.messages", extra=set())
    messages = asked.get("messages")
    if isinstance(messages, list) and messages and fields_of(messages[-1]).get("role") == "assistant":  # pyright: ignore[reportUnknownArgumentType]
        yield "input.messages ends with the assistant"
    yield from faults_of_tools(asked)
    for name in ("preferred_output", "non_preferred_output"):
        yield from _output(fields.get(name), name)


def faults_of_example(record: Any) -> Iterator[str]:
    """Yield what is wrong with a line of supervised examples."""
    fields = fields_of(record)
    yield from other_keys(fields, {"messages", "tools", "parallel_tool_calls"}, "the line")
    yield from _talk(fields.get("messages"), "messages", extra={"weight"})
    messages = list_of(fields.get("messages"))
    if messages and fields_of(messages[-1]).get("role") != "assistant":
        yield "messages does not end with the assistant"
    weights = [fields_of(m).get("weight", 1) for m in messages if fields_of(m).get("role") == "assistant"]
    if any(weight not in (0, 1) for weight in weights):
        yield "a weight is neither 0 nor 1"
    elif messages and not any(weights):
        yield "no message of the assistant has weight 1"
    yield from faults_of_tools(fields)


def _output(value: Any, name: str) -> Iterator[str]:
    messages = list_of(value)
    if len(messages) != 1 or fields_of(messages[0]).get("role") != "assistant":
        yield f"{name} is not one message of the assistant"
    yield from _talk(value, name, extra=set(), begun=False)


def _talk(value: Any, name: str, *, extra: set[str], begun: bool = True) -> Iterator[str]:
    """Check a list of messages; with `begun`, each tool's message answers a call before it."""
    messages = list_of(value)
    if not messages:
        yield f"{name} holds no message"
    open_calls: set[str] = set()
    for place, message in enumerate(map(fields_of, messages)):
        where = f"{name}[{place}]"
        yield from _message(message, where, extra)
        if begun and message.get("role") == "tool" and message.get("tool_call_id") not in open_calls:
            yield f"{where} answers no tool call before it"
        open_calls |= {str(fields_of(call).get("id")) for call in list_of(message.get("tool_calls"))}


def _message(message: Mapping[str, Any], where: str, extra: set[str]) -> Iterator[str]:
    yield from other_keys(message, _KEYS | extra, where)
    role, content, calls = message.get("role"), message.get("content"), list_of(message.get("tool_calls"))
    if role not in _ROLES:
        yield f"{where}: role is {role!r}"
    if not (isinstance(content, str | list) or (content is None and role == "assistant")):
        yield f"{where}: content is no text"
    if role == "assistant" and not content and not calls and not message.get("refusal"):
        yield f"{where} says nothing"
    for call in map(fields_of, calls):
        function = fields_of(call.get("function"))
        if not isinstance(function.get("name"), str) or not isinstance(function.get("arguments"), str):
            yield f"{where}: a tool call needs a name, and arguments as a text"
