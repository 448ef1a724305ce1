"""`offline-extractive`: an SDK Model that plans searches, calls the search tool, and writes from the results."""

import json
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

from agents import FunctionTool, Model, ModelResponse, ModelSettings, ModelTracing, Tool, Usage, generation_span
from agents.items import TResponseInputItem, TResponseOutputItem
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_reasoning_item import Summary

from harness.core.settings import OFFLINE_MODEL
from harness.endpoints.streams import completed
from harness.offline.tool import parse_passages
from harness.offline.writer import Chooser, SearchHistory, next_move, write_summary


class OfflineModel(Model):
    """Greedy at temperature 0 (the same twice), softmax-sampled above it from `rng`. Not a language model."""

    model = OFFLINE_MODEL

    def __init__(self, rng: random.Random) -> None:
        """Draw every choice from `rng`; one model a rollout, so that rollouts do not share chance."""
        self._rng = rng

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002 - the SDK's name
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: Any,
        handoffs: Any,
        tracing: ModelTracing,
        **_: Any,
    ) -> ModelResponse:
        """Return reasoning and a search, or reasoning and the answer."""
        del output_schema, handoffs
        items = [{"role": "user", "content": input}] if isinstance(input, str) else cast("list[dict[str, Any]]", input)
        config = {"temperature": model_settings.temperature, "top_p": model_settings.top_p}
        system = [{"role": "system", "content": system_instructions}] if system_instructions else []
        with generation_span(
            input=[*system, *items], model=self.model, model_config=config, disabled=tracing.is_disabled()
        ) as span:
            chooser = Chooser(model_settings.temperature or 0.0, self._rng)
            output = _respond(items, _search_tool(tools), chooser)
            span.span_data.output = [_as_message(output)]
            return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

    async def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        """Stream what `get_response` returns, as one event."""
        yield completed(await self.get_response(*args, **more))


def _respond(items: Sequence[dict[str, Any]], tool: FunctionTool | None, chooser: Chooser) -> list[TResponseOutputItem]:
    query, history = _query(items), _history(items)
    number = len(history.searches) + 1
    why = "There is no search tool to call, and nothing is known here without one."
    if tool:
        move = next_move(query, history, chooser)
        if move.search:
            return [_reasoning(number, move.why), _call(tool, number, move.search)]
        why = move.why
    return [_reasoning(number, why), _message(write_summary(query, history, chooser))]


def _call(tool: FunctionTool, number: int, search: str) -> ResponseFunctionToolCall:
    arguments = json.dumps({_argument(tool): search})
    return ResponseFunctionToolCall(arguments=arguments, call_id=f"call_{number}", name=tool.name, type="function_call")


def _message(answer: str) -> ResponseOutputMessage:
    text = ResponseOutputText(annotations=[], text=answer, type="output_text")
    return ResponseOutputMessage(id="msg_1", content=[text], role="assistant", status="completed", type="message")


def _reasoning(number: int, text: str) -> ResponseReasoningItem:
    return ResponseReasoningItem(id=f"rs_{number}", summary=[Summary(text=text, type="summary_text")], type="reasoning")


def _search_tool(tools: Sequence[Tool]) -> FunctionTool | None:
    """Return the first function tool that takes one string: that is what this model knows how to call."""
    return next((t for t in tools if isinstance(t, FunctionTool) and _argument(t)), None)


def _argument(tool: FunctionTool) -> str | None:
    properties = tool.params_json_schema.get("properties", {})
    required = tool.params_json_schema.get("required", [])
    texts = [name for name in required if properties[name].get("type") == "string"]
    return texts[0] if len(texts) == 1 == len(required) else None


def _query(items: Sequence[dict[str, Any]]) -> str:
    texts = [_text(i.get("content")) for i in items if i.get("role") == "user"]
    return texts[-1] if texts else ""


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content or [] if isinstance(part, dict))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType]


def _history(items: Sequence[dict[str, Any]]) -> SearchHistory:
    calls = {i["call_id"]: i for i in items if i.get("type") == "function_call"}
    outputs = [i for i in items if i.get("type") == "function_call_output" and i["call_id"] in calls]
    searches = [" ".join(str(v) for v in json.loads(calls[o["call_id"]]["arguments"]).values()) for o in outputs]
    return SearchHistory(tuple(searches), tuple(tuple(parse_passages(_text(o["output"]))) for o in outputs))


def _as_message(output: Sequence[TResponseOutputItem]) -> dict[str, Any]:
    """Return the reply as a chat message, which is what a generation span holds for every other model."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for item in output:
        if isinstance(item, ResponseReasoningItem):
            message["reasoning_content"] = item.summary[0].text
        elif isinstance(item, ResponseFunctionToolCall):
            function = {"name": item.name, "arguments": item.arguments}
            message["tool_calls"] = [{"id": item.call_id, "type": "function", "function": function}]
        elif isinstance(item, ResponseOutputMessage) and isinstance(item.content[0], ResponseOutputText):
            message["content"] = item.content[0].text
    return message
