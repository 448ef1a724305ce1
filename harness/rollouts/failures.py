"""What an exception that ended a rollout means."""

import agents
import openai

from harness.api_errors import failure_of
from harness.records import Failure, FailureKind

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


def failure_from(exc: BaseException, turn: int | None) -> Failure:
    """Return the failure record for an exception out of a run; `turn` is how many replies had come in."""
    if isinstance(exc, openai.OpenAIError):
        return failure_of(exc).model_copy(update={"turn": turn})
    kind: FailureKind | None = next((k for cls, k in _KINDS if isinstance(exc, cls)), None)
    cause = exc.__cause__
    if kind is None:
        kind = "tool" if isinstance(exc, agents.UserError) and cause is not None else "internal"
    said = " ".join(str(exc).split()) or "no message"
    if kind == "tool" and cause is not None:
        said = f"{said} ({type(cause).__name__})"
    return Failure(kind=kind, type=type(exc).__name__, message=said[:1000], turn=turn)
