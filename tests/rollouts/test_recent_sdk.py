"""What the SDK has learnt since 0.19, as an agent uses it: each part of it stands in the record, and replays."""

import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from harness.archive.reader import RunReader
from harness.core.records import Step
from tests.fake_endpoint import Say, Script, Seen
from tests.rollouts.test_replay import archived, identical

pytestmark = pytest.mark.anyio

HEAD = """
from agents import (Agent, GuardrailFunctionOutput, ProgrammaticToolCallingTool, RunConfig, Runner, function_tool,
                    output_guardrail)

"""
SERVER = Path(__file__).with_name("stdio_server.py")
PROGRAM = {"type": "program", "id": "p1", "call_id": "prog", "code": "await look_up({word: 'x'})", "fingerprint": "f"}
RESULT = {"type": "program_output", "id": "o1", "call_id": "prog", "result": "found it", "status": "completed"}


def programming(seen: Seen) -> Say:
    if seen.tool_outputs:
        return Say("Done.", items=(RESULT,))
    return Say(items=(PROGRAM,), calls=(("look_up", {"word": "x"}),))


def adding(seen: Seen) -> Say:
    if not seen.tool_outputs:
        return Say(calls=(("deploy", {}),))
    return Say("Deployed, carefully." if "Be careful." in str(seen.items) else "Deployed.")


def withholding(seen: Seen) -> Say:
    return Say("the secret")


def failing(seen: Seen) -> Say:
    return Say(f"It said {seen.tool_outputs[0]!r}.") if seen.tool_outputs else Say(calls=(("look_up", {"word": "x"}),))


def counting(seen: Seen) -> Say:
    return Say(f"It said {seen.tool_outputs[0]!r}.") if seen.tool_outputs else Say(calls=(("count", {}),))


Told = Sequence[tuple[str, str | None, str | None, str | None]]
CASES: dict[str, tuple[str, Script, str, str | None, Told]] = {
    "programmatic tool calling": (
        """
@function_tool(allowed_callers=["direct", "programmatic"])
def look_up(word: str) -> str:
    "Look a word up."
    return f"{word}!"

agent = Agent(name="a", tools=[look_up, ProgrammaticToolCallingTool()])
""",
        programming,
        "Done.",
        None,
        (
            ("tool", "look_up", '{"word": "x"}', "x!"),
            ("tool", "programmatic_tool_calling", PROGRAM["code"], None),
            ("tool", "programmatic_tool_calling", None, "found it"),
        ),
    ),
    "RunState.add_input": (
        """
@function_tool(needs_approval=True)
def deploy() -> str:
    "Deploy."
    return "deployed"

app = Agent(name="a", tools=[deploy])

async def answer(query: str) -> str:
    result = await Runner.run(app, query)
    state = result.to_state()
    state.approve(result.interruptions[0])
    state.add_input("Be careful.")
    return (await Runner.run(app, state)).final_output
""",
        adding,
        "Deployed, carefully.",
        None,
        (("tool", "deploy", "{}", "deployed"),),
    ),
    "withheld outputs": (
        """
@output_guardrail
async def check(context, agent, output):
    return GuardrailFunctionOutput("no", "secret" in str(output))

agent = Agent(name="a", output_guardrails=[check])
run_config = RunConfig(output_guardrail_blocked_message="Not for you.")
""",
        withholding,
        "",
        "guardrail",
        (
            ("message", None, None, None),
            ("guardrail", "check", None, "tripped"),
        ),
    ),
    "tool error format of a run": (
        """
@function_tool
def look_up(word: str) -> str:
    "Look a word up."
    raise LookupError("no such word")

agent = Agent(name="a", tools=[look_up])
run_config = RunConfig(tool_error_formatter=lambda args: f"sorry: {args.error}")
""",
        failing,
        "It said 'sorry: no such word'.",
        None,
        (("tool", "look_up", '{"word": "x"}', "sorry: no such word"),),
    ),
    "MCP v2": (
        f"""
from agents.mcp import MCPServerStdio

params = {{"command": {sys.executable!r}, "args": [{str(SERVER)!r}]}}
agent = Agent(name="a", mcp_servers=[MCPServerStdio(params, name="counting", use_structured_content=True)])
""",
        counting,
        """It said '{"result": "call 1"}'.""",
        None,
        (("tool", "count", "{}", '{"result": "call 1"}'),),
    ),
    "agents.testing": (
        """
from agents.testing import ScriptedModel, assistant_message, function_call

@function_tool
def look_up(word: str) -> str:
    "Look a word up."
    return f"{word}!"

def build(env):
    calls = [function_call("look_up", {"word": "x"}, call_id="c")]
    return Agent(name="a", tools=[look_up], model=ScriptedModel([calls, [assistant_message("Done.")]]))
""",
        failing,
        "Done.",
        None,
        (("tool", "look_up", '{"word":"x"}', "x!"),),
    ),
}
MARKED = [pytest.param(case, marks=pytest.mark.process) if case == "MCP v2" else case for case in CASES]


def told(step: Step) -> tuple[Any, ...]:
    return step.kind, step.tool_name, step.tool_input, step.tool_output


def test_the_installed_mcp_is_of_its_second_version():
    assert version("mcp").startswith("2.")


@pytest.mark.parametrize("case", MARKED)
async def test_it_is_captured_in_full_and_replays(case: str, tmp_path: Path):
    source, script, answer, failure, path = CASES[case]
    (tmp_path / "app.py").write_text(HEAD + source)
    agent = f"{tmp_path / 'app.py'}{':answer' if 'answer(' in source else ''}"
    own = {"model": None, "judge_model": "j"} if case == "agents.testing" else {}
    run = await archived(agent, "Go.", script, tmp_path / "runs", "responses", **own)
    with RunReader(run) as reader:
        for rollout in reader.group(next(iter(reader.queries()))).rollouts:
            assert (rollout.failure and rollout.failure.kind, rollout.capture_gaps) == (failure, ())
            assert [told(step) for step in rollout.trajectory.path] == [*path]
            assert rollout.trajectory.answer == answer
    await identical(run, agent)
