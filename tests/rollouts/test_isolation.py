"""Rollouts share no state: not the agent's own lists, not MCP connections, unless the agent's file says so."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from agents import Agent, AgentHooks

import harness
from harness.core.records import Rollout
from tests.fake_endpoint import FakeEndpoint, Say, Seen
from tests.rollouts.test_capture import roll_out

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).with_name("counting_server.py")
SOURCE = f"""
import sys
from agents import Agent
from agents.mcp import MCPServerStdio
server = MCPServerStdio({{"command": sys.executable, "args": [{str(SERVER)!r}]}}, name="counting",
                        client_session_timeout_seconds=60)
agent = Agent(name="counter", mcp_servers=[server])
"""


def counting(seen: Seen) -> Say:
    return Say("Done.") if seen.tool_outputs else Say(calls=(("count", {}),))


async def counts(folder: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> list[Rollout]:
    (folder / "counter.py").write_text(source)
    monkeypatch.chdir(folder)
    with FakeEndpoint(agent=counting).serving() as endpoint:
        group = await harness.rollout("counter.py", "Count.", n=3, model="m", base_url=endpoint.base_url)
    assert [r.failure for r in group.rollouts] == [None] * 3
    return list(group.rollouts)


@pytest.mark.process
async def test_each_rollout_has_an_mcp_connection_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rollouts = await counts(tmp_path, SOURCE, monkeypatch)
    assert [r.trajectory.path[0].tool_output for r in rollouts] == ["call 1"] * 3
    step = rollouts[0].trajectory.path[0]
    assert (step.tool_type, step.server, step.tool_name) == ("mcp", "counting", "count")


@pytest.mark.process
async def test_an_agents_file_may_declare_its_mcp_servers_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rollouts = await counts(tmp_path, SOURCE + "SHARED_MCP = True\n", monkeypatch)
    assert sorted(str(r.trajectory.path[0].tool_output) for r in rollouts) == ["call 1", "call 2", "call 3"]


async def test_what_a_rollout_changes_on_its_agent_no_other_sees():
    class Changing(AgentHooks[Any]):
        async def on_start(self, context: Any, agent: Any) -> None:
            agent.instructions += " And again."

    agent = Agent(name="a", instructions="Once.", hooks=Changing())
    _, seen = await roll_out(agent, lambda _: Say("x"), n=5, concurrency=1)
    assert {r.system for r in seen} <= {"Once.", "Once. And again."}
    assert agent.instructions == "Once."


async def test_two_runs_in_one_process_do_not_mix():
    found: dict[str, list[Rollout]] = {}

    async def run(name: str) -> None:
        rollouts, _ = await roll_out(Agent(name=name, instructions=name), lambda s: Say(s.system), n=8)
        found[name] = rollouts

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, "first")
        tasks.start_soon(run, "second")
    for name, rollouts in found.items():
        assert {r.trajectory.answer for r in rollouts} == {name}
        assert {r.instructions for r in rollouts} == {name}
