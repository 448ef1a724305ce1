"""Chat messages: one object a trajectory, `messages` as OpenAI's Chat Completions has them, tool calls and results too.

Beside them optionally `query_id`, `id`, `reward`, `reference`, `metadata`. The first user message is the query.
"""

import json
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from harness.core.errors import quoted
from harness.core.records import Step
from harness.formats.imported_trajectory import ImportedTrajectory
from harness.formats.json_values import JsonObject, number_in, object_in, objects_in, text_in
from harness.rollouts.reply_items import split_think


def content_text(content: JsonValue) -> str:
    """Return a message's content as text: parts by their text, others by their type."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    return "\n".join(_part_text(part) for part in parts if isinstance(part, dict))


def _part_text(part: dict[str, JsonValue]) -> str:
    return str(part.get("text") or part.get("content") or f"[{part.get('type', 'part')}]")


def join_texts(thought: str | None, text: str | None) -> str | None:
    """Return a thought and, below it, the text that came with it; None for neither."""
    return "\n".join(filter(None, [thought, text])) or None


def steps_without_call(thought: str | None, text: str | None) -> list[Step]:
    """Return a thought and a text that came without a tool call as one step; no step for neither."""
    reasoning = join_texts(thought, text)
    return [Step(kind="reasoning" if thought else "message", reasoning=reasoning)] if reasoning else []


def function_step(name: str, call_id: str, arguments: JsonValue, *, output: str | None, reasoning: str | None) -> Step:
    """Return the call of a function tool as a step."""
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return Step(
        kind="tool",
        tool_type="function",
        tool_name=name,
        call_id=call_id,
        tool_input=arguments,
        tool_output=output,
        reasoning=reasoning,
    )


_SYSTEM = {"system", "developer"}
_ROLES = _SYSTEM | {"user", "assistant", "tool"}


def read_messages(document: JsonObject) -> ImportedTrajectory:
    """Read one object. Raises ValueError saying what is wrong with it."""
    messages = checked_messages(document.get("messages"))
    system = [content_text(m.get("content")) for m in messages if m["role"] in _SYSTEM]
    talk = [m for m in messages if m["role"] not in _SYSTEM]
    if not talk or talk[0]["role"] != "user" or not content_text(talk[0].get("content")).strip():
        raise ValueError("the first message after the system's must be a user's, with a text")
    path, answer = steps_of_messages(talk[1:])
    return ImportedTrajectory(
        format="messages",
        query=content_text(talk[0].get("content")),
        query_id=text_in(document, "query_id"),
        id=text_in(document, "id"),
        path=path,
        answer=answer,
        reward=number_in(document, "reward"),
        reference=text_in(document, "reference"),
        metadata=object_in(document, "metadata"),
        instructions="\n\n".join(system) or None,
        tool_names=tuple(dict.fromkeys(_tool_names(document, path))),
        models=(str(document["model"]),) if document.get("model") else (),
        temperature=number_in(document, "temperature"),
    )


def _tool_names(document: JsonObject, path: Sequence[Step]) -> list[str]:
    """Return the names of the tools offered, else of those called."""
    tools = objects_in(document, "tools")
    offered = [str((object_in(tool, "function") if "function" in tool else tool).get("name")) for tool in tools]
    return offered or [step.tool_name for step in path if step.tool_name]


def steps_of_messages(talk: Sequence[JsonObject]) -> tuple[tuple[Step, ...], str]:
    """Return the steps of what followed the query, and the answer: the last assistant's text, if no call came with it.

    The reasoning and text of a message belong to the first of its calls, as in rollouts made here.
    """
    results = {str(m.get("tool_call_id")): content_text(m.get("content")) for m in talk if m["role"] == "tool"}
    last = max(i for i, m in enumerate(talk) if m["role"] == "assistant")
    steps: list[Step] = []
    answer = ""
    for at, message in enumerate(talk):
        if message["role"] == "user":
            steps.append(Step(kind="message", reasoning=f"The user said: {content_text(message.get('content'))}"))
        elif message["role"] == "assistant":
            thought, text = _thought_and_text(message)
            calls = objects_in(message, "tool_calls")
            if calls:
                steps += _call_steps(calls, results, join_texts(thought, text))
                continue
            if at == last:
                answer, text = text, ""
            steps += steps_without_call(thought, text)
    return tuple(steps), answer


def checked_messages(messages: JsonValue) -> list[JsonObject]:
    """Return chat messages. Raises ValueError for none, for an unfit role, and where no message is an assistant's."""
    if not isinstance(messages, list) or not messages:
        raise ValueError("`messages` must be a list of messages")
    checked: list[JsonObject] = []
    for number, message in enumerate(messages, 1):
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(message, dict) or role not in _ROLES:
            raise ValueError(f"message {number} has the role {quoted(role)}, not one of {', '.join(sorted(_ROLES))}")
        checked.append(message)
    if not any(message["role"] == "assistant" for message in checked):
        raise ValueError("no message is an assistant's")
    return checked


def _thought_and_text(message: JsonObject) -> tuple[str | None, str]:
    """Return the reasoning and the text of an assistant's message; a leading <think> block is reasoning."""
    thought = content_text(message.get("reasoning_content") or message.get("reasoning")) or None
    think_block, text = split_think(content_text(message.get("content") or message.get("refusal")))
    return thought or think_block, text


def _call_steps(calls: Sequence[JsonObject], results: Mapping[str, str], reasoning: str | None) -> list[Step]:
    steps: list[Step] = []
    for call in calls:
        function = object_in(call, "function") or object_in(call, "custom")
        if not function.get("name"):
            raise ValueError("a tool call without a name")
        call_id = str(call.get("id"))
        steps.append(
            function_step(
                str(function["name"]),
                call_id,
                function.get("arguments", function.get("input")),
                output=results.get(call_id),
                reasoning=None if steps else reasoning,
            )
        )
    return steps
