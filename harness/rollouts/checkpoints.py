"""What a rollout has had so far: kept as it comes, and given again to the next attempt at the rollout.

The next attempt runs the agent's code from the beginning. As long as its requests are the kept ones, the kept replies
answer them, and tools that had ended give what they gave. What comes after is asked of a server. An attempt that asks
something else than the one before begins anew, without what was kept. A tool that changed the context has to run
again, so nothing is kept from its end on.
"""

import copy
import hashlib
import pickle  # noqa: TID251 - for a hash of what it gives: nothing is kept, and nothing is loaded
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agents import FunctionTool, ItemHelpers, ModelResponse, ModelSettings, Tool
from agents.tracing import Span, get_current_span, get_trace_provider
from openai.types.responses import ResponseFunctionToolCall
from pydantic import TypeAdapter

from harness.archive.checkpoints import KeptAttempt, KeptOutput, KeptReply
from harness.archive.store import Store
from harness.archive.typed_records import checked
from harness.core.branch_point import BranchPoint
from harness.core.recipes import Recipe
from harness.core.records import BUILT_LATER, Bill
from harness.endpoints.refused_settings import seed_in, with_seed
from harness.endpoints.usage import bill_of
from harness.rollouts.approval_gate import ToolHooks, ToolOutput
from harness.rollouts.capture import WireReply, spans_of_rollout
from harness.rollouts.graph import is_agent
from harness.rollouts.model_calls import PackedCalls
from harness.rollouts.model_request import Scrub, as_archived, as_returned, first_change, input_items, likeness
from harness.rollouts.raw import RawCall, pack_tokens, unpack, unpack_tokens
from harness.rollouts.recorder import BeginsAnew, CannotBranch, RecordedCall, Recorder
from harness.rollouts.snapshots import NOTHING_KEPT, KeptState
from harness.rollouts.states import at_usual_place
from harness.rollouts.steps import spans_around

OF_THE_REQUEST = frozenset({"BadRequestError", "UnprocessableEntityError"})
"""What a request with another server's replies in it may fail of."""
_OTHER_TOOLS = "apply_patch", "code_interpreter", "computer", "custom_tool", "local_shell", "shell"


@dataclass(frozen=True)
class BranchStart:
    """Where a branch begins: what it is given of the rollout that it is taken up from, and what is expected of it."""

    branch: BranchPoint
    recipe: Recipe | None
    """That of the rollout, and so of the branch."""
    calls: Sequence[RecordedCall] = ()
    """Those that are given again."""
    outputs: Mapping[tuple[int, str], ToolOutput] = field(default_factory=dict[tuple[int, str], ToolOutput])
    """As `Attempted.outputs`; none where the tools run again."""
    snapshot: KeptState = NOTHING_KEPT
    """The state outside that is put back."""
    next_requests: Sequence[Mapping[str, Any]] = ()
    """Of which the first that is bought must be one; none where any may come, after an edit."""
    temporary: Sequence[str] = ()
    """The temporary folders of the rollout's own."""

    def attempted(self) -> "Attempted":
        """Return what an attempt before would have had that was cut off here."""
        return Attempted([*self.calls], dict(self.outputs), start=self)


@dataclass
class Attempted:
    """What an attempt at a rollout has had."""

    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])
    """Those with a reply, in the order in which the replies came."""
    outputs: dict[tuple[int, str], ToolOutput] = field(default_factory=dict[tuple[int, str], ToolOutput])
    """Of tool calls that ended, by the place of the reply that asked for them, and their ids."""
    elapsed_s: float = 0.0
    """How long the attempt had taken."""
    start: BranchStart | None = None
    """Of a branch: where it begins."""

    def anew(self) -> "Attempted | None":
        """Return what to begin anew from: a branch begins where it is taken up, all else without anything."""
        return self.start.attempted() if self.start else None

    def or_anew(self) -> "Attempted":
        """Return itself; what a branch begins with, where not all of that was given again yet: it is never bought."""
        given = sum(call.is_prefix for call in self.calls)
        return self.start.attempted() if self.start and given < len(self.start.calls) else self

    @property
    def bought(self) -> int:
        """How many of the calls were bought, and not given from another rollout's record."""
        return sum(not call.is_prefix for call in self.calls)

    @property
    def is_fresh(self) -> bool:
        """Whether it is a branch of which nothing was bought yet."""
        return self.start is not None and not self.bought

    @property
    def is_bound(self) -> bool:
        """Whether no other attempt can go on from here.

        A server keeps the conversation, or code ran in its container, or a tool ran that is no function: a shell, say.
        """
        items = (item for call in self.calls if call.response for item in call.response.output)
        types = {str(getattr(item, "type", None)) for item in items}
        return any(call.is_bound for call in self.calls) or not types.isdisjoint(
            f"{tool}_call" for tool in _OTHER_TOOLS
        )


@dataclass
class Keeper:
    """Notes what an attempt has, and keeps it in the store where that outlasts the process."""

    recorder: Recorder
    store: Store
    whose: Mapping[str, Any]
    """The query, the index and the attempt, as each kept line names them."""
    state: Callable[[], Any]
    """Returns what tools may change that no request shows: the rollout's context, files of its own."""
    packed: PackedCalls
    acts_outside: Callable[[], bool]
    """Tells whether tools of a branch change what another attempt does not find: a sandbox, a state put back."""
    before_s: float = 0.0
    """How long the attempts before had taken."""
    had: Attempted = field(default_factory=Attempted)
    _is_open: bool = True
    """Whether what comes now can be given again."""
    _calls: list[RecordedCall] = field(default_factory=list[RecordedCall])
    """Those with a reply, also of what cannot."""
    _unwritten: RecordedCall | None = None
    _began_as: str | None = None
    _calls_at_start: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        """Keep nothing in a store that keeps none."""
        self._is_kept = self.store.keeps_checkpoints

    def replied(self, call: RecordedCall) -> None:
        """Note a call with its reply. One that only answers is written once something comes after it."""
        if call.response is None:
            return
        self._calls.append(call)
        if not self._is_open:
            return
        self.had.calls.append(call)
        self.had.elapsed_s = self.before_s + self.recorder.limit.spent_s
        if self._unwritten:
            self._write_reply(self._unwritten)
        leads_on = any(getattr(item, "type", None) not in {"message", "reasoning"} for item in call.response.output)
        self._unwritten = None if leads_on else call
        if leads_on:
            self._write_reply(call)

    def began(self, span: Span[Any]) -> None:
        """Note that a tool call begins."""
        self._calls_at_start[span.span_id] = len(self.recorder.calls)
        if self._began_as is None:
            self._began_as = _state_of(self.state())

    def ended(self, span: Span[Any], call_id: str, tool: Tool, output: Any) -> None:
        """Note what a tool call gave, unless model calls were made in it: then it runs again, on their replies."""
        places = (i for i, call in enumerate(self._calls) if call.parent_span == span.parent_id)
        place = max(places, default=None)
        asks = isinstance(tool, FunctionTool) and self._has_asked(span)
        if place is None or self.recorder.fatal or asks or not isinstance(tool, FunctionTool) or is_agent(tool):
            return
        changed = self.recorder.state_changed is not None
        if not changed and (self._began_as is None or self._began_as != _state_of(self.state())):
            changed, self.recorder.state_changed = True, self._calls[place]
        acts_outside = self.had.start and self.acts_outside() and not self._calls[place].is_prefix
        self._is_open = self._is_open and not (changed or acts_outside)
        if self._is_open and (sent := _as_sent(call_id, tool, output)) is not None:
            hooks, now = self.recorder.hooks, get_trace_provider().time_iso()
            again = hooks.given_again.get(span.span_id)
            kept = again or ToolOutput(sent, hooks.errors.get(span.span_id), span.started_at or now, now)
            self.had.outputs[place, call_id] = kept
            self._write(KeptOutput(**self.whose, call=place, call_id=call_id, **vars(kept)))

    def _has_asked(self, span: Span[Any]) -> bool:
        calls = self.recorder.calls[self._calls_at_start.pop(span.span_id, 0) :]
        if not calls:
            return False
        by_id = {s.span_id: s for s in spans_of_rollout()}
        return any(span.span_id in spans_around(call.parent_span, by_id) for call in calls)

    def _write_reply(self, call: RecordedCall) -> None:
        assert call.response  # noqa: S101 - only calls with a reply come here
        if not self._is_kept:
            return
        packed, sampled = self.packed.add(RawCall(call.request, call.response, call.wire.beside)), call.wire.sampled
        told = {"finish": call.wire.finish, "model": call.wire.model, "temperature": call.wire.temperature}
        wire: dict[str, Any] = told | ({"policy": list(call.wire.policy)} if call.wire.policy else {})
        wire["bill"] = _BILL.dump_python(call.wire.bill, mode="json")
        self._is_kept = not self.packed.is_redacted  # else the next attempt would be given another text
        self._write(
            KeptReply(
                **self.whose,
                call=packed,
                model=call.model,
                temperature=call.settings.temperature,
                top_p=call.settings.top_p,
                seed=seed_in(call.settings),
                wire=wire,
                tokens=self.store.put_blob(pack_tokens([sampled]), as_is=True) if sampled else None,
                own_model=call.own_model,
                parent=call.parent_span,
                started_at=call.started_at,
                ended_at=call.ended_at,
                elapsed_s=self.had.elapsed_s,
                is_prefix=call.is_prefix,
                snapshot=call.snapshot,
            )
        )

    def _write(self, record: KeptReply | KeptOutput) -> None:
        self._is_kept = self._is_kept and self.store.add_checkpoint(record)


class GivenAgain:
    """Gives a new attempt what the one before had, for as long as the attempt asks for it."""

    def __init__(self, before: Attempted, hooks: ToolHooks, redact: Scrub, temporary: Sequence[str] = ()) -> None:
        """Give again what `before` had; `hooks` are told of tool calls that do not run. What was kept is redacted.

        `temporary`: the temporary folders of the new attempt, as they come.
        """
        self._before, self._hooks, start = before, hooks, before.start

        def scrub(text: str) -> str:
            return at_usual_place(redact(at_usual_place(text, temporary)), start.temporary if start else ())

        self._scrub: Scrub = scrub if start else str
        self._requests = [as_archived(call.request, self._scrub) for call in before.calls]
        self._unused = list(range(len(before.calls)))
        expected = before.start.next_requests if before.start and before.is_fresh else ()
        self._expected = [as_archived(request, self._scrub) for request in expected]

    def reply(
        self, request: dict[str, Any], settings: ModelSettings, model: str | None, tools: list[Tool]
    ) -> RecordedCall | None:
        """Return the kept call that a request is, or None for a new one; tools that ended are not to run again.

        Raises BeginsAnew where the attempt before asked something else, CannotBranch where the rollout did that this
        one is a branch of.
        """
        if not (self._unused or self._expected):
            return None
        now, calls = as_archived(request, self._scrub), self._before.calls
        same = next((i for i in self._unused if self._requests[i] == now), None)
        if same is None and self._expected:
            if now not in self._expected:
                raise CannotBranch(self._difference(now))
            self._expected = []  # what comes from now on may be new
            return None
        if same is None:
            if any(_is_same_run(self._requests[i], now) for i in self._unused):
                raise BeginsAnew(f"its model call {len(calls) - len(self._unused) + 1} is another than before")
            return None  # a call that was in flight, or after one: runs beside it may still have replies here
        call = calls[same]
        if call.is_prefix and call.model != model:
            raise CannotBranch(f"model call {same + 1} was of the model {call.model}, and is of {model} now")
        is_other = call.model != model or call.settings.temperature not in {None, settings.temperature}
        if is_other and not call.is_prefix:
            raise BeginsAnew("its model or temperature is another than before")
        self._unused.remove(same)
        tools[:] = [self._stub(tool, same) for tool in tools]  # the SDK runs the tools of that list
        span = get_current_span()
        start = self._before.start
        request = request if start and start.temporary else call.request  # then it names folders of this attempt
        given = replace(call, request=request, response=copy.deepcopy(call.response))
        return replace(given, parent_span=span and span.span_id, is_kept=True)

    def _difference(self, now: Mapping[str, Any]) -> str:
        """Return in words how a request differs first from the recorded one that is most like it."""
        recorded = [(i, self._requests[i]) for i in self._unused]
        recorded += [*enumerate(self._expected, len(self._requests))]
        number, nearest = max(recorded, key=lambda numbered: (*likeness(numbered[1], now), -numbered[0]))
        return f"model call {number + 1} is another than recorded: {first_change(nearest, now).words}"

    def _stub(self, tool: Tool, place: int) -> Tool:
        outputs = {call_id: output for (at, call_id), output in self._before.outputs.items() if at == place}
        if not outputs or not isinstance(tool, FunctionTool) or (is_agent(tool) and not self._before.start):
            return tool

        async def invoke(context: Any, arguments: str) -> Any:
            kept = outputs.get(context.tool_call_id)
            if kept is None:
                return await tool.on_invoke_tool(context, arguments)
            self._hooks.note_given_again(kept)
            return as_returned(kept.output)

        stub = copy.copy(tool)
        stub.on_invoke_tool = invoke
        if any(output.decision for output in outputs.values()):
            stub.needs_approval = False  # a refusal's message is among the recorded outputs
        return stub


def attempted_before(kept: KeptAttempt, get: Callable[[str], str]) -> Attempted:
    """Return an attempt of which the archive has the lines; `get` finds kept texts. Raises ArchiveDamaged."""
    where = f"checkpoint {kept.id}"
    raw = unpack(f"[{','.join(reply.call for reply in kept.replies)}]", get, where)
    calls = [
        RecordedCall(
            parent_span=line.parent,
            settings=with_seed(ModelSettings(temperature=line.temperature, top_p=line.top_p), line.seed),
            request=call.request,
            wire=_wire_reply(line.wire, call.reply, where, is_paid=not line.is_prefix),
            response=call.reply,
            model=line.model,
            own_model=line.own_model,
            started_at=line.started_at,
            ended_at=line.ended_at,
            is_prefix=line.is_prefix,
            snapshot=line.snapshot,
        )
        for line, call in zip(kept.replies, raw, strict=True)
    ]
    for line, call, of_call in zip(kept.replies, calls, raw, strict=True):
        call.wire.beside = of_call.beside
        if line.tokens:
            (call.wire.sampled,) = unpack_tokens(get(line.tokens), where)
    outputs = {
        (o.call, o.call_id): ToolOutput(o.output, o.error, o.started_at, o.ended_at)
        for o in kept.outputs
        if o.call < len(calls)
    }
    return Attempted(calls, outputs, kept.replies[-1].elapsed_s if kept.replies else 0.0)


_BILL = TypeAdapter[Bill | None](Bill | None, config=BUILT_LATER)


def _wire_reply(kept: Mapping[str, Any], reply: ModelResponse, where: str, *, is_paid: bool) -> WireReply:
    wire = dict(kept)
    bill = checked(wire.pop("bill", None), _BILL.validate_python, where)
    return WireReply(**wire, bill=bill or (bill_of(reply) if is_paid else None))


def _as_sent(call_id: str, tool: Tool, output: Any) -> Any:
    if isinstance(output, str):
        return output
    if getattr(tool, "output_json_schema", None) is not None:
        return None  # the SDK would not take its own words back
    call = ResponseFunctionToolCall.model_construct(call_id=call_id, name=tool.name, arguments="{}")
    try:
        sent: Any = ItemHelpers.tool_call_output_item(call, output)["output"]
        return sent if isinstance(sent, str) else tuple(as_archived({"parts": sent}, str)["parts"])
    except Exception:  # noqa: BLE001 - what the SDK makes of it shows when the run goes on
        return None


def _is_same_run(kept: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return whether two requests are of the same run of an agent: they begin alike, and offer the same."""
    begins = list(input_items(kept)[:1]) == list(input_items(now)[:1])
    return begins and (kept["tools"] == now["tools"] or kept["instructions"] == now["instructions"])


_MOST_BYTES = 1 << 20
"""Of a context; beyond it nobody waits for a hash."""


class _Hash:
    """A file for pickle that keeps a hash alone. Raises ValueError beyond what anybody waits for."""

    def __init__(self) -> None:
        self.sha, self._size = hashlib.sha256(), 0

    def write(self, data: Any) -> None:
        self._size += len(data)
        if self._size > _MOST_BYTES:
            raise ValueError("too large")
        self.sha.update(data)


def _state_of(context: Any) -> str | None:
    """Return a hash of all that a context holds; None where that cannot be told."""
    if context is None:
        return "none"
    state = _Hash()
    try:
        pickle.Pickler(state).dump(context)
    except Exception:  # noqa: BLE001 - a context may hold anything
        return None
    return state.sha.hexdigest()
