"""What an MCP server says of a call that failed: the SDK passes the words on to the model and keeps no sign of it."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

from agents.mcp import MCPServer, MCPServerSse, MCPServerStdio, MCPServerStreamableHttp

from harness.rollouts.lifecycle import ProcessGuard

_KINDS: tuple[type[MCPServer], ...] = (MCPServerStdio, MCPServerSse, MCPServerStreamableHttp)

NoteError = Callable[[BaseException | str], None]

_note: ContextVar[NoteError | None] = ContextVar("harness_mcp_errors", default=None)


@contextmanager
def mcp_errors(note: NoteError) -> Generator[None]:
    """In this task and those that it starts, tell `note` of each call that an MCP server refuses or fails."""
    token = _note.set(note)
    try:
        with _GUARD.in_use():
            yield
    finally:
        _note.reset(token)


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    async def call_tool(self: MCPServer, *args: Any, **kwargs: Any) -> Any:
        note = _note.get()
        if note is None:
            return await original(self, *args, **kwargs)
        try:
            result = await original(self, *args, **kwargs)
        except Exception as exc:
            note(exc)
            raise
        if getattr(result, "is_error", False) or getattr(result, "isError", False):
            texts = [str(part.text) for part in result.content if getattr(part, "text", None)]
            note(f"the MCP server says that the call failed: {' '.join(texts)}"[:1000])
        return result

    return call_tool


def _install() -> Callable[[], None]:
    before = [(kind, kind.__dict__.get("call_tool")) for kind in _KINDS]
    for kind, _ in before:
        setattr(kind, "call_tool", _noting(kind.call_tool))  # noqa: B010 - an assignment would need the method's type

    def undo() -> None:
        for kind, method in before:
            if method is None:
                delattr(kind, "call_tool")  # the method was inherited
            else:
                setattr(kind, "call_tool", method)  # noqa: B010

    return undo


_GUARD = ProcessGuard(_install)
