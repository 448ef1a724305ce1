"""A model call's request as it is recorded: raw calls hold it, the fingerprint hashes it, a replay compares it."""

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, cast

from agents import AgentOutputSchemaBase, FunctionTool, Handoff, ModelSettings

from harness.core.errors import counted
from harness.core.records import Record, digest

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


Scrub = Callable[[str], str]
"""Returns a text without what must not be kept."""
Request = Mapping[str, Any]
What = Literal[
    "prompt changed",
    "tool schema changed",
    "handoffs changed",
    "output schema changed",
    "tool output changed",
    "input changed",
    "more calls",
    "fewer calls",
    "answer changed",
    "ended otherwise",
]

_PARTS: Sequence[tuple[str, What]] = (
    ("instructions", "prompt changed"),
    ("tools", "tool schema changed"),
    ("handoffs", "handoffs changed"),
    ("output_schema", "output schema changed"),
)
_DIFF_LINES = 60


class Divergence(Record):
    """Where a replay first left its recording: what changed, at which model call and step, and how."""

    what: What
    call: int | None = None
    """The model call, from 1 in the order the recorded calls began; None where it is about none of them."""
    step: str | None = None
    """The path's step that it shows at, from 1 as `show` counts them; `2.1` is inside step 2."""
    agent: str | None = None
    tool: str | None = None
    detail: str = ""
    diff: str = ""


def as_archived(request: Request, scrub: Scrub) -> dict[str, Any]:
    """Return a request as the archive would give it back: through JSON, and redacted."""
    return cast("dict[str, Any]", scrubbed(json.loads(json.dumps(dict(request), default=str)), scrub))


def scrubbed(value: Any, scrub: Scrub) -> Any:
    """Return a JSON value with every string in it redacted."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, list):
        return [scrubbed(v, scrub) for v in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {k: scrubbed(v, scrub) for k, v in cast("dict[str, Any]", value).items()}
    return value


def likeness(recorded: Request, now: Request) -> tuple[int, int, int]:
    """Return how alike two requests are, to sort by: fixed parts in common, input in common, input that is left."""
    parts = sum(recorded.get(name) == now.get(name) for name, _ in _PARTS)
    before, after = input_items(recorded), input_items(now)
    return parts, common_start(before, after), -abs(len(before) - len(after))


def first_change(recorded: Request, now: Request) -> Divergence:
    """Return what changed first from one request to the other, which must differ: fixed parts, then the input."""
    for name, what in _PARTS:
        was, is_ = recorded.get(name), now.get(name)
        if was != is_:
            return Divergence(what=what, detail=_names(was, is_), diff=diff(was, is_))
    before, after = input_items(recorded), input_items(now)
    at = common_start(before, after)
    was, is_ = (before[at : at + 1] or [None])[0], (after[at : at + 1] or [None])[0]
    if not (_is_output(was) and _is_output(is_) and was["call_id"] == is_["call_id"]):
        return Divergence(what="input changed", detail=f"item {at + 1}", diff=diff(was, is_))
    call_id, change = was["call_id"], diff(was.get("output"), is_.get("output"))
    fields = [cast("dict[str, Any]", item) for item in before if isinstance(item, dict)]
    calls = (item for item in fields if item.get("type") == "function_call" and item.get("call_id") == call_id)
    tool = next((str(item["name"]) for item in calls), None)
    return Divergence(what="tool output changed", tool=tool, detail=str(call_id), diff=change)


def diff(before: Any, after: Any) -> str:
    """Return a unified diff of two values, texts as they are and all else as JSON; long ones are cut."""
    lines = difflib.unified_diff(_text(before).splitlines(), _text(after).splitlines(), "recorded", "now", lineterm="")
    shown = list(islice(lines, _DIFF_LINES))
    hidden = sum(1 for _ in lines)
    return "\n".join([*shown, f"... {counted(hidden, 'more line')}"] if hidden else shown)


def _text(value: Any) -> str:
    if value is None:
        return "(nothing)"
    return value if isinstance(value, str) else json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)


def _names(before: Any, after: Any) -> str:
    if not isinstance(before, list) or not isinstance(after, list):
        return ""
    old = {str(t["name"]): t for t in cast("list[dict[str, Any]]", before)}
    new = {str(t["name"]): t for t in cast("list[dict[str, Any]]", after)}
    changes = [f"{n} is gone" for n in old if n not in new] + [f"{n} is new" for n in new if n not in old]
    changes += [f"{n} is another" for n in old if n in new and old[n] != new[n]]
    return ", ".join(changes) or "the same in another order"


def _is_output(item: Any) -> bool:
    return isinstance(item, dict) and cast("dict[str, Any]", item).get("type") == "function_call_output"
