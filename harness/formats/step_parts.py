"""What the formats share: from the contents, thoughts and tool calls of a message to steps."""

import json

from pydantic import JsonValue

from harness.core.records import Step


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
