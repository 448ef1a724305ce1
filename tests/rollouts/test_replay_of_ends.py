"""A replay is identical where an output is not recorded, no request could carry it, or no span holds it."""

from pathlib import Path
from typing import Any

import pytest

from harness.archive.reader import RunReader
from harness.core.records import Rollout
from tests.fake_endpoint import Say, Script, Seen
from tests.rollouts.test_replay import BOTH_APIS, archived, identical, replayed

pytestmark = pytest.mark.anyio
AGENT = """
import os
from pathlib import Path
from agents import *

@function_tool
def secret(word: str) -> dict[str, str]:
    "Give a secret."
    return {"ssn": word}

@function_tool
def plain(word: str) -> str:
    "Give a word."
    return word

@function_tool
def lone(word: str) -> str:
    "Give half of a character."
    return word + chr(0xD800)

@function_tool
def promote(context: RunContextWrapper[dict], word: str) -> str:
    "Change what the instructions read."
    context.context["rank"] = word
    return "done"

@tool_output_guardrail
def blocked(data):
    found = ToolGuardrailFunctionOutput.raise_exception(output_info={})
    return found if "ssn" in str(data.output) else ToolGuardrailFunctionOutput.allow()

secret.tool_output_guardrails = [blocked]

def shell(request):
    with Path(__file__).with_name("ran").open("a") as file:
        file.write("x")
    return " ".join(request.data.action.command)

def commands(request):
    with Path(__file__).with_name("ran").open("a") as file:
        file.write("x")
    what = request.data.action.commands[0]
    if what == "fail":
        raise OSError("no shell")
    outcome = ShellCallOutcome("exit", 3)
    return "text" if what == "text" else ShellResult([ShellCommandOutput("out", "err", outcome)] * 2)

def mark(what):
    with Path(__file__).with_name("ran").open("a") as file:
        file.write("x")
    return what

class Editor:
    def create_file(self, operation):
        if "bad" in operation.path:
            raise OSError("no such folder")
        return mark("created " + operation.path)
    update_file = delete_file = create_file

class Screen(AsyncComputer):
    environment, dimensions = "linux", (10, 10)
    async def screenshot(self):
        return mark("aGk=")
    async def click(self, x, y, button): ...
    async def double_click(self, x, y): ...
    async def scroll(self, x, y, scroll_x, scroll_y): ...
    async def type(self, text): ...
    async def wait(self): ...
    async def move(self, x, y): ...
    async def keypress(self, keys): ...
    async def drag(self, path): ...

def raw(context, text):
    return mark("raw " + text)

def told(context, agent):
    return f"Serve the {context.context['rank']}."

def context(query):
    return {"rank": "private"}

def build(env):
    tools = [secret, plain, lone, promote]
    shells = [LocalShellTool(shell), ShellTool(commands)] if env.api == "responses" else []
    if "hands" in os.environ.get("OWN_TOOLS", ""):
        shells = [ApplyPatchTool(Editor()), ComputerTool(Screen()), CustomTool("raw", "Raw.", raw)]
    return Agent(name="a", instructions=told, model="m", tools=tools + shells)
"""
ACTION: dict[str, Any] = {"type": "exec", "command": ["echo", "hi"], "env": {}}
SHELL: dict[str, Any] = {
    "type": "local_shell_call",
    "id": "s",
    "call_id": "s1",
    "status": "completed",
    "action": ACTION,
}


@pytest.fixture
def agent(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(AGENT)
    return str(tmp_path / "own.py")


def calling(*names: str) -> Script:
    """Call tools side by side, then answer."""

    def script(seen: Seen) -> Say:
        if seen.tool_outputs or any(str(item.get("type")).endswith("shell_call_output") for item in seen.items):
            return Say("Done.")
        items: Any = (SHELL,) if "shell" in names else ()
        return Say(calls=tuple((name, {"word": "w"}) for name in names if name != "shell"), items=items)

    return script


def rollouts(run: Path) -> list[Rollout]:
    with RunReader(run) as reader:
        return [rollout for query in reader.queries() for rollout in reader.group(query).rollouts]


@pytest.mark.few(3)
@BOTH_APIS
@pytest.mark.parametrize("names", [("secret",), ("plain", "secret"), ("secret", "plain")])
async def test_a_tool_output_that_a_guardrail_stopped(names: tuple[str, ...], api: str, agent: str, tmp_path: Path):
    run = await archived(agent, "Go.", calling(*names), tmp_path / "runs", api)
    assert [r.failure and r.failure.type for r in rollouts(run)] == ["ToolOutputGuardrailTripwireTriggered"] * 2
    await identical(run, agent)
    assert all("a guardrail stopped" in note for one in await replayed(run, agent) for note in one.notes)
    await identical(run, agent, live_tools=True)


@BOTH_APIS
async def test_a_tool_output_with_half_of_a_character(api: str, agent: str, tmp_path: Path):
    run = await archived(agent, "Go.", calling("plain", "lone"), tmp_path / "runs", api)
    assert [r.failure and r.failure.type for r in rollouts(run)] == ["UnicodeEncodeError"] * 2
    await identical(run, agent)
    await identical(run, agent, live_tools=True)


@BOTH_APIS
async def test_instructions_that_a_tool_changes_diverge_and_live_tools_are_named(api: str, agent: str, tmp_path: Path):
    run = await archived(agent, "Go.", calling("promote"), tmp_path / "runs", api)
    for outcome in await replayed(run, agent):
        assert outcome.divergence
        assert (outcome.divergence.what, outcome.divergence.call) == ("prompt changed", 2)
        assert "--live-tools" in outcome.divergence.detail
    await identical(run, agent, live_tools=True)
    changed = tmp_path / "changed.py"
    changed.write_text(AGENT.replace("Serve the", "Serve a"))
    for outcome in await replayed(run, str(changed)):
        assert outcome.divergence
        assert (outcome.divergence.call, outcome.divergence.detail) == (1, ""), "no tool has run yet"


async def test_the_local_shell_s_output_is_a_steps_and_its_command_is_not_run_again(agent: str, tmp_path: Path):
    run = await archived(agent, "Go.", calling("plain", "shell"), tmp_path / "runs", "responses")
    for rollout in rollouts(run):
        steps = [(s.tool_name, s.tool_type, s.tool_output) for s in rollout.trajectory.path]
        assert steps == [("plain", "function", "w"), ("local_shell", None, "echo hi")]
    ran = tmp_path / "ran"
    assert ran.read_text() == "xx"
    await identical(run, agent)
    assert ran.read_text() == "xx"
    await identical(run, agent, live_tools=True)
    assert ran.read_text() == "xxxx"


@pytest.mark.parametrize("what", ["text", "parts", "fail"])
async def test_a_shell_s_commands_are_not_run_again(what: str, agent: str, tmp_path: Path):
    item = {"type": "shell_call", "id": "s", "call_id": "s2", "status": "completed", "action": {"commands": [what]}}
    done = lambda seen: any(item.get("type") == "shell_call_output" for item in seen.items)  # noqa: E731
    script: Script = lambda seen: Say("Done.") if done(seen) else Say(items=(item,))  # noqa: E731
    run = await archived(agent, "Go.", script, tmp_path / "runs", "responses")
    assert [r.status for r in rollouts(run)] == ["ok", "ok"]
    await identical(run, agent)
    assert (tmp_path / "ran").read_text() == "xx"


def patch(path: str, number: int = 1) -> dict[str, Any]:
    operation = {"type": "create_file", "path": path, "diff": "+hi"}
    return {
        "type": "apply_patch_call",
        "id": path,
        "call_id": f"p{number}",
        "status": "completed",
        "operation": operation,
    }


HANDS: dict[str, list[dict[str, Any]]] = {
    "patches": [patch("a.txt"), patch("bad/b.txt", 2)],
    "computer": [
        {
            "type": "computer_call",
            "id": "c",
            "call_id": "c1",
            "status": "completed",
            "pending_safety_checks": [],
            "action": {"type": "click", "x": 1, "y": 2, "button": "left"},
        }
    ],
    "raw": [{"type": "custom_tool_call", "id": "r", "call_id": "r1", "name": "raw", "input": "text"}],
}


@pytest.mark.parametrize("what", HANDS)
async def test_a_replay_edits_clicks_and_runs_nothing(
    what: str, agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OWN_TOOLS", "hands")
    done = lambda seen: any(str(i.get("type")).endswith("call_output") for i in seen.items)  # noqa: E731
    script: Script = lambda seen: Say("Done.") if done(seen) else Say(items=tuple(HANDS[what]))  # noqa: E731
    run = await archived(agent, "Go.", script, tmp_path / "runs", "responses")
    assert [(r.status, r.failure) for r in rollouts(run)] == [("ok", None)] * 2
    ran = (tmp_path / "ran").read_text()
    await identical(run, agent)
    assert (tmp_path / "ran").read_text() == ran
