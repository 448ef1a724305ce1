"""What is noted of a rollout's model calls while they are made."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from agents import ModelResponse, ModelSettings

from harness.endpoints import EndpointState, is_quota
from harness.rollouts.hooks import Hearing
from harness.rollouts.http_capture import Reply


@dataclass
class RecordedCall:
    """One model call: what it was sent, what came back, under which span. Neither reply nor error: it is under way."""

    parent_span: str | None
    settings: ModelSettings
    model: str | None
    request: dict[str, Any]
    wire: Reply
    response: ModelResponse | None = None
    error: BaseException | None = None


@dataclass
class Recorder:
    """The model calls of one rollout, in the order they began, failed attempts and those under way too.

    `on_reply` hears of each one that came back.
    """

    on_reply: Callable[[], None]
    state: EndpointState
    seed: int | None = None
    """Sent with every call, where the endpoint takes one."""
    only_look: bool = False
    """Stop at the first call, before it is made: its fingerprint is all that is wanted."""
    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])
    fingerprint: str | None = None
    fatal: Exception | None = None
    """What has to end the run, though it was raised inside a tool, where the SDK makes a message to the model of it."""
    hearing: Hearing = field(default_factory=Hearing)
    _waited_s: float = 0.0
    _failed_at: float | None = None

    def begin(self, call: RecordedCall) -> int:
        """Note an attempt that begins, and return its place: what was waited for since one failed is over."""
        self._waited_s, self._failed_at = self.waited_s(), None
        self.calls.append(call)
        return len(self.calls) - 1

    def end(self, place: int, response: ModelResponse | None = None, error: BaseException | None = None) -> None:
        """Note how an attempt ended."""
        call = self.calls[place]
        call.response, call.error = response, error
        if response is None:
            self._failed_at = anyio.current_time()
            if isinstance(error, Exception) and is_quota(error):
                self.fatal = error
        else:
            self.on_reply()

    def waited_s(self) -> float:
        """Return the seconds between failed attempts and the ones after them, up to now."""
        return self._waited_s + (anyio.current_time() - self._failed_at if self._failed_at is not None else 0.0)


class Looked(Exception):
    """A rollout was stopped before its first model call, of which all that was asked is known."""
