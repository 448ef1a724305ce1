"""An MCP server that counts its calls: shared state shows as a number above one."""

from mcp.server import MCPServer

server = MCPServer("counting")
calls = 0


@server.tool()
def count() -> str:
    """Count this call."""
    global calls  # noqa: PLW0603
    calls += 1
    return f"call {calls}"


if __name__ == "__main__":
    server.run()
