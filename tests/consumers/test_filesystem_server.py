"""A fork runs the tools of npm's @modelcontextprotocol/server-filesystem again; another output ends it."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import UsageError
from tests.fake_endpoint import FakeEndpoint, Reaction, Say, Seen
from tests.pipeline.forked_agents import answers, fork, paid_calls, rollouts_of, run_once

pytestmark = [pytest.mark.consumers, pytest.mark.process]
WHERE = "console.log(require.resolve('@modelcontextprotocol/server-filesystem/dist/index.js'))"
AGENT = """
from agents import Agent
from agents.mcp import MCPServerStdio

server = MCPServerStdio({{"command": {node!r}, "args": [{server!r}, {folder!r}]}}, name="files",
                        client_session_timeout_seconds=60)
agent = Agent(name="files", instructions="Keep notes.", mcp_servers=[server])
"""


@pytest.fixture
def server() -> tuple[str, str]:
    node = shutil.which("node")
    found = node and subprocess.run([node, "-e", WHERE], capture_output=True, text=True, check=False)
    if not (node and found and not found.returncode):
        pytest.skip("npm's @modelcontextprotocol/server-filesystem is not installed where node finds it (NODE_PATH)")
    return node, found.stdout.strip()


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeEndpoint]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "a" * 40)
    note = {"path": str(tmp_path / "notes" / "new.txt"), "content": "two"}
    calls = [
        ("list_directory", {"path": str(tmp_path / "notes")}),
        ("read_text_file", {"path": str(tmp_path / "notes" / "a.txt")}),
        ("write_file", note),
    ]
    said = list[int]()

    def reply(seen: Seen) -> Reaction:
        done = len(seen.tool_outputs)
        return Say(calls=(calls[done],)) if done < len(calls) else Say(answers(said))

    with FakeEndpoint(reply).serving() as serving:
        yield serving


def test_live_tools_of_a_real_server_run_again_and_must_give_the_same(
    server: tuple[str, str], endpoint: FakeEndpoint, tmp_path: Path
):
    node, script = server
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("one")
    file = tmp_path / "files.py"
    file.write_text(AGENT.format(node=node, server=script, folder=str(notes)))
    run = run_once(file, endpoint, tmp_path / "runs")
    (parent,) = rollouts_of(run)
    outputs = [str(step.tool_output) for step in parent.trajectory.path]
    assert ["a.txt" in outputs[0], "one" in outputs[1], (notes / "new.txt").read_text()] == [True, True, "two"]
    told: Any = {"at": "2", "live_tools": True}
    with pytest.raises(UsageError, match=r"tool output changed: list_directory"):
        fork(run, file, endpoint, **told)  # the rollout has left a file there
    (notes / "new.txt").unlink()
    made = fork(run, file, endpoint, **told)
    assert paid_calls(made) == [2]
    assert (notes / "new.txt").read_text() == "two"
    (notes / "new.txt").unlink()
    (notes / "a.txt").write_text("another")
    endpoint.requests.clear()
    with pytest.raises(UsageError, match=r"tool output changed: read_text_file"):
        fork(run, file, endpoint, **told)
    assert not endpoint.requests
    branch = rollouts_of(fork(run, file, endpoint, at="2"))[1]
    assert [str(step.tool_output) for step in branch.trajectory.path[:2]] == outputs[:2], "from the record"
