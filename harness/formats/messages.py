"""Chat messages: one object a trajectory, `messages` as OpenAI's Chat Completions has them, tool calls and results too.

Beside them optionally `query_id`, `id`, `reward`, `reference`, `metadata`. The first user message is the query.
"""

import json
from collections.abc import Sequence

from pydantic import JsonValue

from harness.core.records import Step
from harness.formats.json_values import JsonObject, number_in, object_in, objects_in, objects_of_kinds, text_in
from harness.formats.training.origins import ImportedTrajectory
from harness.rollouts.reply_items import split_think


def content_text(content: JsonValue) -> str:
    """Return a message's content as text: parts by their text, others by their type."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = [part for part in (content if isinstance(content, list) else [content]) if isinstance(part, dict)]
    return "\n".join(str(p.get("text") or p.get("content") or f"[{p.get('type', 'part')}]") for p in parts)


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


SYSTEM_ROLES = ("developer", "system")
_ROLES = ("assistant", "developer", "system", "tool", "user")


def read_messages(document: JsonObject) -> ImportedTrajectory:
    """Read one object. Raises ValueError saying what is wrong with it."""
    messages = checked_messages(document.get("messages"))
    system = [content_text(m.get("content")) for m in messages if m["role"] in SYSTEM_ROLES]
    talk = [m for m in messages if m["role"] not in SYSTEM_ROLES]
    if not talk or talk[0]["role"] != "user" or not content_text(talk[0].get("content")).strip():
        raise ValueError("the first message after the system's must be a user's, with a text")
    path, answer = steps_of_messages(talk[1:])
    tools = [object_in(t, "function") if "function" in t else t for t in objects_in(document, "tools")]
    offered = [str(tool.get("name")) for tool in tools]
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
        tool_names=tuple(dict.fromkeys(offered or [step.tool_name for step in path if step.tool_name])),
        models=(str(document["model"]),) if document.get("model") else (),
        temperature=number_in(document, "temperature"),
    )


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
            think_block, text = split_think(content_text(message.get("content") or message.get("refusal")))
            thought = content_text(message.get("reasoning_content") or message.get("reasoning")) or think_block
            calls = objects_in(message, "tool_calls")
            reasoning = join_texts(thought, text)
            for call in calls:
                function, call_id = object_in(call, "function") or object_in(call, "custom"), str(call.get("id"))
                if not function.get("name"):
                    raise ValueError("a tool call without a name")
                arguments, output = function.get("arguments", function.get("input")), results.get(call_id)
                steps.append(
                    function_step(str(function["name"]), call_id, arguments, output=output, reasoning=reasoning)
                )
                reasoning = None
            if calls:
                continue
            if at == last:
                answer, text = text, ""
            steps += steps_without_call(thought, text)
    return tuple(steps), answer


def checked_messages(messages: JsonValue) -> list[JsonObject]:
    """Return chat messages. Raises ValueError for none, for an unfit role, and where no message is an assistant's."""
    checked = objects_of_kinds(messages, "message", "role", _ROLES)
    if not any(message["role"] == "assistant" for message in checked):
        raise ValueError("no message is an assistant's")
    return checked
