"""What an MCP server's error becomes in a rollout is what the bare SDK makes of it; one that cannot start is named."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, OpenAIProvider, RunConfig, Runner, UserError
from agents.mcp import MCPServer, MCPServerSse, MCPServerStdio, MCPServerStreamableHttp
from mcp import MCPError
from mcp.types import CallToolResult, TextContent, Tool
from openai import AsyncOpenAI

import harness
from harness.core.records import Failure
from tests.fake_endpoint import FakeEndpoint, Say, Seen

pytestmark = pytest.mark.anyio

SERVER, OVER_HTTP = map(Path(__file__).with_name, ("stdio_server.py", "failing_server.py"))
CALLS = ("raises", "refuses", "hangs", "dies", "works")


class InProcess(MCPServer):
    """A server that fails as its tool's name says."""

    def __init__(self, error: BaseException | None, **options: Any) -> None:
        super().__init__(**options)
        self.error = error

    @property
    def name(self) -> str:
        return "in process"

    async def connect(self) -> None: ...

    async def cleanup(self) -> None: ...

    async def list_tools(self, *_: Any, **__: Any) -> list[Tool]:
        return [Tool.model_validate({"name": "act", "inputSchema": {"type": "object", "properties": {}}})]

    async def call_tool(self, *_: Any, **__: Any) -> CallToolResult:
        if self.error:
            raise self.error
        return CallToolResult(content=[TextContent(type="text", text="it went wrong")], is_error=True)

    async def list_prompts(self, *_: Any) -> Any: ...

    async def get_prompt(self, *_: Any, **__: Any) -> Any: ...


def calling(tool: str) -> Any:
    def script(seen: Seen) -> Say:
        return Say("Done.") if seen.tool_outputs else Say(calls=((tool, {}),))

    return script


async def bare(server: MCPServer, tool: str) -> tuple[Any, ...]:
    """Return what the SDK alone tells the model, and what it raises."""
    with FakeEndpoint(agent=calling(tool)).serving() as endpoint:
        error = None
        async with AsyncExitStack() as connected:
            client = await connected.enter_async_context(AsyncOpenAI(base_url=endpoint.base_url, api_key="k"))
            provider = OpenAIProvider(openai_client=client, use_responses=False)
            config = RunConfig(model="m", model_provider=provider, tracing_disabled=True)
            connected.push_async_callback(server.cleanup)
            await server.connect()
            try:
                await Runner.run(Agent(name="a", mcp_servers=[server]), "Do it.", run_config=config)
            except Exception as exc:  # noqa: BLE001
                error = type(exc).__name__
    return [r.tool_outputs for r in endpoint.requests], error


async def in_harness(server: MCPServer, tool: str) -> tuple[Any, ...]:
    with FakeEndpoint(agent=calling(tool)).serving() as endpoint:
        agent = Agent(name="a", mcp_servers=[server])
        group = await harness.rollout(agent, "Do it.", n=1, model="m", base_url=endpoint.base_url)
    failure = group.rollouts[0].failure
    return [r.tool_outputs for r in endpoint.requests], failure and failure.type


@contextmanager
def serving(transport: str) -> Generator[MCPServer]:
    """Yield a server that is not connected, and serve it where somebody must."""
    if transport == "stdio":
        yield MCPServerStdio(
            {"command": sys.executable, "args": [str(SERVER)]}, name="failing", client_session_timeout_seconds=10
        )
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, OVER_HTTP, str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None:
                with socket.socket() as client:
                    if client.connect_ex(("127.0.0.1", port)) == 0:
                        break
            yield MCPServerStreamableHttp(
                {"url": f"http://127.0.0.1:{port}/mcp"}, name="failing", client_session_timeout_seconds=10
            )
        finally:
            process.kill()


@pytest.mark.process
@pytest.mark.few(1)
@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_servers_errors_become_what_the_bare_sdk_makes_of_them(transport: str, tool: str):
    told = []
    for run in (bare, in_harness):
        with serving(transport) as server:
            if tool == "hangs":
                server.client_session_timeout_seconds = 3  # pyright: ignore[reportAttributeAccessIssue]
            told.append(await run(server, tool))
    assert told[0] == told[1]


ERRORS: dict[str, Any] = {
    "flagged": None,
    "protocol": MCPError(code=-32602, message="no such argument"),
    "any": ValueError("no such row"),
    "user": UserError("server not initialized"),
    "time": TimeoutError("5 s"),
    "cancelled": asyncio.CancelledError(),
}


@pytest.mark.few(6)
@pytest.mark.parametrize("options", [{}, {"failure_error_function": None}], ids=["told", "raised"])
@pytest.mark.parametrize("error", ERRORS)
async def test_so_do_those_of_a_server_of_the_users_own(error: str, options: dict[str, Any]):
    outputs, raised = await bare(InProcess(ERRORS[error], **options), "act")
    outputs_here, failure = await in_harness(InProcess(ERRORS[error], **options), "act")
    assert (outputs, bool(raised)) == (outputs_here, bool(failure))


async def failure_to_start(server: MCPServer) -> Failure:
    with FakeEndpoint(agent=lambda _: Say("Done.")).serving() as endpoint:
        agent = Agent(name="a", mcp_servers=[server])
        group = await harness.rollout(agent, "Do it.", n=1, model="m", base_url=endpoint.base_url)
    assert not endpoint.requests
    assert group.rollouts[0].failure
    return group.rollouts[0].failure


@pytest.mark.process
@pytest.mark.parametrize(
    ("params", "command", "cause"),
    [
        ({"command": "/no/such/server", "args": ["--port", "1"]}, "/no/such/server --port 1", "FileNotFoundError"),
        ({"command": sys.executable, "args": ["-c", "0"]}, f"{sys.executable} -c 0", "MCPError: Connection closed"),
        ({"command": "/no/server", "args": ["--api-key", "s3cret"]}, "/no/server --api-key [redacted]", "No such file"),
    ],
)
async def test_a_server_that_cannot_start_is_named_with_its_command_and_the_cause(
    params: Any, command: str, cause: str
):
    failure = await failure_to_start(MCPServerStdio(params, name="rows"))
    assert (failure.kind, failure.type) == ("internal", "ServerFailed")
    assert f"the MCP server 'rows' did not start ({command}): " in failure.message
    assert cause in failure.message


@pytest.mark.parametrize("kind", [MCPServerStreamableHttp, MCPServerSse])
async def test_so_is_one_at_an_address_without_what_is_secret(kind: Any):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}/mcp"
        failure = await failure_to_start(kind({"url": f"http://me:s3cret@{address}?token=s3cret"}, name="rows"))
    assert f"the MCP server 'rows' did not start (http://{address}): " in failure.message
    assert "s3cret" not in failure.message
    assert "TaskGroup" not in failure.message
