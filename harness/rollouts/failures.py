"""What ended a rollout: an exception, a cut reply, or the time."""

from typing import Any, cast

import agents
import openai

from harness.core.records import Failure, FailureKind
from harness.core.unicode import valid_unicode
from harness.endpoints.breaker import EndpointDown
from harness.endpoints.retries import read_failure
from harness.rollouts.model_request import input_items
from harness.rollouts.recorder import Recorder

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
)


def failure_from(exc: BaseException, recorder: Recorder) -> Failure:
    """Return the failure record for an exception out of a run; its turn is how many replies had come in."""
    turn = sum(c.response is not None for c in recorder.calls)
    if isinstance(exc, openai.OpenAIError):
        return read_failure(exc).model_copy(update={"turn": turn})
    if isinstance(exc, agents.ModelBehaviorError) and (cut := not_whole(recorder)):
        return cut.model_copy(update={"turn": turn})
    if isinstance(exc, UnicodeEncodeError) and (tool := _surrogate_tool(recorder)):
        message = f"the output of the tool {tool!r} holds a lone surrogate, which no request can carry"
        return Failure(kind="tool", type="UnicodeEncodeError", message=message, turn=turn)
    cause = exc.__cause__
    other: FailureKind = "tool" if isinstance(exc, agents.UserError) and cause is not None else "internal"
    known: FailureKind | None = next((k for cls, k in _KINDS if isinstance(exc, cls)), None)
    kind = exc.kind if isinstance(exc, EndpointDown) else known or other
    message = " ".join(str(exc).split()) or "no message"
    if kind == "tool" and cause is not None:
        message = f"{message} ({type(cause).__name__})"
    return Failure(kind=kind, type=type(exc).__name__, message=message[:1000], turn=turn)


def _surrogate_tool(recorder: Recorder) -> str | None:
    items = input_items(recorder.calls[-1].request) if recorder.calls else ()
    fields = [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]
    names = {item.get("call_id"): str(item.get("name")) for item in fields if item.get("type") == "function_call"}
    for item in fields:
        if str(item.get("type")).endswith("_call_output") and valid_unicode(text := str(item.get("output"))) != text:
            return names.get(item.get("call_id"), "unknown")
    return None


def not_whole(recorder: Recorder) -> Failure | None:
    """Return the failure of a run whose last reply was cut or withheld: on Chat only the HTTP response tells."""
    finish = recorder.calls[-1].wire.finish if recorder.calls else None
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
