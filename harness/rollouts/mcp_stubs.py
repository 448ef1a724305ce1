"""MCP without servers: a recording tells a replay which tools each server listed, and what each tool returned."""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

from agents.mcp import MCPServer, MCPServerSse, MCPServerStdio, MCPServerStreamableHttp
from mcp.types import Tool

from harness.rollouts.process_guard import ProcessGuard

_KINDS: Sequence[type[MCPServer]] = (MCPServerStdio, MCPServerSse, MCPServerStreamableHttp)

Method = Callable[..., Awaitable[Any]]


class RecordedServers:
    """The tools that each MCP server listed in a recorded rollout, as the rollout's requests describe them."""

    def __init__(self, listed: Mapping[str, Sequence[str]], requests: Sequence[Mapping[str, Any]]) -> None:
        """`listed` is tool names by server; descriptions and schemas stand in the `requests`."""
        self._listed = listed
        self._described = {str(tool["name"]): tool for request in requests for tool in request["tools"]}

    def tools_of(self, server: str) -> list[Tool]:
        """Return the tools of a server by its name, without those that no request describes."""
        described = ((name, self._description(name)) for name in self._listed.get(server, ()))
        return [_tool(name, description) for name, description in described if description]

    def _description(self, name: str) -> Mapping[str, Any] | None:
        """Return a tool as a request has it: under its name, or with its server's name before it."""
        prefixed = (tool for full_name, tool in self._described.items() if full_name.endswith(f"_{name}"))
        return self._described.get(name) or next(prefixed, None)


_servers: ContextVar[RecordedServers | None] = ContextVar("harness_recorded_servers", default=None)


@contextmanager
def without_servers(servers: RecordedServers) -> Generator[None]:
    """In this task and those that it starts, let the SDK's MCP servers connect to nothing and list what was recorded.

    An agent's own code may make and connect its servers before the agent is seen, so it is the SDK's methods that look
    whether their task is a replay's; in all other tasks they do what they always do.
    """
    token = _servers.set(servers)
    try:
        with _GUARD.in_use():
            yield
    finally:
        _servers.reset(token)


async def _connect_nothing(_: MCPServer, *__: Any, **___: Any) -> None:
    """Neither connect nor clean up."""


async def _list_recorded(server: MCPServer, *_: Any, **__: Any) -> list[Tool]:
    servers = _servers.get()
    return servers.tools_of(server.name) if servers else []


_STUBS: Mapping[str, Method] = {
    "connect": _connect_nothing,
    "cleanup": _connect_nothing,
    "list_tools": _list_recorded,
}


def _install() -> Callable[[], None]:
    """Let the servers' methods look for a replay around them; return what takes that away."""
    before = [(kind, name, kind.__dict__.get(name)) for kind in _KINDS for name in _STUBS]
    for kind, name, _ in before:
        setattr(kind, name, _only_in_replays(getattr(kind, name), _STUBS[name]))

    def undo() -> None:
        for kind, name, method in before:
            if method is None:
                delattr(kind, name)  # the method was inherited
            else:
                setattr(kind, name, method)

    return undo


def _only_in_replays(original: Method, stub: Method) -> Method:
    @wraps(original)
    async def method(self: MCPServer, *args: Any, **kwargs: Any) -> Any:
        return await (original if _servers.get() is None else stub)(self, *args, **kwargs)

    return method


_GUARD = ProcessGuard(_install)


def _tool(name: str, description: Mapping[str, Any]) -> Tool:
    return Tool.model_validate(
        {"name": name, "description": description.get("description"), "inputSchema": description.get("schema") or {}}
    )
