"""A model call's request as it is recorded: raw calls hold it, the fingerprint hashes it, a replay compares it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from agents import AgentOutputSchemaBase, FunctionTool, Handoff, ModelSettings

from harness.core.records import digest

_SAMPLING = {"temperature", "top_p", "extra_body"}


def build_request(
    system: str | None,
    items: Any,
    tools: list[Any],
    output_schema: AgentOutputSchemaBase | None,
    handoffs: list[Handoff[Any]],
) -> dict[str, Any]:
    """Return a request: its instructions, input (a text or items), tools, handoffs and output schema."""
    described: list[dict[str, Any]] = [{"name": tool.name} for tool in tools]
    for words, tool in zip(described, tools, strict=True):
        if isinstance(tool, FunctionTool):
            words |= {"description": tool.description, "schema": tool.params_json_schema}
    schema = None if output_schema is None or output_schema.is_plain_text() else output_schema.json_schema()
    return {
        "instructions": system,
        "input": items if isinstance(items, str) else list(items),
        "tools": described,
        "handoffs": [{"name": h.tool_name, "schema": h.input_json_schema} for h in handoffs],
        "output_schema": schema,
    }


def hash_agent(request: Mapping[str, Any], settings: ModelSettings, model: str | None) -> str:
    """Hash what makes the agent this agent: everything it sends but the query and the sampling."""
    fixed = {k: v for k, v in request.items() if k != "input"}
    fixed_settings = {k: v for k, v in settings.to_json_dict().items() if k not in _SAMPLING}
    try:
        return digest([fixed, fixed_settings, model])
    except TypeError:  # something that JSON has no form for
        return digest([fixed, json.loads(json.dumps(fixed_settings, default=str)), model])


def input_items(request: Mapping[str, Any]) -> Sequence[Any]:
    """Return a request's input items; a plain text is one item."""
    content = request["input"]
    return [content] if isinstance(content, str) else cast("Sequence[Any]", content)


def common_start(before: Sequence[Any], after: Sequence[Any]) -> int:
    """Return how many items two lists begin with alike."""
    shorter = min(len(before), len(after))
    if before[:shorter] == after[:shorter]:  # as mostly, and quicker than item by item
        return shorter
    return next((place for place in range(shorter) if before[place] != after[place]), shorter)


def sent_output(requests: Sequence[Mapping[str, Any]], at: int, call_id: str | None) -> Any:
    """Return a tool call's output as the request that went on from request `at` has it (ids may repeat); else None."""
    before = input_items(requests[at])
    for later in requests[at + 1 :]:
        after = input_items(later)
        if common_start(before, after) == len(before):
            for item in after[len(before) :]:
                if call_id and _answers(item, call_id):
                    return item["output"]
    return None


def _answers(item: Any, call_id: str) -> bool:
    fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
    return str(fields.get("type", "")).endswith("_call_output") and fields.get("call_id") == call_id
