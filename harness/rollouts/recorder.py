"""What is noted of a rollout's model calls while they are made, and what ended the rollout."""

import math
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import agents
import anyio
import openai
from agents import ModelResponse, ModelSettings, Tool
from agents.tracing import get_trace_provider, response_span

from harness.core.errors import option
from harness.core.records import Failure, FailureKind
from harness.core.unicode import valid_unicode
from harness.endpoints.breaker import EndpointDown
from harness.endpoints.gate import EndpointState
from harness.endpoints.retries import TimeLimit, is_quota, read_failure
from harness.endpoints.usage import completed
from harness.rollouts.agent_code import AgentRaised, RaisedBy, misuses_sdk, raised_by, raised_in
from harness.rollouts.approval_gate import Approver, ToolHooks, gated
from harness.rollouts.capture import WireReply
from harness.rollouts.model_request import input_items
from harness.rollouts.states import at_usual_place

if TYPE_CHECKING:
    from harness.rollouts.snapshots import StateOutside


@dataclass
class RecordedCall:
    """One model call: its request, its reply, and its span. Without reply and error the call is under way."""

    parent_span: str | None
    settings: ModelSettings
    model: str | None
    request: dict[str, Any]
    wire: WireReply
    response: ModelResponse | None = None
    error: BaseException | None = None
    began_s: float = 0.0
    """When it began, in the seconds that count for the rollout."""
    own_model: str | None = None
    """The class of the Model object, or the provider, that the agent brought along for the call."""
    started_at: str = field(default_factory=lambda: get_trace_provider().time_iso())
    ended_at: str | None = None
    is_kept: bool = False
    """An attempt before has made it; this one was given the reply again."""
    is_prefix: bool = False
    """The rollout that this one is a branch of has made it, and paid for it."""
    is_bound: bool = False
    """The request goes on from what its server keeps: an earlier response, or a conversation."""
    snapshot: str | None = None
    """Blob with the state outside before it."""


@dataclass
class Recorder:
    """The model calls of one rollout, in the order they began, failed ones and those under way included."""

    state: EndpointState
    limit: TimeLimit = field(default_factory=lambda: TimeLimit(math.inf))
    """How long the rollout may take; its clock stands still while a call waits for its turn."""
    on_reply: Callable[[], None] = lambda: None
    seed: int | None = None
    """Sent with every call, where the endpoint takes one."""
    greedy: bool = False
    """Of the anchor, at temperature 0: a top_p of the agent's own is not sent."""
    effort: str | None = None
    """The reasoning effort that every call asks for; None: what the agent asks for."""
    policy_version: Callable[[], int] | None = None
    """Tells the policy's version now, where one is trained."""
    stop_before_first_call: bool = False
    """The fingerprint of the first call is all that is wanted."""
    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])
    fingerprint: str | None = None
    at_usual_place: Callable[[str], str] = at_usual_place
    """Takes out of a text what a workspace of the rollout's own brings into it."""
    fatal: BaseException | None = None
    """What has to end the run, also if raised inside a tool, where the SDK makes it a message to the model."""
    hooks: ToolHooks = field(default_factory=ToolHooks)
    approver: Approver | None = None
    """Decides on tool calls that need approval."""
    goes_elsewhere: Callable[[], bool] = lambda: False
    """Whether another server would make the rollout at once, or go on with it, while its own server is down."""
    kept: Callable[[RecordedCall], None] = lambda _: None
    """Called with each call that has its reply."""
    give_again: Callable[[dict[str, Any], ModelSettings, str | None, list[Tool]], RecordedCall | None] = (
        lambda _request, _settings, _model, _tools: None
    )
    """Returns the call of an attempt before that a request is, if any, with stubs in the place of tools."""
    before_call: Callable[[RecordedCall], None] = lambda _: None
    """Called before a model is asked. What it raises ends the rollout."""
    state_outside: "StateOutside | None" = None
    """Keeps the state outside, and puts it back."""
    state_changed: RecordedCall | None = None
    """The call that asked for the first tool that changed what no request shows, if any did."""
    no_thread: bool = False
    """A tool was given up before any thread was free for it."""
    _lost_s: float = 0.0
    _failed_s: float | None = None

    def begin(self, call: RecordedCall) -> None:
        """Note a call that begins; the wait since a failed call ends here. Raises what `before_call` raises."""
        try:
            self.before_call(call)
        except Exception as exc:
            self.fatal = exc
            raise
        call.began_s = self.limit.spent_s
        call.snapshot = self.state_outside.newest if self.state_outside else None
        if self._failed_s is not None:
            self._lost_s, self._failed_s = self._lost_s + call.began_s - self._failed_s, None
        self._note_policy(call)
        self.calls.append(call)

    def end(
        self, call: RecordedCall, response: ModelResponse | None = None, error: BaseException | None = None
    ) -> None:
        """Note how a call ended."""
        call.response, call.error, call.ended_at = response, error, get_trace_provider().time_iso()
        if response is not None:
            self._note_policy(call)
            self.on_reply()
            self.kept(call)
            return
        self._failed_s = self.limit.spent_s
        self._lost_s += self._failed_s - call.began_s
        if isinstance(error, Exception) and is_quota(error):
            self.fatal = error

    def _note_policy(self, call: RecordedCall) -> None:
        if self.policy_version and (version := self.policy_version()) not in call.wire.policy:
            call.wire.policy = (*call.wire.policy, version)

    @property
    def has_reply(self) -> bool:
        """Whether any call has had a reply."""
        return any(call.response for call in self.calls)

    def given_again(
        self, request: dict[str, Any], settings: ModelSettings, model: str | None, tools: list[Tool]
    ) -> ModelResponse | None:
        """Return the reply that an attempt before had to a request, if any; it is a call of this attempt, too.

        Raises BeginsAnew where the attempt before asked something else, CannotBranch of a branch.
        """
        try:
            call = self.give_again(request, settings, model, tools)
        except (BeginsAnew, CannotBranch) as exc:
            self.fatal = exc
            raise
        if call is None:
            return None
        call.began_s = self.limit.spent_s
        self.calls.append(call)
        self.kept(call)
        if (response := call.response) is not None:
            with response_span(completed(response, call.wire.model, call.wire.temperature).response):
                pass
        return response

    def let_decide(self, tools: list[Tool]) -> None:
        """Put gates before the tools that a request offers, where somebody decides on calls that need approval."""
        approver, end = self.approver, partial(setattr, self, "fatal")
        if approver:  # the SDK runs the tools of that list
            tools[:] = [gated(tool, approver, self.hooks.on_decision, end) for tool in tools]

    def lost_s(self) -> float:
        """Return the seconds that went on calls without a reply, and on the waits before their next attempts."""
        now_s = self.limit.spent_s
        open_s = [now_s - call.began_s for call in self.calls if call.response is None and call.error is None]
        since_failed_s = now_s - self._failed_s if self._failed_s is not None else 0.0
        return self._lost_s + max([since_failed_s, *open_s])


class BeginsAnew(Exception):
    """Ends an attempt that asks something else than the one whose replies it is given."""


class CannotBranch(Exception):
    """Ends a branch before anything is bought for it: it cannot be taken up where it should be."""


class OutOfCalls(Exception):
    """Ends a branch whose next model call would be one more than --budget allows."""


@dataclass
class CallBudget:
    """How many model calls branches may make. Those that do not fit are not begun."""

    most: int | None = None
    """None: as many as they ask for."""
    made: int = 0
    longer: float = 1.0
    """How many times as many calls as expected a branch made, at most."""
    _is_used_up: bool = False
    """Whether a branch did not fit: none after it is begun."""
    _in_line: anyio.Lock = field(default_factory=anyio.Lock)
    _under_way: int = 0
    _ended: anyio.Event = field(default_factory=anyio.Event)

    async def begin(self, expected: int) -> bool:
        """Return whether a branch that is `expected` to make so many calls fits.

        Each may make as many times more as one before it did. Beside others it may make twice as many, as may they:
        else it waits for what they leave.
        """
        async with self._in_line:
            while self.most is not None and not self._is_used_up:
                beside = 2 * (self._under_way + expected) if self._under_way else expected
                if self.made + self.longer * beside <= self.most:
                    break
                self._is_used_up = not self._under_way
                if not self._is_used_up:
                    await self._ended.wait()
            self._under_way += 0 if self._is_used_up else expected
            return not self._is_used_up

    def end(self, expected: int, made: int = 0) -> None:
        """Note that a branch has ended, which made so many calls."""
        self._under_way -= expected
        self.longer = max(self.longer, made / max(1, expected))
        self._ended.set()
        self._ended = anyio.Event()

    def take(self) -> None:
        """Count a call. Raises OutOfCalls."""
        if self.most is not None and self.made >= self.most:
            raise OutOfCalls(f"{option('budget')} leaves no room for its next model call: all {self.most} are made")
        self.made += 1


class StoppedBeforeFirstCall(Exception):
    """Ends a rollout of which only the fingerprint is wanted."""


_KINDS: tuple[tuple[type[BaseException], FailureKind], ...] = (
    (agents.MaxTurnsExceeded, "max_turns"),
    (agents.ModelBehaviorError, "output"),
    (agents.InputGuardrailTripwireTriggered, "guardrail"),
    (agents.OutputGuardrailTripwireTriggered, "guardrail"),
    (agents.ToolInputGuardrailTripwireTriggered, "guardrail"),
    (agents.ToolOutputGuardrailTripwireTriggered, "guardrail"),
    (agents.ModelRefusalError, "refusal"),
    (agents.ToolTimeoutError, "tool"),
    (agents.ModelTimeoutError, "network"),
    (CannotBranch, "internal"),
    (OutOfCalls, "budget"),
)


def failure_from(exc: BaseException, recorder: Recorder, agents_file: Path | None = None) -> Failure:
    """Return the failure record for an exception out of a run; its turn is how many replies had come in."""
    turn = sum(c.response is not None for c in recorder.calls)
    by, cause = raised_by(exc), exc.__cause__
    if isinstance(exc, AgentRaised) and cause:
        exc = cause
    elif isinstance(exc, agents.UserError) and cause:
        by = raised_by(cause)
        exc = exc if by == "tool" else cause  # of a hook or a guardrail, which the SDK takes for its tool
    if isinstance(exc, openai.OpenAIError):
        return read_failure(exc).model_copy(update={"turn": turn})
    if isinstance(exc, agents.ModelBehaviorError) and (cut := not_whole(recorder.calls)):
        return cut.model_copy(update={"turn": turn})
    if isinstance(exc, UnicodeEncodeError) and (tool := _surrogate_tool(recorder)):
        message = f"the output of the tool {tool!r} holds a lone surrogate, which no request can carry"
        return Failure(kind="tool", type="UnicodeEncodeError", message=message, turn=turn)
    known: FailureKind | None = next((k for cls, k in _KINDS if isinstance(exc, cls)), None)
    place = raised_in(exc, agents_file and agents_file.parent)
    kind = exc.kind if isinstance(exc, EndpointDown) else known or _blamed(exc, recorder, by, place)
    message = (" ".join(str(exc).split()) or "no message")[:1000]
    if kind == "tool" and exc.__cause__ is not None:
        message = f"{message} ({type(exc.__cause__).__name__})"
    if place and (kind == "agent_code" or not isinstance(exc, Exception)):
        message = f"{message}; raised in {place}"
    return Failure(kind=kind, type=type(exc).__name__, message=message, turn=turn)


def _blamed(exc: BaseException, recorder: Recorder, by: RaisedBy, place: str | None) -> FailureKind:
    """Return the kind of an exception that is none of the SDK's; `place` is where the agent's own code raised it."""
    files = {Path(frame.f_code.co_filename).name for frame, _ in traceback.walk_tb(exc.__traceback__)}
    if "_tool_invocation.py" in files or (isinstance(exc, UnicodeEncodeError) and not place and recorder.calls[1:]):
        return "output"  # arguments that the SDK cannot read, or a text that no request can carry
    if by == "approver" or any(call.error is exc for call in recorder.calls):
        return "internal"
    if by == "tool" and (isinstance(exc, agents.UserError) or not isinstance(exc, Exception)):
        return "tool"
    return "agent_code" if place or misuses_sdk(exc) or not isinstance(exc, Exception) else "internal"


def _surrogate_tool(recorder: Recorder) -> str | None:
    items = input_items(recorder.calls[-1].request) if recorder.calls else ()
    fields = [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]
    names = {item.get("call_id"): str(item.get("name")) for item in fields if item.get("type") == "function_call"}
    for item in fields:
        if str(item.get("type")).endswith("_call_output") and valid_unicode(text := str(item.get("output"))) != text:
            return names.get(item.get("call_id"), "unknown")
    return None


def not_whole(calls: Sequence[RecordedCall]) -> Failure | None:
    """Return the failure of a run whose last reply was cut or withheld: on Chat only the HTTP response tells."""
    finish = calls[-1].wire.finish if calls else None
    if finish == "length":
        return Failure(kind="truncated", type="length", message="the last reply was cut at the token limit")
    if finish == "content_filter":
        return Failure(kind=finish, type=finish, message="the endpoint's filter stopped the last reply")
    return None


def timed_out(recorder: Recorder, limit_s: float) -> Failure:
    """Return the failure of a rollout that ran out of time.

    Time spent in turns and tools is the agent's own. Where most of it went on replies that never came, the network
    is to blame.
    """
    late, lost_s = f"not done after {limit_s:g} s (--timeout)", recorder.lost_s()
    if recorder.no_thread:
        late += ": hung tools hold all threads, and its tool never began"
        return Failure(kind="internal", type="NoThread", message=late)
    if lost_s > limit_s / 2:
        late += f", {lost_s:.0f} s of them for replies that never came"
        return Failure(kind="network", type="TimeoutError", message=late)
    return Failure(kind="timeout", type="TimeoutError", message=late)
