"""`harness agents` lists what `--agent NAME` finds, and one that is broken does not hide the others."""

import io
import random
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.cli.agents import ListedAgent, ListedTool, agents_table
from tests.conftest import ROOT, Done, Harness

NOTES = ROOT / "agents_config" / "_notes_server.py"
PACKAGED = {"extractor", "manager", "mcp_notes", "search", "triage"}

MINE = """
from agents import Agent, CodeInterpreterTool, FileSearchTool, function_tool, handoff
print("loading")

@function_tool
def look(at: str) -> str:
    "Look."
    return at

other = Agent(name="Other One")
third = Agent(name="third")
hosted = [CodeInterpreterTool(tool_config={"type": "code_interpreter", "container": {"type": "auto"}})]
agent = Agent(
    name="Not the file's name", model="theirs/big", tools=[look, other.as_tool("ask", "Ask."), *hosted],
    handoffs=[other, handoff(third)],
)
"""
NO_SERVER = """
from contextlib import asynccontextmanager
from agents import Agent
from agents.mcp import MCPServerStdio

@asynccontextmanager
async def build(env):
    async with MCPServerStdio({"command": "no-such-command"}) as server:
        yield Agent(name="x", mcp_servers=[server])
"""
NO_CONNECTION = """
from agents import Agent
from agents.mcp import MCPServerStdio

agent = Agent(name="x", mcp_servers=[MCPServerStdio({"command": "not-there-either"})])
"""
BROKEN = {
    "no_import": ("import no_such_module_at_all\n", "importing no_import.py raised ModuleNotFoundError"),
    "no_agent": ("x = 1\n", "has no `agent` or `build`"),
    "no_build": ("def build(env):\n    raise ValueError('not\\ntoday')\n", "raised ValueError: not today"),
    "no_server": (NO_SERVER, "no-such-command"),
    "no_connection": (NO_CONNECTION, "not-there-either"),
}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "agents_config"
    folder.mkdir()
    (folder / "mine.py").write_text(MINE)
    (folder / "_helper.py").write_text("1 / 0\n")
    return folder


def listed(done: Done) -> dict[str, Any]:
    assert done.code == 0, done.err
    return {a["name"]: a for a in done.json}


def test_an_agent_is_listed_with_what_it_is_made_of(here: Path, harness: Harness):
    found = listed(harness("agents", "--json"))
    assert list(found) == ["mine", *sorted(PACKAGED)]
    assert found["mine"] == {
        "name": "mine",
        "file": str(here / "mine.py"),
        "entry_point": None,
        "packaged": False,
        "model": "theirs/big",
        "tools": [
            {"name": "look", "type": "function"},
            {"name": "ask", "type": "agent"},
            {"name": "code_interpreter", "type": "hosted"},
        ],
        "handoffs": ["Other One", "third"],
        "error": None,
    }
    assert all(found[name]["packaged"] for name in PACKAGED)
    assert found["triage"]["handoffs"] == ["billing", "support"]
    assert found["mcp_notes"]["tools"] == [{"name": n, "type": "mcp"} for n in ("search_notes", "add_note")]


@pytest.mark.nightly
def test_it_is_loaded_as_a_run_started_now_would_load_it(harness: Harness):
    for env, kind in (({}, "function"), ({"OPENAI_API_KEY": "sk-x"}, "hosted")):
        assert [t["type"] for t in listed(harness("agents", "--json", env=env))["search"]["tools"]] == [kind]
    assert listed(harness("agents", "--json", env={"HARNESS_MODEL": "m"}))["search"]["model"] == "m"


def test_a_server_that_a_run_would_connect_is_asked_and_a_conditional_tool_is_shown(here: Path, harness: Harness):
    (here / "mine.py").write_text(
        "import sys\nfrom agents import Agent, function_tool\nfrom agents.mcp import MCPServerStdio\n"
        "@function_tool(is_enabled=lambda run, agent: run.context.allowed)\ndef rare() -> str:\n    return ''\n"
        f"server = MCPServerStdio({{'command': sys.executable, 'args': [{str(NOTES)!r}]}})\n"
        "agent = Agent(name='a', mcp_servers=[server], tools=[rare])\n"
    )
    mine = listed(harness("agents", "--json"))["mine"]
    assert mine["error"] is None
    assert [t["name"] for t in mine["tools"]] == ["search_notes", "add_note", "rare"]


@pytest.mark.nightly
def test_each_that_cannot_be_loaded_says_why_in_one_line_and_the_others_are_there(here: Path, harness: Harness):
    for name, (source, _) in BROKEN.items():
        (here / f"{name}.py").write_text(source)
    done = harness("agents", "--json")
    found = listed(done)
    assert "Traceback" not in done.err
    assert {name for name, agent in found.items() if agent["error"]} == BROKEN.keys()
    for name, (_, said) in BROKEN.items():
        assert said in found[name]["error"]
        assert "\n" not in found[name]["error"]
    shown = harness("agents").out
    assert shown.index("mine") < shown.index("triage") < shown.index("cannot be loaded:") < shown.index("no_build (")


def test_an_installed_entry_point_is_listed(harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    info = tmp_path / "site" / "other-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[harness.agents]\ntheirs = some_installed_agents:one\ngone = some_installed_agents:two\n"
    )
    (tmp_path / "site" / "some_installed_agents.py").write_text("from agents import Agent\none = Agent(name='One')\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    found = listed(harness("agents", "--json"))
    assert (found["theirs"]["entry_point"], found["theirs"]["error"]) == ("some_installed_agents:one", None)
    assert "two" in found["gone"]["error"]


def test_every_agent_is_shown_whole_in_a_row_where_there_is_room_else_in_lines_of_its_own(tmp_path: Path):
    rng = random.Random(0)
    tools = tuple(ListedTool(name=f"tool_{rng.randrange(10**9)}", type="hosted") for _ in range(6))
    found = [
        ListedAgent(
            name="a_rather_long_agents_name",
            model="Qwen/Qwen3-235B-A22B-Instruct-2507",
            tools=tools,
            handoffs=("billing department", "support"),
            file=str(tmp_path / "agents_config" / "a_rather_long.py"),
        ),
        ListedAgent(name="[bold]odd", entry_point="some.package.agents:odd", error="it [red]broke " * 12),
    ]
    for width in (80, 1000):
        out = io.StringIO()
        Console(file=out, width=width).print(*agents_table(found, tmp_path, width), sep="\n")
        lines = out.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        assert "[bold]odd (entry point some.package.agents:odd): it [red]broke" in " ".join(out.getvalue().split())
        name = next(at for at, line in enumerate(lines) if line.startswith("a_rather_long_agents_name"))
        shown = " ".join(lines[name:]) if width == 80 else lines[name]
        whole = ["Qwen/Qwen3-235B-A22B-Instruct-2507", "billing department, support", *(t.name for t in tools)]
        assert all(text in shown for text in [*whole, "agents_config/a_rather_long.py"])
