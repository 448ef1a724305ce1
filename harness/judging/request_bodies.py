"""How a question stands in a request's body, and what a reply says: for calls and for batch files alike."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from harness.core.records import Failure, Usage
from harness.core.settings import Api
from harness.core.unicode import valid_unicode
from harness.endpoints.reply_body import as_list, as_object, message_text
from harness.endpoints.usage import read_usage
from harness.judging.judge import ModelReply, Question

Form = Literal["json_schema", "json_object", "text"]
FORMS: tuple[Form, ...] = ("json_schema", "json_object", "text")
"""How a reply's form is asked for, the strictest first."""


def path_of(api: Api) -> str:
    """Return where an API takes its requests, below an endpoint's address."""
    return "/responses" if api == "responses" else "/chat/completions"


def body_of(api: Api, model: str, prompt: Question, form: Form, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question as the body of a request to an API; `options` are further parameters."""
    return (_responses_body if api == "responses" else _chat_body)(model, prompt, form, options)


def _chat_body(model: str, prompt: Question, form: Form, options: Mapping[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if form == "json_schema":
        schema = {"name": "verdict", "strict": True, "schema": prompt.schema()}
        asked = {"response_format": {"type": "json_schema", "json_schema": schema}}
    elif form == "json_object":
        asked = {"response_format": {"type": "json_object"}}
    return {"model": model, "messages": prompt.messages(), **options, **asked}


def _responses_body(model: str, prompt: Question, form: Form, options: Mapping[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if form == "json_schema":
        asked = {"text": {"format": {"type": "json_schema", "name": "verdict", "strict": True} | _schema(prompt)}}
    elif form == "json_object":
        asked = {"text": {"format": {"type": "json_object"}}}
    system, *rest = prompt.messages()
    return {"model": model, "instructions": system["content"], "input": rest, "store": False, **options, **asked}


def _schema(prompt: Question) -> dict[str, Any]:
    return {"schema": prompt.schema()}


def reply_of(body: Any, form: Form, *, tiered: bool) -> ModelReply:
    """Return what the body of a response by either API says; with `tiered` also the service tier that it names."""
    answer = as_object(body)
    if "output" not in answer and "choices" not in answer:
        return _no_reply(body, form)
    usage, raw = read_usage(answer.get("usage")), json.dumps(answer)  # this holds lone surrogates, as escapes
    tier = valid_unicode(str(answer["service_tier"])) if tiered and answer.get("service_tier") else None
    if not isinstance(answer.get("choices"), list) and "output" in answer:
        return ModelReply(_output_text(answer, "output_text"), usage, form, raw, _withheld_response(answer), tier)
    choice = next(_each(answer.get("choices")), None)
    if choice is None:
        failure = Failure(kind="api", type="NoChoices", message="a reply without choices")
        return ModelReply("", usage, form, raw, failure, tier)
    return ModelReply(message_text(as_object(choice.get("message"))), usage, form, raw, _withheld(choice), tier)


def _output_text(answer: Mapping[str, Any], kind: Literal["output_text", "refusal"]) -> str:
    """Return what a response of the Responses API says, or its refusal: of all parts of all messages."""
    parts = (p for item in _each(answer["output"]) if item.get("type") == "message" for p in _each(item.get("content")))
    return "".join(_text(part, "text" if kind == "output_text" else kind) for part in parts if part.get("type") == kind)


def _no_reply(body: Any, form: Form) -> ModelReply:
    text = body if isinstance(body, str) else json.dumps(body)
    shown = " ".join(text.split())[:100]
    failure = Failure(kind="api", type="NoReply", message=f"the endpoint's answer is no model reply: {shown!r}")
    return ModelReply("", Usage(requests=1), form, text, failure)


def _withheld(choice: Mapping[str, Any]) -> Failure | None:
    """Return why a chat reply says nothing, where the endpoint tells."""
    return _why_silent(_text(as_object(choice.get("message")), "refusal"), choice.get("finish_reason"))


def _withheld_response(answer: Mapping[str, Any]) -> Failure | None:
    """Return why a response of the Responses API says nothing, where the endpoint tells."""
    return _why_silent(_output_text(answer, "refusal"), as_object(answer.get("incomplete_details")).get("reason"))


def _why_silent(refusal: str, reason: Any) -> Failure | None:
    if refusal:
        return Failure(kind="refusal", type="refusal", message=refusal)
    if reason == "content_filter":
        return Failure(kind="content_filter", type="content_filter", message="stopped by the endpoint's filter")
    return None


def _each(value: Any) -> Iterator[Mapping[str, Any]]:
    return map(as_object, as_list(value))


def _text(members: Mapping[str, Any], name: str) -> str:
    value = members.get(name)
    return value if isinstance(value, str) else ""
