"""Whatever way an agent's code writes to stdout, nothing but the result stands there."""

from pathlib import Path

from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Say, Seen

LOUD = """
import os, subprocess
from agents import Agent, function_tool

def shout(where):
    print("printed", where)
    os.write(1, f"written {where}\\n".encode())
    subprocess.run(["echo", "child", where], check=True)

shout("at import")

@function_tool
def loud() -> str:
    "Be loud."
    shout("in a tool")
    return "loud"

def build():
    shout("in build")
    return Agent(name="loud", tools=[loud])
"""


def calling(seen: Seen) -> Say:
    return Say("Done.") if seen.tool_outputs else Say(calls=(("loud", {}),))


def test_what_agent_code_writes_goes_to_stderr(program: Harness, tmp_path: Path):
    (tmp_path / "agents_config").mkdir()
    (tmp_path / "agents_config" / "loud.py").write_text(LOUD)
    with FakeEndpoint(agent=calling).serving() as endpoint:
        at = ("--agent", "loud", "--model", "m", "--base-url", endpoint.base_url, "-n", "2")
        done = program("run", "Why?", *at, "--json")
        assert done.code == 0, done.err
        assert len(done.json["groups"][0]["rollouts"]) == 2
        best = program("best", "Why?", *at)
        assert best.out == "Done.\n"
    for how in ("printed", "written", "child"):
        for where in ("at import", "in build", "in a tool"):
            assert f"{how} {where}" in done.err
    assert program("replay", "--live-tools", "--json").json["identical"] is True
    assert "loud" in [agent["name"] for agent in program("agents", "--json").json]
