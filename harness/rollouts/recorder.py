"""What is noted of a rollout's model calls while they are made."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from agents import ModelResponse, ModelSettings

from harness.endpoints import EndpointState, is_quota
from harness.rollouts.hooks import ToolHooks
from harness.rollouts.http_capture import WireReply


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


@dataclass
class Recorder:
    """The model calls of one rollout, in the order they began, failed ones and those under way included.

    `on_reply` is called after each reply.
    """

    state: EndpointState
    on_reply: Callable[[], None] = lambda: None
    seed: int | None = None
    """Sent with every call, where the endpoint takes one."""
    stop_before_first_call: bool = False
    """The fingerprint of the first call is all that is wanted."""
    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])
    fingerprint: str | None = None
    fatal: Exception | None = None
    """What has to end the run, also if raised inside a tool, where the SDK makes it a message to the model."""
    hooks: ToolHooks = field(default_factory=ToolHooks)
    _waited_s: float = 0.0
    _failed_at: float | None = None

    def begin(self, call: RecordedCall) -> int:
        """Note a call that begins, and return its place; the wait since a failed call ends here."""
        self._waited_s, self._failed_at = self.waited_s(), None
        self.calls.append(call)
        return len(self.calls) - 1

    def end(self, place: int, response: ModelResponse | None = None, error: BaseException | None = None) -> None:
        """Note how a call ended."""
        call = self.calls[place]
        call.response, call.error = response, error
        if response is None:
            self._failed_at = anyio.current_time()
            if isinstance(error, Exception) and is_quota(error):
                self.fatal = error
        else:
            self.on_reply()

    def waited_s(self) -> float:
        """Return the seconds between failed calls and the calls after them, up to now."""
        return self._waited_s + (anyio.current_time() - self._failed_at if self._failed_at is not None else 0.0)


class StoppedBeforeFirstCall(Exception):
    """Ends a rollout of which only the fingerprint is wanted."""
