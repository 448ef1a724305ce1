"""Model calls in OTLP JSON: spans of OpenTelemetry's GenAI conventions (1.38), and of OpenInference (0.1.42)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic import JsonValue

from harness.core.errors import quoted
from harness.formats.foreign_chats import left_names
from harness.formats.json_values import JsonObject, object_in, objects_in, parse_json
from harness.formats.turns import Message, Tool


@dataclass(frozen=True)
class SpannedCall:
    """A model call: what was asked and said, and the attributes of its span that say neither."""

    trace: str
    started: int
    asked: tuple[Message, ...]
    said: tuple[Message, ...]
    tools: tuple[Tool, ...]
    model: str | None
    temperature: float | None
    attributes: Mapping[str, JsonValue]
    unplaced: tuple[str, ...]


def calls_of(document: JsonObject) -> tuple[list[SpannedCall], int]:
    """Return the model calls of an export request, and how many other spans it holds. Raises ValueError."""
    calls: list[SpannedCall] = []
    other = 0
    strange = _strange(document, "resourceSpans", "a request")
    for resource in objects_in(document, "resourceSpans"):
        of_resource = [*strange, *_strange(resource, "resource scopeSpans", "a resource")]
        for scope in objects_in(resource, "scopeSpans"):
            of_scope = [*of_resource, *_strange(scope, "scope spans", "a scope")]
            about = {"resource": resource.get("resource"), "scope": scope.get("scope")}
            for span in objects_in(scope, "spans"):
                lost = list(of_scope)
                values = _values(objects_in(span, "attributes"), lost)
                if call := _genai(span, values, lost) or _openinference(span, values, lost):
                    calls.append(replace(call, attributes={**call.attributes, **about}))
                else:
                    other += 1
    return calls, other


def _strange(parent: Mapping[str, Any], read: str, where: str) -> list[str]:
    """Return what is left of a part beside what was read; a count of 0 says nothing."""
    return left_names({k: v for k, v in parent.items() if v != 0}, read, where)


def _values(attributes: Sequence[JsonObject], lost: list[str]) -> dict[str, JsonValue]:
    for each in attributes:
        lost += _strange(each, "key value", "an attribute")
    return {str(each.get("key")): _value(object_in(each, "value"), lost) for each in attributes}


_KINDS = "stringValue boolValue intValue doubleValue arrayValue kvlistValue bytesValue"


def _value(value: JsonObject, lost: list[str]) -> JsonValue:
    """Return an AnyValue as JSON; whole numbers come as texts."""
    lost += _strange(value, _KINDS, "a value")
    if "arrayValue" in value:
        return [_value(each, lost) for each in objects_in(object_in(value, "arrayValue"), "values")]
    if "kvlistValue" in value:
        return dict(_values(objects_in(object_in(value, "kvlistValue"), "values"), lost))
    if "intValue" in value:
        return int(str(value["intValue"]))
    return next((value[kind] for kind in _KINDS.split() if kind in value), None)


_SPAN = "traceId spanId parentSpanId name kind startTimeUnixNano endTimeUnixNano attributes"


def _made(
    span: JsonObject, values: Mapping[str, JsonValue], read: Sequence[str], lost: Sequence[str], **said: Any
) -> SpannedCall:
    rest = {k: v for k, v in values.items() if not any(k == name or k.startswith(f"{name}.") for name in read)}
    unread = _strange(span, _SPAN, "a span")
    times = {"name": span.get("name"), "started": span.get("startTimeUnixNano"), "ended": span.get("endTimeUnixNano")}
    place = str(span.get("traceId")), int(str(span.get("startTimeUnixNano") or 0))
    return SpannedCall(*place, attributes={**rest, "span": times}, unplaced=(*unread, *lost), **said)


def _parsed(value: JsonValue) -> Any:
    return parse_json(value) if isinstance(value, str) and value.strip() else value or []


_GENAI = "gen_ai.input.messages gen_ai.output.messages gen_ai.system_instructions gen_ai.tool.definitions".split()


def _genai(span: JsonObject, values: Mapping[str, JsonValue], lost: list[str]) -> SpannedCall | None:
    asked, said, system, tools = (_parsed(values.get(name)) for name in _GENAI)
    if not (asked and said):
        return None
    text = system if isinstance(system, str) else "\n".join(str(part.get("content", "")) for part in system)
    before: list[Message] = [{"role": "system", "content": text}] if system else []
    temperature: Any = values.get("gen_ai.request.temperature")
    return _made(
        span,
        values,
        (*_GENAI, "gen_ai.request.temperature", "gen_ai.response.model"),
        lost,
        asked=(*before, *(each for message in asked for each in _chat_messages(message, lost))),
        said=tuple(each for message in said for each in _chat_messages(message, lost)),
        tools=tuple({"type": "function", "function": dict(t)} if "function" not in t else t for t in tools),
        model=values.get("gen_ai.response.model") or values.get("gen_ai.request.model"),
        temperature=temperature,
    )


def _chat_messages(message: JsonObject, lost: list[str]) -> Iterator[Message]:
    """Yield a message of parts as chat messages: each result of a tool is one of its own."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    lost += [
        f"the key {quoted(k)} of a message" for k in message if k not in {"role", "parts", "finish_reason", "name"}
    ]
    for part in objects_in(message, "parts"):
        kind, read = part.get("type"), "type content"
        if kind == "text":
            texts.append(str(part.get("content", "")))
        elif kind == "reasoning":
            thoughts.append(str(part.get("content", "")))
        elif kind == "tool_call":
            read = "type id name arguments"
            function = {"name": part.get("name"), "arguments": part.get("arguments") or {}}
            calls.append({"id": str(part.get("id")), "type": "function", "function": function})
        elif kind == "tool_call_response":
            read = "type id response result"
            result = part.get("response", part.get("result"))
            text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
            yield {"role": "tool", "tool_call_id": str(part.get("id")), "content": text}
        else:
            lost.append(f"a part of the type {quoted(kind)}")
            continue
        lost += _strange(part, read, "a part")
    if texts or thoughts or calls:
        made: Message = {"role": message.get("role"), "content": "\n".join(texts) if texts or not calls else None}
        made |= {"reasoning_content": "\n".join(thoughts)} if thoughts else {}
        yield made | ({"tool_calls": calls} if calls else {})


_OPENINFERENCE = ("llm.input_messages", "llm.output_messages", "llm.tools", "llm.model_name")


def _openinference(span: JsonObject, values: Mapping[str, JsonValue], lost: list[str]) -> SpannedCall | None:
    asked, said, tools, model = (_nested(values, name) for name in _OPENINFERENCE)
    if not (asked and said):
        return None
    schemas = [_parsed(each.get("tool", {}).get("json_schema")) for each in tools]
    named = model or values.get("llm.response.model_name")
    return _made(
        span,
        values,
        _OPENINFERENCE,
        lost,
        asked=tuple(_flat_message(each.get("message", {}), lost) for each in asked),
        said=tuple(_flat_message(each.get("message", {}), lost) for each in said),
        tools=tuple(schema for schema in schemas if schema),
        model=str(named) if named else None,
        temperature=None,
    )


def _nested(values: Mapping[str, JsonValue], name: str) -> Any:
    """Return what attributes such as `name.0.message.role` say: a list of objects, or a value of its own."""
    if name in values:
        return values[name]
    tree: dict[str, Any] = {}
    for key, value in values.items():
        if key.startswith(f"{name}."):
            *path, leaf = key[len(name) + 1 :].split(".")
            at: Any = tree
            for step in path:
                at = at.setdefault(step, {})
            at[leaf] = value
    return _lists(tree)


def _lists(tree: Any) -> Any:
    """Return a tree with lists where all keys of an object are numbers."""
    if not isinstance(tree, dict):
        return tree
    made: dict[str, Any] = {str(key): _lists(value) for key, value in cast("dict[str, Any]", tree).items()}
    return [made[key] for key in sorted(made, key=int)] if made and all(map(str.isdecimal, made)) else made


def _flat_message(message: dict[str, Any], lost: list[str]) -> Message:
    made: Message = {"role": message.get("role"), "content": message.get("content")}
    texts: list[str] = []
    for each in message.get("contents") or ():
        part = each.get("message_content", {})
        kind, text = part.get("type", "text"), part.get("text")
        if kind == "reasoning" and text:
            made["reasoning_content"] = text
        elif text is not None:
            texts.append(str(text))
        lost += _strange(part, "type text", "a part")
    if texts and not made["content"]:
        made["content"] = "\n".join(texts)
    calls: list[dict[str, Any]] = []
    for number, each in enumerate(message.get("tool_calls") or ()):
        call = each.get("tool_call", {})
        function = call.get("function", {})
        named = {"name": function.get("name"), "arguments": function.get("arguments") or "{}"}
        calls.append({"id": str(call.get("id", f"call_{number}")), "type": "function", "function": named})
        lost += [*_strange(call, "id function", "a call"), *_strange(function, "name arguments", "a call")]
    made |= {"tool_calls": calls} if calls else {}
    made |= {"tool_call_id": message["tool_call_id"]} if "tool_call_id" in message else {}
    lost += _strange(message, "role content contents tool_calls tool_call_id", "a message")
    return made
