"""How a question stands in a request's body, and what a reply says: for calls and for batch files alike."""

import json
from collections.abc import Mapping
from typing import Any, Literal

from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from harness.core.records import Failure, Usage
from harness.core.settings import Api
from harness.core.unicode import valid_unicode
from harness.endpoints import usage_of
from harness.judging.judge import ModelReply, Question

Form = Literal["json_schema", "json_object", "text"]
FORMS: tuple[Form, ...] = ("json_schema", "json_object", "text")
"""How a reply's form is asked for, the strictest first."""


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


def reply_of(answer: Any, form: Form, *, tiered: bool) -> ModelReply:
    """Return what an answer of either API says; with `tiered` also the service tier that it names."""
    tier = getattr(answer, "service_tier", None) if tiered else None
    tier = tier and valid_unicode(str(tier))
    if hasattr(answer, "output"):
        return ModelReply(answer.output_text, usage_of(answer.usage), form, _raw(answer), tier=tier)
    if not hasattr(answer, "choices"):
        return _no_reply(answer, form)
    usage, raw = usage_of(answer.usage), _raw(answer)
    if not answer.choices:
        failure = Failure(kind="api", type="NoChoices", message="a reply without choices")
        return ModelReply("", usage, form, raw, failure, tier)
    choice = answer.choices[0]
    return ModelReply(choice.message.content or "", usage, form, raw, _withheld(choice), tier)


def client_answer(api: Api, body: Any) -> Any:
    """Return a reply's body as the client would give it; what is no reply stays what it is."""
    if not isinstance(body, dict):
        return body
    record: Any = Response if api == "responses" else ChatCompletion
    members: dict[str, Any] = body  # pyright: ignore[reportUnknownVariableType]
    return record.model_construct(**members) if ("output" if api == "responses" else "choices") in members else body  # pyright: ignore[reportUnknownVariableType]


def _raw(answer: Any) -> str:
    """Return a reply as JSON; unlike pydantic's own, this holds lone surrogates, as escapes."""
    return json.dumps(answer.model_dump(mode="python"), default=str)


def _no_reply(answer: Any, form: Form) -> ModelReply:
    """Return the reply for what is none: the client gives a gateway's error page with status 200 as a text or None."""
    shown = " ".join(str(answer).split())[:100]
    failure = Failure(kind="api", type="NoReply", message=f"the endpoint's answer is no model reply: {shown!r}")
    return ModelReply("", Usage(requests=1), form, str(answer), failure)


def _withheld(choice: Any) -> Failure | None:
    """Return why a chat reply says nothing, where the endpoint tells."""
    if choice.message.refusal:
        return Failure(kind="refusal", type="refusal", message=choice.message.refusal)
    if choice.finish_reason == "content_filter":
        return Failure(kind="content_filter", type="content_filter", message="stopped by the endpoint's filter")
    return None
