"""Rollouts share no state: not the agent's own lists, not MCP connections, unless the agent's file says so."""

import os
import re
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents import Agent, AgentHooks, function_tool

import harness
from harness.archive.run_files import create_beside
from harness.core.progress import Silent
from harness.core.records import Rollout
from tests.fake_endpoint import FakeEndpoint, Say, Seen
from tests.rollouts.test_capture import roll_out

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).with_name("stdio_server.py")
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
        group = await harness.rollout("counter.py", "Count.", n=2, model="m", base_url=endpoint.base_url)
    assert [r.failure for r in group.rollouts] == [None] * 2
    return list(group.rollouts)


@pytest.mark.process
async def test_each_rollout_has_an_mcp_connection_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rollouts = await counts(tmp_path, SOURCE, monkeypatch)
    assert [r.trajectory.path[0].tool_output for r in rollouts] == ["call 1"] * 2
    step = rollouts[0].trajectory.path[0]
    assert (step.tool_type, step.server, step.tool_name) == ("mcp", "counting", "count")


@pytest.mark.process
async def test_an_agents_file_may_declare_its_mcp_servers_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rollouts = await counts(tmp_path, SOURCE + "SHARED_MCP = True\n", monkeypatch)
    assert sorted(str(r.trajectory.path[0].tool_output) for r in rollouts) == ["call 1", "call 2"]


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


class Heard(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


WAYS: dict[str, tuple[Callable[[Path], object], int]] = {
    "a file that is written": (lambda folder: (folder / "scratch.txt").write_text("x"), 1),
    "a file that is appended to": (lambda folder: (folder / "scratch.txt").open("a").close(), 1),
    "os.open": (lambda folder: os.close(os.open(folder / "scratch.txt", os.O_WRONLY | os.O_CREAT)), 1),
    "a database": (lambda folder: sqlite3.connect(folder / "scratch.txt").close(), 1),
    "a file that is read": (lambda folder: (folder / "read.txt").read_text(), 0),
    "a temporary file": (lambda folder: tempfile.NamedTemporaryFile(dir=folder).close(), 0),
    "a file of the archive": (lambda folder: create_beside(folder / "segments" / "a.jsonl").close(), 0),
    "a database in memory": (lambda _: sqlite3.connect(":memory:").close(), 0),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("in_thread", [True, False])
@pytest.mark.few(8)
async def test_two_rollouts_that_write_one_path_are_named_once(tmp_path: Path, way: str, in_thread: bool):
    work, notes = WAYS[way]
    (tmp_path / "read.txt").touch()

    def touch() -> str:
        work(tmp_path)
        return "done"

    async def touch_here() -> str:
        return touch()

    agent = Agent(name="a", tools=[function_tool(touch if in_thread else touch_here, name_override="touch")])
    heard = Heard()
    with FakeEndpoint(agent=lambda s: Say("x") if s.tool_outputs else Say(calls=(("touch", {}),))).serving() as at:
        await harness.rollout(agent, "Go.", n=3, model="m", base_url=at.base_url, progress=heard)
    assert len(heard.notes) == notes
    for note in heard.notes:
        assert re.search(r"rollouts \w+/\d and \w+/\d both write \S*/scratch.txt: rollouts share a process", note)


async def test_what_is_written_outside_of_rollouts_is_nobodys(tmp_path: Path):
    heard = Heard()

    def before(_query: object, _context: object) -> None:
        (tmp_path / "own.txt").write_text("x")

    with FakeEndpoint(agent=lambda _: Say("x")).serving() as at:
        for _ in range(2):
            before(None, None)
            await harness.rollout(Agent(name="a"), "Go.", n=1, model="m", base_url=at.base_url, progress=heard)
    assert heard.notes == []
