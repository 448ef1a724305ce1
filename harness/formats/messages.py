"""Chat messages: one object a trajectory, `messages` as OpenAI's Chat Completions has them, tool calls and results too.

Beside them optionally `query_id`, `id`, `reward`, `reference`, `metadata`. The first user message is the query.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from harness.core.records import Step
from harness.formats.foreign import Foreign, joined, uncalled
from harness.rollouts import split_think

_SYSTEM = {"system", "developer"}
_ROLES = _SYSTEM | {"user", "assistant", "tool"}

Message = Mapping[str, Any]


def read_messages(told: Mapping[str, Any]) -> Foreign:
    """Read one object. Raises ValueError saying what is wrong with it."""
    messages = _messages(told.get("messages"))
    system = [content_text(m.get("content")) for m in messages if m["role"] in _SYSTEM]
    talk = [m for m in messages if m["role"] not in _SYSTEM]
    if not talk or talk[0]["role"] != "user" or not content_text(talk[0].get("content")).strip():
        raise ValueError("the first message after the system's must be a user's, with a text")
    if not any(m["role"] == "assistant" for m in talk):
        raise ValueError("no message is an assistant's")
    path, answer = steps_of_messages(talk[1:])
    names = [
        str(cast("Message", t.get("function", t)).get("name")) for t in cast("list[Message]", told.get("tools") or [])
    ]
    names = names or [s.tool_name for s in path if s.tool_name]
    return Foreign(
        format="messages",
        query=content_text(talk[0].get("content")),
        query_id=_text_or_none(told.get("query_id")),
        id=_text_or_none(told.get("id")),
        path=path,
        answer=answer,
        reward=told.get("reward"),
        reference=_text_or_none(told.get("reference")),
        metadata=told.get("metadata") or {},
        instructions="\n\n".join(system) or None,
        tool_names=tuple(dict.fromkeys(names)),
        models=(str(told["model"]),) if told.get("model") else (),
        temperature=told.get("temperature"),
    )


def steps_of_messages(talk: Sequence[Message]) -> tuple[tuple[Step, ...], str]:
    """Return the steps of what followed the query, and the answer: the last assistant's text, if no call came with it.

    What was thought and said goes with the first of the calls that it led to, as in rollouts made here.
    """
    results = {str(m.get("tool_call_id")): content_text(m.get("content")) for m in talk if m["role"] == "tool"}
    last = max(i for i, m in enumerate(talk) if m["role"] == "assistant")
    steps: list[Step] = []
    answer = ""
    for at, message in enumerate(talk):
        if message["role"] == "user":
            steps.append(Step(kind="message", reasoning=f"The user said: {content_text(message.get('content'))}"))
        elif message["role"] == "assistant":
            thought, said = _said(message)
            calls = cast("list[Message]", message.get("tool_calls") or [])
            if calls:
                steps += _calls(calls, results, joined(thought, said))
                continue
            if at == last:
                answer, said = said, ""
            steps += uncalled(thought, said)
    return tuple(steps), answer


def content_text(content: Any) -> str:
    """Return a message's content as text: parts by their text, others by their type."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = cast("list[Any]", content) if isinstance(content, list) else [content]
    told = [cast("Message", p) for p in parts if isinstance(p, dict)]
    return "\n".join(str(p.get("text") or p.get("content") or f"[{p.get('type', 'part')}]") for p in told)


def _messages(given: Any) -> list[Message]:
    if not isinstance(given, list) or not given:
        raise ValueError("`messages` must be a list of messages")
    for number, message in enumerate(cast("list[Any]", given), 1):
        role = cast("Message", message).get("role") if isinstance(message, dict) else None
        if role not in _ROLES:
            raise ValueError(f"message {number} has the role {role!r}, not one of {', '.join(sorted(_ROLES))}")
    return cast("list[Message]", given)


def _said(message: Message) -> tuple[str | None, str]:
    """Return what an assistant's message thought and said; a leading <think> block is a thought."""
    thought = content_text(message.get("reasoning_content") or message.get("reasoning")) or None
    lifted, said = split_think(content_text(message.get("content") or message.get("refusal")))
    return thought or lifted, said


def _calls(calls: Sequence[Message], results: Mapping[str, str], before: str | None) -> list[Step]:
    steps: list[Step] = []
    for call in calls:
        function = cast("Message", call.get("function") or call.get("custom") or {})
        if not function.get("name"):
            raise ValueError("a tool call without a name")
        given = function.get("arguments", function.get("input"))
        call_id = str(call.get("id"))
        steps.append(
            Step(
                kind="tool",
                tool_type="function",
                tool_name=str(function["name"]),
                call_id=call_id,
                tool_input=given if isinstance(given, str) or given is None else json.dumps(given, ensure_ascii=False),
                tool_output=results.get(call_id),
                reasoning=None if steps else before,
            )
        )
    return steps


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)
