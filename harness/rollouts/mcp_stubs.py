"""MCP without servers: what a server listed is known from the recording, and what its tools gave as well."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from agents.mcp import MCPServerSse, MCPServerStdio, MCPServerStreamableHttp
from mcp.types import Tool

_KINDS = (MCPServerStdio, MCPServerSse, MCPServerStreamableHttp)


@contextmanager
def without_servers(listed: Mapping[str, Sequence[str]], requests: Sequence[Mapping[str, Any]]) -> Generator[None]:
    """Let the SDK's MCP servers connect to nothing, and list the tools that they listed in a recorded run.

    `listed` is tool names by server; descriptions and schemas stand in the `requests`. A server is started by the
    agent's own code, so there is no door to put a fake in: for as long as this lasts, the SDK's three server classes
    have other methods. Nothing is changed if no server is known.
    """
    if not listed:
        yield
        return
    offered = {str(tool["name"]): tool for request in requests for tool in request["tools"]}

    async def nothing(self: Any) -> None:
        """Connect to, or clean up, nothing."""

    async def list_tools(self: Any, run_context: Any = None, agent: Any = None) -> list[Tool]:
        del run_context, agent
        return [tool for name in listed.get(self.name, ()) if (tool := _tool(name, offered))]

    methods = {"connect": nothing, "cleanup": nothing, "list_tools": list_tools}
    before = {(kind, name): kind.__dict__.get(name) for kind in _KINDS for name in methods}
    try:
        for kind, name in before:
            setattr(kind, name, methods[name])
        yield
    finally:
        for (kind, name), method in before.items():
            if method is None:
                delattr(kind, name)  # it was inherited
            else:
                setattr(kind, name, method)


def _tool(name: str, offered: Mapping[str, Mapping[str, Any]]) -> Tool | None:
    """Return a listed tool as recorded, be it offered under its name or with its server's before it."""
    found = offered.get(name) or next((t for n, t in offered.items() if n.endswith(f"_{name}")), None)
    if found is None:
        return None
    told: dict[str, Any] = {
        "name": name,
        "description": found.get("description"),
        "inputSchema": found.get("schema") or {},
    }
    return Tool.model_validate(told)
