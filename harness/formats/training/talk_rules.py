"""The rules of chat messages that models are trained on, whose arguments are an object (TRL) or a text (`groups`)."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.formats.training.checks import fields_of, list_of

_ROLES = {"system", "developer", "user", "assistant", "tool"}


def faults_of_talk(value: Any, name: str, arguments: type) -> Iterator[str]:
    """Yield what is wrong with a list of messages; arguments of tool calls are of the type `arguments`."""
    messages = list_of(value)
    if not messages:
        yield f"{name} holds no message"
    for place, message in enumerate(map(fields_of, messages)):
        yield from _message(message, f"{name}[{place}]", arguments)


def _message(message: Mapping[str, Any], where: str, arguments: type) -> Iterator[str]:
    role, content = message.get("role"), message.get("content")
    if role not in _ROLES:
        yield f"{where}: role is {role!r}"
    if not (isinstance(content, str | list) or (content is None and role == "assistant")):
        yield f"{where}: content is no text"
    for call in map(fields_of, list_of(message.get("tool_calls"))):
        if "function" in call or arguments is dict:
            yield from _call(fields_of(call.get("function")), where, arguments)


def _call(function: Mapping[str, Any], where: str, arguments: type) -> Iterator[str]:
    if not isinstance(function.get("name"), str) or not isinstance(function.get("arguments"), arguments):
        kind = "an object" if arguments is dict else "a text"
        yield f"{where}: a tool call needs a name, and arguments as {kind}"
