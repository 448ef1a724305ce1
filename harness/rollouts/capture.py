"""What is captured of a rollout: the SDK's spans, one trace a rollout, and of HTTP replies what the SDK drops.

While rollouts are under way, a processor of ours stands before those that are registered: it keeps the rollouts' spans,
whatever processors the user sets meanwhile, and passes everything on. Only the SDK's default exporter to OpenAI gets
nothing of rollouts, unless uploads were asked for. Spans are timed by a clock that nobody sets anew meanwhile.
Afterwards all is as it was.
"""

import re
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import Any, Literal

from agents.tracing import Span, Trace, TracingProcessor, add_trace_processor, get_trace_provider
from agents.tracing.processors import default_processor
from agents.tracing.provider import SynchronousMultiTracingProcessor
from pydantic_core import from_json

from harness.core.errors import UsageError
from harness.core.progress import now
from harness.core.records import BEGUN, Bill
from harness.core.sampled_tokens import SampledTokens
from harness.endpoints.reply_body import as_list, as_object, check_api, first_choice, for_sdk, model_reply
from harness.endpoints.reply_tokens import ReplyTokens
from harness.endpoints.usage import read_bill
from harness.rollouts.lifecycle import ProcessGuard, set_within


@dataclass(frozen=True)
class _Watched:
    """The spans of a rollout so far, and the traces that they come in: the agent's code may begin traces of its own."""

    uploaded: bool
    spans: list[Span[Any]] = field(default_factory=list[Span[Any]])
    traces: list[str] = field(default_factory=list[str])


_rollout: ContextVar[_Watched | None] = ContextVar("harness_watched_rollout", default=None)


class SpanLog(SynchronousMultiTracingProcessor):
    """Collects the spans of watched traces, in the order they began; a processor with none behind it does no more."""

    def __init__(self) -> None:
        super().__init__()
        self._watched: dict[str, _Watched] = {}  # each use is one step of a dict's or a list's: it needs no lock

    @contextmanager
    def watch(self, trace_id: str, *, uploaded: bool = False) -> Generator[None]:
        """Keep the spans of a trace, and of all traces that begin in this task and what it starts."""
        watched = _Watched(uploaded)
        self._add(trace_id, watched)
        with set_within(_rollout, watched), LOG_GUARD.in_use():
            yield

    def take(self, trace_id: str) -> Sequence[Span[Any]]:
        """Return a rollout's spans and stop watching it: what a stray thread does later is no part of the rollout."""
        watched = self._watched.pop(trace_id, None)
        if watched is None:
            return ()
        for other in watched.traces:
            self._watched.pop(other, None)
        return tuple(watched.spans)

    def is_private(self, item: Trace | Span[Any]) -> bool:
        """Return whether a trace or span is a rollout's whose traces are not uploaded."""
        watched = self._watched.get(item.trace_id) or _rollout.get()
        return watched is not None and not watched.uploaded

    def on_span_start(self, span: Span[Any]) -> None:
        """Keep the span; its data fills in until it ends."""
        if (watched := self._watched.get(span.trace_id)) is not None:
            watched.spans.append(span)

    def on_trace_start(self, trace: Trace) -> None:
        """Watch a trace that the agent's own code begins."""
        watched = _rollout.get()
        if watched is not None and watched.traces and watched.traces[0] in self._watched:
            self._add(trace.trace_id, watched)

    def _add(self, trace_id: str, watched: _Watched) -> None:
        if trace_id not in self._watched:
            self._watched[trace_id] = watched
            watched.traces.append(trace_id)


def spans_of_rollout() -> Sequence[Span[Any]]:
    """Return the spans, so far, of the rollout that this task belongs to."""
    watched = _rollout.get()
    return tuple(watched.spans) if watched else ()


SPAN_LOG = SpanLog()
"""The process's own."""


class _Before(SynchronousMultiTracingProcessor):
    """Calls the span log before a provider's processors, and hides rollouts from the exporter."""

    def __init__(self, behind: SynchronousMultiTracingProcessor) -> None:
        self.behind = behind
        self.add_tracing_processor, self.set_processors = behind.add_tracing_processor, behind.set_processors
        self.shutdown, self.force_flush = behind.shutdown, behind.force_flush
        self._without_exporter: tuple[Sequence[TracingProcessor], SynchronousMultiTracingProcessor] = ((), behind)

    @property
    def _processors(self) -> tuple[TracingProcessor, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.behind._processors  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

    def on_trace_start(self, trace: Trace) -> None:
        SPAN_LOG.on_trace_start(trace)
        self._behind(trace).on_trace_start(trace)

    def on_trace_end(self, trace: Trace) -> None:
        self._behind(trace).on_trace_end(trace)

    def on_span_start(self, span: Span[Any]) -> None:
        SPAN_LOG.on_span_start(span)
        self._behind(span).on_span_start(span)

    def on_span_end(self, span: Span[Any]) -> None:
        self._behind(span).on_span_end(span)

    def _behind(self, item: Trace | Span[Any]) -> SynchronousMultiTracingProcessor:
        if not SPAN_LOG.is_private(item):
            return self.behind
        present = self._processors
        if self._without_exporter[0] is not present:
            others = SynchronousMultiTracingProcessor()
            others.set_processors([p for p in present if p is not default_processor()])
            self._without_exporter = present, others
        return self._without_exporter[1]


def _even_time() -> Callable[[], str]:
    offset_s, second, written = now().timestamp() - monotonic(), -1, ""

    def time_iso() -> str:
        nonlocal second, written
        at, part_us = divmod(int((monotonic() + offset_s) * 1e6), 1_000_000)
        if at != second:  # a second is written once: each span asks for several times
            second, written = at, datetime.fromtimestamp(at, UTC).isoformat().removesuffix("+00:00")
        return f"{written}.{part_us:06d}+00:00"

    return time_iso


def _renew() -> None:
    provider: Any = get_trace_provider()  # which has no public way to list its processors
    behind = getattr(provider, "_multi_processor", None)
    if isinstance(behind, _Before) or any(provider is p for p in _joined):
        return
    if isinstance(behind, SynchronousMultiTracingProcessor):
        provider._multi_processor = _Before(behind)  # noqa: SLF001
        provider.time_iso = _even_time()
        _changed.append(provider)
    else:  # a provider of the user's own: what it does with processors is its own affair
        add_trace_processor(SPAN_LOG)
        _joined.append(provider)


_changed: list[Any] = []
"""Providers whose processors we stand before."""
_joined: list[Any] = []
"""Providers of classes of the user's own, which have the span log among their processors."""


def _install() -> Callable[[], None]:
    _renew()

    def undo() -> None:
        for provider in _changed:
            provider.__dict__.pop("time_iso", None)
            if isinstance(provider._multi_processor, _Before):  # noqa: SLF001
                provider._multi_processor = provider._multi_processor.behind  # noqa: SLF001
        _changed.clear()

    return undo


LOG_GUARD = ProcessGuard(_install, _renew)
"""Keeps the span log in its place: what outlives its rollout is not uploaded either."""


def check_tracing() -> None:
    """Raise UsageError if tracing is switched off: paths would be empty, and nothing would say so."""
    if get_trace_provider().create_trace(name="harness-probe").trace_id == "no-op":
        advice = "unset OPENAI_AGENTS_DISABLE_TRACING, and take set_tracing_disabled(True) out of the agent's code"
        raise UsageError(f"the SDK's tracing is switched off, so no steps could be captured: {advice}")


Finish = Literal["length", "content_filter"]
_OF_A_CALL = {"id", "type", "function", "name", "arguments"}
_FINISH: dict[str, Finish] = {"length": "length", "max_output_tokens": "length", "content_filter": "content_filter"}

_captured: ContextVar["WireReply | None"] = ContextVar("harness_wire", default=None)
_stray: ContextVar["list[str] | None"] = ContextVar("harness_stray_replies", default=None)


@dataclass
class WireReply:
    """Filled in when the reply of a model call comes in over a client made here."""

    bill: Bill | None = None
    """What the call is paid for; None where nothing is."""
    finish: Finish | None = None
    """Set only where the reply is not whole: cut at the token limit, or withheld by a filter."""
    model: str | None = None
    temperature: float | None = None
    streamed: bool = False
    """The call asked for a stream of events."""
    tokens: ReplyTokens | None = None
    """Collects the reply's tokens, if the call asked for them."""
    sampled: SampledTokens | None = None
    """The reply in tokens, where the server sent all of them."""
    beside: dict[str, Any] | None = None
    """What the body says that the SDK's object of the reply does not hold; None for a stream."""
    policy: Sequence[int] = ()
    """The policy's version when the call began, and when its reply came if that is another."""


@contextmanager
def reply_captured(tokens: ReplyTokens | None, *, streamed: bool = False) -> Generator[WireReply]:
    """Note what the reply of the call within says on the wire."""
    reply = WireReply(tokens=tokens, streamed=streamed)
    if tokens:
        tokens.on_body = partial(note_body, reply)
    with set_within(_captured, reply):
        yield reply


def collector() -> ReplyTokens | None:
    """Return what collects the tokens of the call under way; None if it asked for none."""
    reply = _captured.get()
    return reply and reply.tokens


def stray_replies(strays: list[str]) -> AbstractContextManager[None]:
    """Add to a list the path of each reply of this task's, and of what it starts, that is part of no captured call."""
    return set_within(_stray, strays)


async def note_response(response: Any) -> None:
    """Note what a response says, if its call is captured. Raises NoReply for a success that is no model's reply."""
    reply = _captured.get()
    if reply is None and (strays := _stray.get()) is not None:
        strays.append(response.url.path)
    if reply is None or not response.is_success:
        return
    reply.bill = BEGUN
    is_stream = reply.streamed and "event-stream" in response.headers.get("content-type", "")
    if is_stream:
        response.aiter_bytes = partial(_noting_bill, response.aiter_bytes, reply)
    elif not reply.tokens:  # who takes the tokens out of a reply reads the body anyway, and notes what is in it
        body = model_reply(await response.aread(), response.request)
        check_api(body, response.request)
        note_body(reply, body)

        def read(**_: Any) -> dict[str, Any]:
            return for_sdk(body)

        response.json = read  # its own reading would parse the body once more
        response.headers["content-type"] = "application/json"  # which some servers do not call it


def note_body(reply: WireReply, body: dict[str, Any]) -> None:
    """Note what a whole body says, from which the tokens were taken out."""
    reply.beside = _beside(body)
    model = body.get("model")
    reply.model = model if isinstance(model, str) else None
    temperature = body.get("temperature")
    reply.temperature = temperature if isinstance(temperature, float | int) else None
    reason: Any = first_choice(body).get("finish_reason") or as_object(body.get("incomplete_details")).get("reason")
    reply.finish = _FINISH.get(reason) if isinstance(reason, str) else None
    reply.bill = read_bill(body)


def _beside(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body without what the SDK's object of the reply holds word for word, and without a chat's logprobs.

    Logprobs tell a text in pieces, in which no pattern would find what has to be redacted.
    """
    if not (choice := first_choice(body)):
        return {name: value for name, value in body.items() if name != "output"}
    message = as_object(choice.get("message"))
    held = {"content", "refusal", "reasoning_content" if message.get("reasoning_content") else "reasoning"}
    others = {k: v for k, v in message.items() if not (isinstance(v, str) and v and k in held)}
    if all(map(_is_plain_call, as_list(message.get("tool_calls")))):
        others.pop("tool_calls", None)
    left = {k: v for k, v in choice.items() if k != "logprobs"} | {"message": others}
    return body | {"choices": [left, *body["choices"][1:]]}


def _is_plain_call(call: dict[str, Any]) -> bool:
    names = call.keys() | as_object(call.get("function")).keys()
    return call.get("type") == "function" and names == _OF_A_CALL


_TELLS = re.compile(rb'"usage"\s*:\s*\{|"url_citation"|"type"\s*:\s*"response\.(?:completed|incomplete|failed)"')
"""Stands in the events of a stream that tell what it costs."""


async def _noting_bill(
    parts: Callable[..., AsyncIterator[bytes]], reply: WireReply, *arguments: Any
) -> AsyncIterator[bytes]:
    """Pass on the bytes of a stream, and note its bill: a part of it until the stream ends."""
    rest, told, is_over = b"", dict[str, Any](), False

    def note() -> None:
        bill = read_bill(told)
        reply.bill = bill if is_over else replace(bill, is_part=True)

    async for part in parts(*arguments):
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
            is_over |= data == b"[DONE]"
            if is_over or (data and (not told or _TELLS.search(data))):
                is_over |= _read_event(data, told)
                note()
        yield part
    is_over = True
    note()


def _read_event(data: bytes, told: dict[str, Any]) -> bool:
    """Add to what a stream has told so far of its bill; return whether this event is its last."""
    try:
        event = as_object(from_json(data))
    except ValueError:
        return False
    whole = as_object(event.get("response")) or event
    told |= {"object": None} | {name: whole[name] for name in ("usage", "service_tier", "output") if whole.get(name)}
    if cited := as_object(first_choice(event).get("delta")).get("annotations"):
        told["choices"] = [{"message": {"annotations": cited}}]
    return "response" in event and event.get("type") != "response.created"
