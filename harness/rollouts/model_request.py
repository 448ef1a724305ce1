"""A model call as it is recorded: its request, how two requests differ, and the items of its reply."""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, cast

import agents
from agents.models import _openai_shared  # pyright: ignore[reportPrivateUsage] - the SDK has no public getter
from agents.models.chatcmpl_converter import Converter

from harness.core.errors import UsageError, counted, option
from harness.core.records import Record, digest
from harness.endpoints.address import Endpoint
from harness.endpoints.refused_settings import leaves_reasoning
from harness.rollouts.graph import in_sight

_SAMPLING = {"temperature", "top_p", "extra_body"}


def build_request(
    system: str | None,
    items: Any,
    tools: list[Any],
    output_schema: agents.AgentOutputSchemaBase | None,
    handoffs: list[agents.Handoff[Any]],
) -> dict[str, Any]:
    """Return a request: its instructions, input (a text or items), tools, handoffs and output schema."""
    described: list[dict[str, Any]] = [{"name": tool.name} for tool in tools]
    for words, tool in zip(described, tools, strict=True):
        if isinstance(tool, agents.FunctionTool):
            words |= {"description": tool.description, "schema": tool.params_json_schema}
    schema = None if output_schema is None or output_schema.is_plain_text() else output_schema.json_schema()
    return {
        "instructions": system,
        "input": items if isinstance(items, str) else list(items),
        "tools": described,
        "handoffs": [{"name": h.tool_name, "schema": h.input_json_schema} for h in handoffs],
        "output_schema": schema,
    }


def hash_agent(
    request: Mapping[str, Any], settings: agents.ModelSettings, model: str | None, usual: Callable[[str], str]
) -> str:
    """Hash what makes the agent this agent: all that it sends, in its `usual` words, but the query and the sampling."""
    fixed = scrubbed({k: v for k, v in request.items() if k != "input"}, usual)
    fixed_settings = {k: v for k, v in settings.to_json_dict().items() if k not in _SAMPLING}
    if leaves_reasoning(settings):
        fixed_settings["reasoning"] = None
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
    item = sent_item(requests, at, call_id)
    return item and item["output"]


def sent_item(requests: Sequence[Mapping[str, Any]], at: int, call_id: str | None) -> Mapping[str, Any] | None:
    """Return the input item that answers a tool call, from the request that went on from request `at`; else None."""
    before = input_items(requests[at])
    for later in requests[at + 1 :]:
        after = input_items(later)
        if common_start(before, after) == len(before):
            for item in after[len(before) :]:
                if call_id and _answers(item, call_id):
                    return item
    return None


def as_returned(output: Any) -> Any:
    """Return an output that a request has as a tool returns it: parts have types of their own there.

    One text stands alone, as an MCP server's does: people and judges read it as it was.
    """
    if not isinstance(output, list | tuple):
        return output
    parts = cast("Sequence[Mapping[str, Any]]", output)
    returned = [{**part, "type": str(part.get("type", "")).removeprefix("input_")} for part in parts]
    return returned[0] if len(returned) == 1 and returned[0]["type"] == "text" else returned


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

    @property
    def words(self) -> str:
        """What changed, on one line."""
        lines = [line for line in self.diff.splitlines() if line[:1] in {"-", "+"} and line[:3] not in {"---", "+++"}]
        return ": ".join(filter(None, (self.what, self.tool or self.detail, " ".join(lines)[:600])))


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


def check_tools(agent: agents.Agent[Any], endpoint: Endpoint | None, model: str | None) -> None:
    """Raise UsageError where an agent in sight, on `model` if named, has a tool that its API does not take."""
    for each in in_sight(agent):
        check_chat(each, each.tools, endpoint, model)


def check_chat(
    agent: agents.Agent[Any],
    tools: Iterable[agents.Tool],
    endpoint: Endpoint | None,
    model: str | None,
    beside: str | None = None,
) -> None:
    """Raise UsageError where an agent's API does not take one of its tools, or what it has `beside` them, in words."""
    for tool in tools:
        try:
            Converter.tool_to_openai(tool)
        except agents.UserError:
            beside = f"the tool {tool.name!r}"
            break
    if beside is None:
        return
    what = f"agent {agent.name!r} has {beside}, which Chat Completions does not know"
    if model is None and isinstance(agent.model, agents.Model):
        if isinstance(agent.model, agents.OpenAIChatCompletionsModel):
            raise UsageError(f"{what}: give the agent an OpenAIResponsesModel, or other tools")
    elif endpoint.api == "chat" if endpoint else not _openai_shared.get_use_responses_by_default():
        raise UsageError(
            f"{what}: call the model with {option('api', 'responses')}, if its server knows that API, or give the "
            "agent other tools (`env.api` in `build(env)` says which API a run calls; a SandboxAgent has those of its "
            "`capabilities`, such as `[Shell()]`)"
        )


_THINK = re.compile(r"^\s*<think>(.*?)</think>\s*", re.DOTALL)
_HIDDEN = "(reasoning encrypted by the endpoint)"
_INPUTS = ("revised_prompt", "action", "actions", "queries", "code", "arguments", "operation", "commands", "input")
_OUTPUTS = ("results", "outputs", "output", "result", "error")
_NO_STEP = {"mcp_list_tools", "compaction"}
"""Items in which nothing is done."""


@dataclass(frozen=True)
class ReplyItem:
    """One item of a reply. A function tool's output stands elsewhere; a hosted tool's output comes with its call."""

    reasoning: str | None = None
    text: str | None = None
    call_id: str | None = None
    tool: str | None = None
    arguments: str | None = None
    hosted: bool = False
    output: str | None = None
    server: str | None = None
    error: str | None = None


def split_think(text: str) -> tuple[str | None, str]:
    """Return (reasoning, rest) of a text that opens with a `<think>` block, else (None, text)."""
    block = _THINK.match(text)
    return (block[1].strip(), text[block.end() :]) if block else (None, text)


def items_of_reply(data: Any) -> Iterator[ReplyItem]:
    """Yield the items of a reply, in order, from the data of its generation or response span."""
    if data.type == "response":
        yield from items_of_output(data.response.output if data.response is not None else ())
        return
    for message in cast("Sequence[Mapping[str, Any]]", data.output or ()):
        if "output" in message:  # a streamed reply comes as a whole Response
            yield from items_of_output(message["output"])
        else:
            yield from _from_message(message)


def items_of_output(output: Sequence[Any]) -> Iterator[ReplyItem]:
    """Yield the items of a reply's output, the SDK's objects or mappings."""
    for item in output:
        # Gateways send shapes that the SDK's types do not foresee; what is there is read as it is.
        dump = getattr(item, "model_dump", None)
        yield from _from_item(dump(mode="json", warnings=False) if dump else item)


def _from_message(message: Mapping[str, Any]) -> Iterator[ReplyItem]:
    """Read a chat message. vLLM and DeepSeek call it reasoning_content, OpenRouter and newer vLLM reasoning."""
    if reasoning := message.get("reasoning_content") or message.get("reasoning"):
        yield ReplyItem(reasoning=str(reasoning))
    yield from _from_text(message.get("content") or message.get("refusal"))
    for call in message.get("tool_calls") or ():
        function: Mapping[str, Any] = call.get("function") or call.get("custom") or {}
        yield _called(call.get("id"), function)


def _from_item(item: Mapping[str, Any]) -> Iterator[ReplyItem]:
    kind = str(item["type"])
    if kind == "reasoning":
        parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
        text = "\n".join(str(p["text"]) for p in parts if p.get("text"))
        if text or item.get("encrypted_content"):
            yield ReplyItem(reasoning=text or _HIDDEN)
    elif kind == "message":
        for part in item.get("content") or ():
            yield from _from_text(part.get("text") or part.get("refusal"))
    elif kind in {"function_call", "custom_tool_call"}:
        yield _called(item.get("call_id"), item)
    elif kind in {"program", "program_output"}:  # its output comes with a later reply, once its tools have run
        yield _hosted("programmatic_tool_calling", item)
    elif kind.endswith("_call") and kind not in _NO_STEP:
        yield _hosted(kind.removesuffix("_call"), item)


def _called(call_id: Any, call: Mapping[str, Any]) -> ReplyItem:
    arguments = call.get("arguments", call.get("input"))
    return ReplyItem(call_id=_item_text(call_id), tool=_item_text(call.get("name")), arguments=_item_text(arguments))


def _hosted(kind: str, item: Mapping[str, Any]) -> ReplyItem:
    output = _first(item, _OUTPUTS)
    if kind == "image_generation":
        # The picture itself is in the raw reply's blob; a judge of text reads that there is one, and how large.
        size = len(str(item.get("result") or "")) * 3 // 4
        output = f"an image of about {size} bytes" if size else None
    if kind == "web_search" and (sources := cast("Mapping[str, Any]", item.get("action") or {}).get("sources")):
        output = json.dumps(sources, ensure_ascii=False)
    return ReplyItem(
        call_id=_item_text(item.get("call_id") or item.get("id")),
        tool=_item_text(item.get("name")) or kind,
        hosted=kind != "local_shell",  # which the agent's own code runs, without a span
        arguments=_first(item, _INPUTS),
        output=output,
        server=_item_text(item.get("server_label")),
        error=_item_text(item.get("error")),
    )


def _from_text(text: Any) -> Iterator[ReplyItem]:
    if text:
        reasoning, rest = split_think(str(text))
        if reasoning:
            yield ReplyItem(reasoning=reasoning)
        if rest.strip():
            yield ReplyItem(text=rest)


def _first(item: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return _item_text(next((item[n] for n in names if item.get(n) is not None), None))


def _item_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
