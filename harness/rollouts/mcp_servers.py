"""The SDK's MCP servers within rollouts and replays: failed calls are noted, and a replay connects to nothing.

An agent's own code may make and connect its servers before the agent is seen, so it is the SDK's methods that look
whether their task is a rollout's or a replay's; in all other tasks they do what they always do.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

from agents.mcp import MCPServer, MCPServerSse, MCPServerStdio, MCPServerStreamableHttp
from mcp.types import Tool

from harness.rollouts.lifecycle import ProcessGuard, set_within

Method = Callable[..., Awaitable[Any]]
NoteError = Callable[[BaseException | str], None]

_KINDS: Sequence[type[MCPServer]] = (MCPServerStdio, MCPServerSse, MCPServerStreamableHttp)


def _guard_methods(wrappers: Mapping[str, Callable[[Method], Method]]) -> ProcessGuard:

    def install() -> Callable[[], None]:
        before = [(kind, name, kind.__dict__.get(name)) for kind in _KINDS for name in wrappers]
        for kind, name, _ in before:
            setattr(kind, name, wrappers[name](getattr(kind, name)))

        def undo() -> None:
            for kind, name, method in before:
                if method is None:
                    delattr(kind, name)  # the method was inherited
                else:
                    setattr(kind, name, method)

        return undo

    return ProcessGuard(install)


_note: ContextVar[NoteError | None] = ContextVar("harness_mcp_errors", default=None)


@contextmanager
def mcp_errors(note: NoteError) -> Generator[None]:
    """In this task and those that it starts, call `note` for each call that an MCP server refuses or fails."""
    with set_within(_note, note), _CALLS_GUARD.in_use():
        yield


def _noting(original: Method) -> Method:
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


_CALLS_GUARD = _guard_methods({"call_tool": _noting})


class RecordedServers:
    """The tools that each MCP server listed in a recorded rollout, as the rollout's requests describe them."""

    def __init__(self, listed: Mapping[str, Sequence[str]], requests: Sequence[Mapping[str, Any]]) -> None:
        """`listed` is tool names by server; descriptions and schemas stand in the `requests`."""
        self._listed = listed
        self._described = {str(tool["name"]): tool for request in requests for tool in request["tools"]}

    def list_tools(self, server: str) -> list[Tool]:
        """Return the tools of a server by its name, without those that no request describes."""
        tools: list[Tool] = []
        for name in self._listed.get(server, ()):  # a request may have the server's name before it
            prefixed = (tool for full_name, tool in self._described.items() if full_name.endswith(f"_{name}"))
            if tool := self._described.get(name) or next(prefixed, None):
                described: Any = {"description": tool.get("description"), "inputSchema": tool.get("schema") or {}}
                tools.append(Tool.model_validate({"name": name, **described}))
        return tools


_servers: ContextVar[RecordedServers | None] = ContextVar("harness_recorded_servers", default=None)


@contextmanager
def without_servers(servers: RecordedServers) -> Generator[None]:
    """In this task and those that it starts, let MCP servers connect to nothing and list what was recorded."""
    with set_within(_servers, servers), _REPLAY_GUARD.in_use():
        yield


def _replayed(original: Method) -> Method:
    @wraps(original)
    async def method(self: MCPServer, *args: Any, **kwargs: Any) -> Any:
        servers = _servers.get()
        if servers is None:
            return await original(self, *args, **kwargs)
        return servers.list_tools(self.name) if original.__name__ == "list_tools" else None

    return method


_REPLAY_GUARD = _guard_methods(dict.fromkeys(("connect", "cleanup", "list_tools"), _replayed))
