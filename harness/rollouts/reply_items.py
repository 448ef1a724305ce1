"""The items of a model's reply, whichever API it came by: reasoning, text, calls, hosted tools with their results."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agents import Agent, Model, OpenAIChatCompletionsModel, UserError
from agents.models import _openai_shared  # pyright: ignore[reportPrivateUsage] - the SDK has no public getter
from agents.models.chatcmpl_converter import Converter

from harness.core.errors import UsageError, option
from harness.endpoints.address import Endpoint
from harness.rollouts.graph import in_sight


def check_tools(agent: Agent[Any], endpoint: Endpoint | None, model: str | None) -> None:
    """Raise UsageError where an agent in sight, on `model` if named, has a tool that its API does not take."""
    for each in in_sight(agent):
        for tool in each.tools:
            try:
                Converter.tool_to_openai(tool)
            except UserError:
                break
        else:
            continue
        what = f"agent {each.name!r} has the tool {tool.name!r}, which Chat Completions does not know"
        if model is None and isinstance(each.model, Model):
            if isinstance(each.model, OpenAIChatCompletionsModel):
                raise UsageError(f"{what}: give the agent an OpenAIResponsesModel, or other tools")
        elif endpoint.api == "chat" if endpoint else not _openai_shared.get_use_responses_by_default():
            raise UsageError(
                f"{what}: call the model with {option('api', 'responses')}, if its server knows that API, or give the "
                "agent other tools (`env.api` in `build(env)` says which API a run calls)"
            )


_THINK = re.compile(r"^\s*<think>(.*?)</think>\s*", re.DOTALL)
_HIDDEN = "(reasoning encrypted by the endpoint)"
_INPUTS = ("revised_prompt", "action", "actions", "queries", "code", "arguments", "operation", "commands", "input")
_OUTPUTS = ("results", "outputs", "output", "error")
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
        arguments = function.get("arguments", function.get("input"))
        yield ReplyItem(call_id=call.get("id"), tool=function.get("name"), arguments=arguments)


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
        arguments = item.get("arguments", item.get("input"))
        yield ReplyItem(call_id=item.get("call_id"), tool=item.get("name"), arguments=arguments)
    elif kind.endswith("_call") and kind not in _NO_STEP:
        yield _hosted(kind.removesuffix("_call"), item)


def _hosted(kind: str, item: Mapping[str, Any]) -> ReplyItem:
    output = _first(item, _OUTPUTS)
    if kind == "image_generation":
        # The picture itself is in the raw reply's blob; a judge of text reads that there is one, and how large.
        size = len(str(item.get("result") or "")) * 3 // 4
        output = f"an image of about {size} bytes" if size else None
    if kind == "web_search" and (sources := cast("Mapping[str, Any]", item.get("action") or {}).get("sources")):
        output = json.dumps(sources, ensure_ascii=False)
    return ReplyItem(
        call_id=item.get("call_id") or item.get("id"),
        tool=item.get("name") or kind,
        hosted=True,
        arguments=_first(item, _INPUTS),
        output=output,
        server=item.get("server_label"),
        error=_text(item.get("error")),
    )


def _from_text(text: Any) -> Iterator[ReplyItem]:
    if text:
        reasoning, rest = split_think(str(text))
        if reasoning:
            yield ReplyItem(reasoning=reasoning)
        if rest.strip():
            yield ReplyItem(text=rest)


def _first(item: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return _text(next((item[n] for n in names if item.get(n) is not None), None))


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
