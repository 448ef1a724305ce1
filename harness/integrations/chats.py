"""Trainers' prompts and completions as chat messages."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_Message = Mapping[str, Any]
Chat = list[_Message]


def chat_of(prompt: str | Sequence[_Message], completion: str | Sequence[_Message]) -> Chat:
    """Return a prompt and its completion, texts or messages, as messages in which each result names its call."""
    asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    answered = [{"role": "assistant", "content": completion}] if isinstance(completion, str) else completion
    return list(_with_ids([*asked, *answered]))


def _with_ids(messages: Sequence[_Message]) -> Iterator[_Message]:
    """Give calls without an id one, and their results the same: trainers go by the order."""
    waiting = deque[str]()
    for number, message in enumerate(messages):
        if calls := message.get("tool_calls"):
            named = [{**call, "id": call.get("id") or f"call-{number}-{at}"} for at, call in enumerate(calls)]
            waiting = deque(call["id"] for call in named)
            yield {**message, "tool_calls": named}
        elif message.get("role") == "tool" and not message.get("tool_call_id") and waiting:
            yield {**message, "tool_call_id": waiting.popleft()}
        else:
            yield message
