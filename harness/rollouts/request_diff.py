"""What changed first between two requests of one agent."""

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, cast

from harness.core.records import Record
from harness.core.wording import counted
from harness.rollouts.model_request import common_start, input_items

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
