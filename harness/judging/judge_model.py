"""A model that judges: its question as a request's body, asked once, and again if the reply cannot be used."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, Literal, Protocol, TypeVar

import anyio

from harness.core.cost import UNKNOWN, Cost, total_cost
from harness.core.progress import Clock
from harness.core.records import BEGUN, Bill, Failure, PaidCall, Usage
from harness.core.settings import Api
from harness.core.sync import forget_frames
from harness.core.unicode import valid_unicode
from harness.endpoints.costs import Priced
from harness.endpoints.reply_body import as_list, as_object, message_text
from harness.endpoints.retries import NO_LIMIT, TimeLimit
from harness.endpoints.usage import read_bill
from harness.judging.prompt import ListPrompt, Prompt
from harness.judging.reply import ReplyError

SAMPLING = {"temperature": 0.0}
"""What a judge is asked for; left out of the request, not of the key, where the endpoint refuses it."""

Read = TypeVar("Read")


@dataclass(frozen=True)
class ModelReply:
    """What came back from a model that was asked: text, what it cost, the raw reply."""

    text: str
    bill: Bill
    form: str
    raw: str
    withheld: Failure | None = None
    """Why the reply, though paid for, says nothing: a refusal or a filter."""
    tier: str | None = None
    """The service tier that gave it, where another than the ordinary was asked for and the endpoint says."""
    cost: Cost | None = None
    """What it cost, where that does not follow from the bill."""
    looked_at: str = ""
    """What an agent did before it gave it, a line a step."""


class AskFailed(Exception):
    """No reply could be had; `failure` says why."""

    def __init__(self, failure: Failure, reply: ModelReply | None = None) -> None:
        """Carry `failure`, and what came in place of a model's reply."""
        super().__init__(failure.message)
        self.failure, self.reply = failure, reply


IN_BATCH = Failure(kind="cancelled", type="InBatch", message="not bought yet: it goes into a batch")
WITH_PROVIDER = Failure(kind="cancelled", type="WithProvider", message="not bought yet: a batch has it")
UNANSWERED = Failure(
    kind="cancelled", type="Unanswered", message="not bought: its batches brought no usable reply; --judge-now asks"
)

Question = Prompt | ListPrompt
"""What a model can be asked: it has `messages()`, the reply's `schema()`, the verdict's `key`, and a place for a repair
turn."""


class Ask(Protocol):
    """Sends a prompt to a model. Raises AskFailed; Refused if the very first call is turned down."""

    @property
    def given_up(self) -> str | None:
        """Why the model is asked nothing more; None while it is asked."""
        ...

    async def __call__(self, prompt: Question, clock: TimeLimit = NO_LIMIT) -> ModelReply:
        """Return the model's reply; `clock` stands still while the call waits for its turn."""
        ...


@dataclass(frozen=True)
class Exchange(Generic[Read]):
    """A question to a judge's model and what came back: what was read, or why nothing could be read."""

    result: Read | Failure
    replies: tuple[ModelReply, ...]
    """The model's reply; before it the reply that needed repair, if one did."""
    raw_replies: tuple[str, ...]
    """The names under which the replies are kept."""
    calls: tuple[PaidCall, ...]
    """When each reply was asked for, and what it cost."""
    started_at: datetime
    duration_s: float

    @property
    def repaired(self) -> bool:
        """Whether the model was asked a second time."""
        return len(self.replies) > 1

    @property
    def record(self) -> dict[str, Any]:
        """What a verdict's record holds of it: form and service tier of the last reply, and what all replies cost."""
        cost = total_cost([call.cost for call in self.calls]) if self.calls else UNKNOWN
        return {
            "form": self.replies[-1].form if self.replies else None,
            "tier": self.replies[-1].tier if self.replies else None,
            "raw_replies": self.raw_replies,
            "calls": self.calls,
            "usage": sum((reply.bill.usage for reply in self.replies), Usage()),
            **cost.named("price_usd"),
            "started_at": self.started_at,
            "duration_s": self.duration_s,
        }


@dataclass(frozen=True)
class JudgePatience:
    """How long and how often a judge may try to give one verdict."""

    seconds: float = 300.0
    """For a verdict with its retries and repair turns; waits for the endpoint do not count."""
    repairs: int = 1
    """Turns in which the judge may mend a reply that cannot be used."""


@dataclass(frozen=True)
class JudgeModel:
    """A model that judges: how it is asked, its name in verdicts, its price, where its replies are kept."""

    ask: Ask
    identity: str
    """`--judge-label`, else `model@host`."""
    pricing: Priced
    keep: Callable[[str], str]
    """Stores a raw reply and names it."""
    clock: Clock
    settle: Callable[[], None] | None = None
    """Waits until what was kept is on disk. It is called before a repair turn; otherwise the verdict's own record,
    which is written before anything else can run, sees to that."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Parameters that `ask` adds to every request."""
    patience: JudgePatience = JudgePatience()
    reads_records: bool = False
    """Whether it may look into the records behind the transcripts."""

    @property
    def given_up(self) -> str | None:
        """Why the model is asked nothing more; None while it is asked."""
        return self.ask.given_up

    @property
    def sampling(self) -> dict[str, Any]:
        """The options of every request, as they stand in a verdict's key."""
        return {**SAMPLING, **self.extra}

    async def exchange(self, prompt: Question, read: Callable[[str], Read]) -> Exchange[Read]:
        """Return what `read` makes of the reply; a repair turn quotes its ReplyError. Raises as `ask` does Refused."""
        started_at, began_s = self.clock(), anyio.current_time()
        replies, limit = list[tuple[ModelReply, str, PaidCall]](), TimeLimit(self.patience.seconds)
        result: Read | Failure = Failure(kind="internal", type="Unasked", message="the judge was not asked")
        with limit.within():
            for turn in range(1, self.patience.repairs + 2):
                asked_at, asked_s = self.clock(), anyio.current_time()
                try:
                    reply = await self.ask(prompt, limit)
                except AskFailed as exc:
                    result = exc.failure
                    if reply := exc.reply:
                        replies.append((reply, self.keep(reply.raw), self._paid(reply, asked_at, asked_s)))
                    forget_frames(exc)
                    break
                # paid for: on disk before it is read
                replies.append((reply, self.keep(reply.raw), self._paid(reply, asked_at, asked_s)))
                if reply.withheld:
                    result = reply.withheld
                    break
                try:
                    result = read(reply.text)
                    break
                except ReplyError as exc:
                    if self.settle:
                        self.settle()
                    prompt = replace(prompt, repair=(valid_unicode(reply.text), str(exc)))
                    result = Failure(kind="output", type="ReplyError", message=str(exc), turn=turn)
        if limit.passed and isinstance(result, Failure):
            late = f"no verdict within {limit.seconds:g} s (--judge-timeout)"
            result = Failure(kind="network", type="TimeoutError", message=late)
        return Exchange(
            result=result,
            replies=tuple(reply for reply, _, _ in replies),
            raw_replies=tuple(name for _, name, _ in replies),
            calls=tuple(call for _, _, call in replies),
            started_at=started_at,
            duration_s=anyio.current_time() - began_s,
        )

    def _paid(self, reply: ModelReply, asked_at: datetime, asked_s: float) -> PaidCall:
        bill, cost = reply.bill, reply.cost or self.pricing.cost(reply.bill)
        return PaidCall(
            started_at=asked_at,
            duration_s=anyio.current_time() - asked_s,
            usage=bill.usage,
            **cost.named("price_usd"),
            service_tier=bill.tier,
            hosted_tools=bill.tools,
        )


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
        return ModelReply("", BEGUN, form, text, Failure(kind="api", type="NoReply", message=why))
    bill, raw = read_bill(answer), json.dumps(answer)  # this holds lone surrogates, as escapes
    tier = valid_unicode(str(answer["service_tier"])) if tiered and answer.get("service_tier") else None
    if not isinstance(answer.get("choices"), list) and "output" in answer:
        details = as_object(answer.get("incomplete_details"))
        withheld = _withheld(_output_text(answer, "refusal"), details.get("reason"))
        return ModelReply(_output_text(answer, "output_text"), bill, form, raw, withheld, tier)
    choice = next(_each(answer.get("choices")), None)
    if choice is None:
        failure = Failure(kind="api", type="NoChoices", message="a reply without choices")
        return ModelReply("", bill, form, raw, failure, tier)
    message = as_object(choice.get("message"))
    withheld = _withheld(_text(message, "refusal"), choice.get("finish_reason"))
    return ModelReply(message_text(message), bill, form, raw, withheld, tier)


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
