"""What TRL 1.16 takes of a line: preferences, whole chats, and prompts with their completion."""

from collections.abc import Iterator
from typing import Any

from harness.formats.training.checks import faults_of_tools, fields_of, list_of, other_keys
from harness.formats.training.talk_rules import faults_of_talk


def faults_of_pair(record: Any) -> Iterator[str]:
    """Yield what is wrong with a line of preferences."""
    yield from _faults(record, ("prompt", "chosen", "rejected"), replies=("chosen", "rejected"))
    fields = fields_of(record)
    if fields.get("chosen") == fields.get("rejected"):
        yield "chosen and rejected are the same"


def faults_of_chat(record: Any) -> Iterator[str]:
    """Yield what is wrong with a line that is a whole chat."""
    yield from _faults(record, ("messages",))
    messages = map(fields_of, list_of(fields_of(record).get("messages")))
    if not any(message.get("role") == "assistant" for message in messages):
        yield "messages holds no message of the assistant"


def faults_of_completion(record: Any) -> Iterator[str]:
    """Yield what is wrong with a line that is a prompt with its completion."""
    yield from _faults(record, ("prompt", "completion"), replies=("completion",))


def _faults(record: Any, talks: tuple[str, ...], replies: tuple[str, ...] = ()) -> Iterator[str]:
    fields = fields_of(record)
    yield from other_keys(fields, {*talks, "tools"}, "the line")
    for name in talks:
        yield from faults_of_talk(fields.get(name), name, dict)
    for name in replies:
        messages = list_of(fields.get(name))
        if messages and fields_of(messages[0]).get("role") != "assistant":
            yield f"{name} does not begin with the assistant"
    yield from faults_of_tools(fields)
