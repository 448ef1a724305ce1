"""How a question stands in a request's body, and what a reply says: for calls and for batch files alike."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from harness.core.records import Failure, Usage
from harness.core.settings import Api
from harness.core.unicode import valid_unicode
from harness.endpoints.reply_body import as_list, as_object, message_text
from harness.endpoints.usage import read_usage
from harness.judging.judge_model import ModelReply, Question

Form = Literal["json_schema", "json_object", "text"]
FORMS: tuple[Form, ...] = ("json_schema", "json_object", "text")
"""How a reply's form is asked for, the strictest first."""


def api_path(api: Api) -> str:
    """Return where an API takes its requests, below an endpoint's address."""
    return "/responses" if api == "responses" else "/chat/completions"


def request_body(api: Api, model: str, prompt: Question, form: Form, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question as the body of a request to an API; `options` are further parameters."""
    schema = {"name": "verdict", "strict": True, "schema": prompt.schema()} if form == "json_schema" else {}
    if api == "responses":
        asked = {} if form == "text" else {"text": {"format": {"type": form} | schema}}
        system, *rest = prompt.messages()
        return {"model": model, "instructions": system["content"], "input": rest, "store": False, **options, **asked}
    asked = {} if form == "text" else {"response_format": {"type": form} | ({"json_schema": schema} if schema else {})}
    return {"model": model, "messages": prompt.messages(), **options, **asked}


def read_reply_body(body: Any, form: Form, *, tiered: bool) -> ModelReply:
    """Return what the body of a response by either API says; with `tiered` also the service tier that it names."""
    answer = as_object(body)
    if "output" not in answer and "choices" not in answer:
        text = body if isinstance(body, str) else json.dumps(body)
        why = f"the endpoint's answer is no model reply: {' '.join(text.split())[:100]!r}"
        return ModelReply("", Usage(requests=1), form, text, Failure(kind="api", type="NoReply", message=why))
    usage, raw = read_usage(answer.get("usage")), json.dumps(answer)  # this holds lone surrogates, as escapes
    tier = valid_unicode(str(answer["service_tier"])) if tiered and answer.get("service_tier") else None
    if not isinstance(answer.get("choices"), list) and "output" in answer:
        details = as_object(answer.get("incomplete_details"))
        withheld = _withheld(_output_text(answer, "refusal"), details.get("reason"))
        return ModelReply(_output_text(answer, "output_text"), usage, form, raw, withheld, tier)
    choice = next(_each(answer.get("choices")), None)
    if choice is None:
        failure = Failure(kind="api", type="NoChoices", message="a reply without choices")
        return ModelReply("", usage, form, raw, failure, tier)
    message = as_object(choice.get("message"))
    withheld = _withheld(_text(message, "refusal"), choice.get("finish_reason"))
    return ModelReply(message_text(message), usage, form, raw, withheld, tier)


def _output_text(answer: Mapping[str, Any], kind: Literal["output_text", "refusal"]) -> str:
    """Return what a response of the Responses API says, or its refusal: of all parts of all messages."""
    parts = (p for item in _each(answer["output"]) if item.get("type") == "message" for p in _each(item.get("content")))
    return "".join(_text(part, "text" if kind == "output_text" else kind) for part in parts if part.get("type") == kind)


def _withheld(refusal: str, reason: Any) -> Failure | None:
    """Return why a reply says nothing, where the endpoint tells."""
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
