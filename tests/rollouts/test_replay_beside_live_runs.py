"""A replay puts stand-ins in the place of MCP servers and of the SDK's runner for itself alone."""

import random
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents import Agent, Runner
from agents.mcp import MCPServerSse, MCPServerStdio, MCPServerStreamableHttp
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner

import harness
from harness.core.records import Effective, Rollout, Sampling, Trajectory
from harness.core.settings_sources import environment
from harness.offline.model import OfflineModel
from harness.pipeline.validation import replay_run
from harness.rollouts.loading import load_agent
from harness.rollouts.recording import Diverged, Recording
from harness.rollouts.replay import Replayed, ReplayRuns
from harness.rollouts.sdk_runner import RecordedServers, runs_taken_over, without_servers
from tests.fake_endpoint import FakeEndpoint, Say, Seen
from tests.rollouts.stdio_server import NAMES
from tests.rollouts.test_replay import archived

pytestmark = [pytest.mark.anyio, pytest.mark.process]

SERVER = Path(__file__).with_name("stdio_server.py")
CLASSES = (MCPServerStdio, MCPServerSse, MCPServerStreamableHttp)
COUNT = {"name": "recorded_count", "description": "As recorded.", "schema": {"type": "object"}}
SERVERS = RecordedServers({"counting": ["recorded_count"]}, [{"tools": [COUNT]}])
NO_COMMAND = "/no/such/command"


def server(command: str = sys.executable) -> MCPServerStdio:
    params: Any = {"command": command, "args": [str(SERVER)]}
    return MCPServerStdio(params, name="counting", client_session_timeout_seconds=60)


async def tools_of(mcp_server: MCPServerStdio) -> list[str]:
    async with mcp_server:
        return [tool.name for tool in await mcp_server.list_tools()]


def methods() -> list[object]:
    return [vars(kind).get(name) for kind in CLASSES for name in ("connect", "cleanup", "list_tools")]


async def test_a_live_task_reaches_its_server_while_a_replay_is_under_way():
    began, over, tools = anyio.Event(), anyio.Event(), dict[str, list[str]]()

    async def live() -> None:
        await began.wait()
        tools["live"] = await tools_of(server())
        over.set()

    async def of_the_replay() -> None:
        tools["replay"] = await tools_of(server(NO_COMMAND))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(live)
        with without_servers(SERVERS):
            began.set()
            async with anyio.create_task_group() as inner:
                inner.start_soon(of_the_replay)
            await over.wait()
    assert tools == {"live": [*NAMES], "replay": ["recorded_count"]}


async def test_overlapping_replays_have_their_own_stand_ins_and_leave_the_sdks_classes_as_they_were():
    before = methods()
    first_began, second_began, first_over = anyio.Event(), anyio.Event(), anyio.Event()

    async def first() -> None:
        with without_servers(SERVERS):
            first_began.set()
            await second_began.wait()
            assert await tools_of(server(NO_COMMAND)) == ["recorded_count"]
        first_over.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        await first_began.wait()
        with without_servers(RecordedServers({"counting": []}, [])):
            second_began.set()
            await first_over.wait()
            assert await tools_of(server(NO_COMMAND)) == []
    assert methods() == before


class CountingRunner(AgentRunner):
    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    async def run(self, *args: Any, **more: Any) -> Any:
        self.runs += 1
        return await super().run(*args, **more)


def offline_agent() -> Agent[Any]:
    return Agent(name="live", model=OfflineModel(random.Random(0)))


def recording() -> Recording:
    rollout = Rollout(
        run="r",
        query="q",
        index=0,
        role="anchor",
        requested=Sampling(temperature=0.0),
        effective=Effective(uniform=True),
        status="ok",
        trajectory=Trajectory(query="Go."),
        started_at=datetime(2027, 1, 1, tzinfo=UTC),
        duration_s=0.0,
    )
    return Recording(rollout, (), str, drives_nested=True, live_tools=False)


async def test_live_runs_go_to_the_runner_that_was_there_before_and_a_replays_own_runs_to_none():
    usual, theirs = get_default_agent_runner(), CountingRunner()
    set_default_agent_runner(theirs)
    began, over = anyio.Event(), anyio.Event()

    async def live() -> None:
        await began.wait()
        assert (await Runner.run(offline_agent(), "Lisp?")).final_output
        over.set()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(live)
            with runs_taken_over(ReplayRuns(recording())):
                began.set()
                with pytest.raises(Diverged):
                    await Runner.run(offline_agent(), "Lisp?")
                await over.wait()
        assert theirs.runs == 1
        assert get_default_agent_runner() is theirs
    finally:
        set_default_agent_runner(usual)


AGENT = f"""
import sys
from contextlib import asynccontextmanager
from agents import Agent
from agents.mcp import MCPServerStdio

@asynccontextmanager
async def build():
    params = {{"command": sys.executable, "args": [{str(SERVER)!r}]}}
    async with MCPServerStdio(params, name="counting", client_session_timeout_seconds=60) as server:
        yield Agent(name="counter", mcp_servers=[server])
"""


def counting(seen: Seen) -> Say:
    return Say("Done.") if seen.tool_outputs else Say(calls=(("count", {}),))


@pytest.mark.nightly
async def test_a_live_run_beside_a_replay_of_the_same_agent_is_as_alone(tmp_path: Path):
    file = tmp_path / "counter.py"
    file.write_text(AGENT)
    run = await archived(str(file), "Count.", counting, tmp_path / "runs")
    live: list[Rollout] = []
    outcomes: list[Replayed] = []

    async def before_rollout(*_: Any) -> None:
        began.set()
        await over.wait()

    async def roll_out(base_url: str) -> None:
        await began.wait()
        live.extend((await harness.rollout(str(file), "Count.", n=2, model="m", base_url=base_url)).rollouts)
        over.set()

    began, over = anyio.Event(), anyio.Event()
    loaded = replace(load_agent(str(file), Path.cwd()), before_rollout=before_rollout)
    with FakeEndpoint(agent=counting).serving() as endpoint:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(roll_out, endpoint.base_url)
            outcomes += [outcome async for outcome in replay_run(run, loaded, environment())]
    assert [(o.divergence, o.replayed) for o in outcomes] == [(None, 2), (None, 2)]
    assert [r.trajectory.path[0].tool_output for r in live] == ["call 1", "call 1"]
    assert len(endpoint.requests) == 4
