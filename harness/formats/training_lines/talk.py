"""Turns as the trajectory that a judge reads (the final conversation's query, steps and answer), and rewards."""

import math
from collections.abc import Sequence
from typing import Any

from harness.core.records import Step
from harness.formats.json_values import JsonObject, number_in
from harness.formats.messages import steps_of_messages
from harness.formats.step_parts import content_text
from harness.formats.turns import Message, Turn

_SYSTEM = {"system", "developer"}
_HIGHEST = 1e6
"""No reward of ours is greater, and no archive takes one."""


def bounded(parent: JsonObject, name: str) -> float | None:
    """Return a number that an archive takes; None where there is none. Raises ValueError."""
    number = number_in(parent, name)
    if number is not None and not (math.isfinite(number) and abs(number) <= _HIGHEST):
        raise ValueError(f"`{name}` is {number:g}; at most {_HIGHEST:g} is taken")
    return number


def read_of(turns: Sequence[Turn]) -> dict[str, Any]:
    """Return the fields of an ImportedTrajectory that turns tell. Raises ValueError."""
    outer = [turn for turn in turns if turn.within is None] or list(turns)
    query, path, answer = _judged(outer[-1].messages)
    instructions = [content_text(m.get("content")) for m in outer[0].context if m["role"] in _SYSTEM]
    tools = [tool["function"]["name"] for turn in turns for tool in turn.tools]
    return {
        "query": query,
        "path": path,
        "answer": answer,
        "instructions": "\n\n".join(instructions) or None,
        "tool_names": tuple(dict.fromkeys(map(str, tools))),
        "models": tuple(dict.fromkeys(turn.model for turn in turns if turn.model)),
        "turns": tuple(turns),
    }


def _judged(messages: Sequence[Message]) -> tuple[str, tuple[Step, ...], str]:
    """Return the first text of a user's, and the steps and the answer after it."""
    talk = [message for message in messages if message["role"] not in _SYSTEM]
    asked = next((at for at, m in enumerate(talk) if m["role"] == "user" and _text(m)), None)
    texts = [_text(talk[asked])] if asked is not None else [text for m in messages if (text := _text(m))]
    after = talk[asked + 1 :] if asked is not None else talk
    if not any(message["role"] == "assistant" for message in after):
        after = talk
    path, answer = steps_of_messages(after)
    return (texts or ["(no text)"])[0], path, answer


def _text(message: Message) -> str:
    return content_text(message.get("content")).strip() and content_text(message.get("content"))
