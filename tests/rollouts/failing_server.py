"""An MCP server whose tools fail in every way, over HTTP at the port that is its argument."""

import asyncio
import os
import sys

from mcp import MCPError
from mcp.server import MCPServer

server = MCPServer("failing")


@server.tool()
def raises() -> str:
    """Raise."""
    raise ValueError("no such row")


@server.tool()
def refuses() -> str:
    """Answer with an error of the protocol."""
    raise MCPError(code=-32602, message="no such argument")


@server.tool()
async def hangs() -> str:
    """Hang."""
    await asyncio.sleep(60)
    return "late"


@server.tool()
def dies() -> str:
    """Die."""
    os._exit(1)


@server.tool()
def works() -> str:
    """Work."""
    return "fine"


if __name__ == "__main__":
    server.run("streamable-http", port=int(sys.argv[1]))
