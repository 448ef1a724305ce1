"""The sessions of a gateway: what each may do next. Knows no clock, no socket and no archive."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field, JsonValue, ValidationError

from harness.core.errors import quoted
from harness.core.records import Record
from harness.gateway.recorded import ChatHistory
from harness.rollouts.recorder import RecordedCall

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@=+-]{0,199}")


class Declined(Exception):
    """What the gateway itself answers with an error: HTTP status, a code for programs, and what to do in words."""

    def __init__(self, status: int, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param

    def body(self) -> dict[str, Any]:
        """Return the error in OpenAI's shape."""
        kind = "invalid_request_error" if self.status < 500 else "api_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


class Closing(Record):
    """What ends a session. `answer` null: it has none; JSON that is no text is a structured answer."""

    model_config = ConfigDict(extra="forbid")

    answer: JsonValue
    query: str
    group: str | None = None
    reward: Annotated[float, Field(strict=True)] | None = None


def read_closing(body: Mapping[str, Any]) -> Closing:
    """Return what a body of `close` says. Raises Declined, which names the member, its value and what it has to be."""
    try:
        return Closing.model_validate(body)
    except ValidationError as exc:
        fault = exc.errors()[0]
        name = ".".join(map(str, fault["loc"]))
        has = f" ({quoted(fault['input'])})" if fault["type"] != "missing" else ""
        shape = '{"answer": TEXT or null, "query": TEXT, "group"?: NAME, "reward"?: NUMBER}'
        raise Declined(400, "invalid_close", f"`{name}`{has}: {fault['msg']}; send {shape}", name) from None


@dataclass(eq=False)
class Session:
    """A session that is open: the calls so far, how many are under way, and what of them could not be captured."""

    name: str
    began: datetime
    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])
    running: int = 0
    gaps: dict[str, None] = field(default_factory=dict[str, None])
    history: ChatHistory = field(default_factory=ChatHistory)


@dataclass
class Sessions:
    """All sessions of a run: those that are open, and the names of those that were closed."""

    closed: set[str] = field(default_factory=set[str])
    open: dict[str, Session] = field(default_factory=dict[str, Session])

    def begin_call(self, name: str, at: datetime) -> Session:
        """Return the session of a call that begins, which the first call opens. Raises Declined for one that is closed.

        Whoever gets it counts `running` down when the call has ended.
        """
        if not _NAME.fullmatch(name):
            wanted = "1 to 200 letters, digits or ._:@=+-, and begins with a letter, a digit or _"
            raise Declined(400, "invalid_session", f"the session {quoted(name)}: a name has {wanted}")
        if name in self.closed:
            raise Declined(409, "session_closed", f"the session {quoted(name)} is closed: name each one for itself")
        session = self.open.setdefault(name, Session(name, at))
        session.running += 1
        return session

    def close(self, name: str) -> Session:
        """Take a session out. Raises Declined where it is closed, was never begun, or a call of it is under way."""
        if name in self.closed:
            raise Declined(409, "session_closed", f"the session {quoted(name)} is closed: its rollout is kept")
        if (session := self.open.get(name)) is None:
            raise Declined(404, "no_session", f"there is no session {quoted(name)}: its first model call opens it")
        if session.running:
            raise Declined(409, "call_under_way", f"the session {quoted(name)} has calls under way: let them end first")
        self.closed.add(name)
        return self.open.pop(name)

    def reopen(self, session: Session) -> None:
        """Put back a session whose rollout could not be kept."""
        self.closed.discard(session.name)
        self.open[session.name] = session
