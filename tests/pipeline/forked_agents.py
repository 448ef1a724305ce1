"""Agents of every kind, what their models reply, and runs of them that are forked."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, function_tool, handoff
from agents.mcp import MCPServer
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool

import harness
from harness.archive.reader import RunReader
from harness.core.fork_rules import ForkRules
from harness.core.records import Rollout
from tests.fake_endpoint import FakeEndpoint, Reaction, Say, Seen

STEPS = 3
"""Tool calls of the plain agent, one after the other; then it answers."""
RAN: list[str] = []
"""What tools did."""


def answers(said: list[int]) -> str:
    said.append(1)
    return f"Answer {len(said)}."


def stepping() -> Callable[[Seen], Reaction]:
    """Call the tool STEPS times, then answer; every answer is another."""
    said = list[int]()

    def reply(seen: Seen) -> Reaction:
        done = len(seen.tool_outputs)
        return Say(answers(said)) if done == STEPS else Say(calls=(("note", {"text": f"step {done + 1}"}),))

    return reply


@pytest.fixture(autouse=True)
def keyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be a key, and let no tool have run, in each test of a module that imports this."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "a" * 40)
    RAN.clear()


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(stepping()).serving() as serving:
        yield serving


@function_tool
def note(text: str) -> str:
    """Note a text."""
    RAN.append(text)
    return f"noted {text}"


@function_tool
async def ask_in_a_stream(text: str) -> str:
    """Ask another agent, in a stream."""
    result = Runner.run_streamed(Agent(name="inner", instructions="Inner.", tools=[note]), text)
    async for _ in result.stream_events():
        pass
    return str(result.final_output)


@function_tool(needs_approval=True)
def send(text: str) -> str:
    """Send a text."""
    RAN.append(text)
    return f"sent {text}"


class Notes(MCPServer):
    """A server with the tool `note`."""

    @property
    def name(self) -> str:
        return "notes"

    async def connect(self) -> None: ...

    async def cleanup(self) -> None: ...

    async def list_tools(self, *_: Any, **__: Any) -> list[MCPTool]:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        return [MCPTool.model_validate({"name": "note", "inputSchema": schema})]

    async def call_tool(self, tool_name: str, arguments: dict[str, Any] | None, *_: Any, **__: Any) -> CallToolResult:
        RAN.append(str((arguments or {}).get("text")))
        return CallToolResult(content=[TextContent(type="text", text="noted")])

    async def list_prompts(self, *_: Any) -> Any: ...

    async def get_prompt(self, *_: Any, **__: Any) -> Any: ...


def inner() -> Agent[Any]:
    return Agent(name="inner", instructions="Inner.", tools=[note])


def plain() -> Agent[Any]:
    return Agent(name="plain", instructions="Note.", tools=[note])


def handing_over() -> Agent[Any]:
    second = Agent[Any](name="second", instructions="Second.", tools=[note])
    return Agent(name="first", instructions="First.", tools=[note], handoffs=[handoff(second)])


def nesting() -> Agent[Any]:
    return Agent(name="outer", instructions="Outer.", tools=[inner().as_tool("ask", "Ask it.")])


def streaming() -> Agent[Any]:
    return Agent(name="outer", instructions="Outer.", tools=[ask_in_a_stream])


async def in_a_stream(query: str) -> Any:
    """Run the plain agent in a stream."""
    result = Runner.run_streamed(plain(), query)
    async for _ in result.stream_events():
        pass
    return result


def on_mcp() -> Agent[Any]:
    return Agent(name="mcp", instructions="Note.", mcp_servers=[Notes()])


def asking() -> Agent[Any]:
    return Agent(name="asking", instructions="Send.", tools=[send, note])


def handing_over_script() -> Callable[[Seen], Reaction]:
    said = list[int]()

    def reply(seen: Seen) -> Reaction:
        done = len(seen.tool_outputs)
        if seen.system == "First.":
            return Say(calls=(("note", {"text": "a"}),)) if not done else Say(calls=(("transfer_to_second", {}),))
        return Say(answers(said)) if done > 2 else Say(calls=(("note", {"text": "b"}),))

    return reply


def nested_script(tool: str, *, parallel: bool = False) -> Callable[[Seen], Reaction]:
    said = list[int]()

    def reply(seen: Seen) -> Reaction:
        if seen.system == "Inner.":
            return Say("Inner is done.") if seen.tool_outputs else Say(calls=(("note", {"text": seen.user}),))
        asks = tuple((tool, {"input" if tool == "ask" else "text": word}) for word in ("x", "y")[: 1 + parallel])
        return Say(answers(said)) if seen.tool_outputs else Say(calls=asks)

    return reply


def parallel_script() -> Callable[[Seen], Reaction]:
    said = list[int]()
    both = Say(calls=(("note", {"text": "a"}), ("send", {"text": "b"}), ("note", {"text": "c"})))

    def reply(seen: Seen) -> Reaction:
        if len(seen.tool_outputs) >= 6:
            return Say(answers(said))
        return both

    return reply


KINDS: dict[str, tuple[Callable[[], Any], Callable[[], Callable[[Seen], Reaction]], int]] = {
    "plain": (plain, stepping, 4),
    "handoff": (handing_over, handing_over_script, 4),
    "nested": (nesting, lambda: nested_script("ask"), 4),
    "side by side": (nesting, lambda: nested_script("ask", parallel=True), 6),
    "streamed": (lambda: in_a_stream, stepping, 4),
    "streamed by a tool": (streaming, lambda: nested_script("ask_in_a_stream"), 4),
    "mcp": (on_mcp, stepping, 4),
    "approvals": (asking, parallel_script, 3),
}
"""Agents, what their model replies, and how many model calls that takes."""


def run_once(agent: Any, endpoint: FakeEndpoint, folder: Path, **settings: Any) -> harness.Run:
    values: Any = {"n": 1, "model": "m", "topology": "none", "retries": 0, "approve": ["all"], **settings}
    return harness.run_sync(agent, ["Go on?"], base_url=endpoint.base_url, runs_dir=folder, report=False, **values)


def fork(run: harness.Run, agent: Any, endpoint: FakeEndpoint, **rules: Any) -> harness.Run:
    folder = run.path.parent
    return harness.fork_sync(run, ForkRules(**rules), agent, base_url=endpoint.base_url, runs_dir=folder, report=False)


def rollouts_of(run: harness.Run) -> list[Rollout]:
    with RunReader(run.path) as reader:
        (query,) = reader.queries()
        return list(reader.group(query).rollouts)


def paid_calls(made: harness.Run) -> list[int]:
    return [rollout.usage.requests for rollout in rollouts_of(made) if rollout.branch]
