"""Tool calls that need approval are decided on as --approve or the agent's file says, and each decision is a step."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, function_tool, handoff
from agents.mcp import MCPServer
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool

import harness
from harness.core.errors import UsageError
from harness.core.records import Rollout, Step
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Say, Seen
from tests.rollouts.test_capture import roll_out
from tests.rollouts.test_replay import archived, identical, replayed

pytestmark = pytest.mark.anyio
BOTH_APIS = pytest.mark.parametrize("api", ["chat", "responses"])


@function_tool(needs_approval=True)
def send(to: str, copies: int = 1) -> str:
    """Send a letter."""
    return f"sent {copies} to {to}"


@function_tool(needs_approval=True)
def burn() -> str:
    """Burn the letters."""
    return "burnt"


def sending(*calls: tuple[str, dict[str, Any]]) -> Callable[[Seen], Say]:
    return lambda seen: Say("Done.") if seen.tool_outputs else Say(reasoning="I act.", calls=calls)


def shown(step: Step) -> tuple[Any, ...]:
    return step.kind, step.tool_name, step.tool_output


def ended_whole(rollout: Rollout, requests: int) -> None:
    assert (rollout.status, rollout.failure, rollout.capture_gaps) == ("ok", None, ())
    assert rollout.usage.requests == len(rollout.calls) == requests


@BOTH_APIS
async def test_the_flag_decides_on_each_of_several_calls_at_once(api: str):
    agent = Agent(name="a", tools=[send, burn])
    script = sending(("send", {"to": "ann"}), ("burn", {}), ("send", {"to": "bob", "copies": 2}))
    for approve, outputs in {
        "all": ["sent 1 to ann", "burnt", "sent 2 to bob"],
        "none": ["Tool execution was not approved."] * 3,
    }.items():
        (rollout,), seen = await roll_out(agent, script, api, approve=[approve], max_turns=2)
        word = "approved" if approve == "all" else "refused"
        tools = [("tool", name, output) for name, output in zip(("send", "burn", "send"), outputs, strict=True)]
        decisions = [("approval", name, word) for _, name, _ in tools]
        assert [shown(s) for s in rollout.trajectory.path] == [
            step for pair in zip(decisions, tools, strict=True) for step in pair
        ]
        assert [s.call_id for s in rollout.trajectory.path[::2]] == [s.call_id for s in rollout.trajectory.path[1::2]]
        assert seen[-1].tool_outputs == outputs
        ended_whole(rollout, 2)


FILE = """
from agents import Agent, RunConfig, Runner, function_tool

RAN = []

@function_tool(needs_approval=True)
def send(to: str, copies: int = 1) -> str:
    "Send a letter."
    RAN.append(to)
    return f"sent {copies} to {to}"

async def careful(context, arguments, call_id):
    return arguments.get("to") != "ann"

@function_tool(needs_approval=careful)
def ask(to: str) -> str:
    "Ask somebody."
    return f"asked {to}"

@function_tool
async def nested(to: str) -> str:
    "Let a clerk send it."
    return (await Runner.run(clerk, to)).final_output

clerk = Agent(name="clerk", instructions="Clerk.", tools=[send])

async def heard(event):
    pass

def context(query):
    return ["ctx", query.id]

def build():
    as_tool = clerk.as_tool("as_tool", "Let a clerk send it.", needs_approval=True)
    streamed = clerk.as_tool("streamed", "Let a clerk send it.", on_stream=heard)
    configured = clerk.as_tool("configured", "Let a clerk send it.", run_config=RunConfig())
    return Agent(name="boss", instructions="Boss.", tools=[send, ask, nested, as_tool, streamed, configured])
"""
SYNC = """
def approve(item, context):
    assert item.agent.name in ("boss", "clerk") and item.call_id
    return item.name == "as_tool" or "ann" in item.arguments or ("not to him" if "bob" in item.arguments else False)
"""
ASYNC = SYNC.replace("def approve", "async def approve")


def written(folder: Path, more: str = "", change: tuple[str, str] = ("", "")) -> str:
    file = folder / "boss.py"
    file.write_text(FILE.replace(*change) + more if change[0] else FILE + more)
    return str(file)


@pytest.mark.parametrize("code", [SYNC, ASYNC])
@BOTH_APIS
async def test_the_agents_file_decides_and_gives_the_reason_of_a_refusal(code: str, api: str, tmp_path: Path):
    script = sending(*(("send", {"to": to}) for to in ("ann", "bob", "cid")))
    (rollout,), seen = await roll_out(written(tmp_path, code), script, api)
    outputs = ["sent 1 to ann", "not to him", "Tool execution was not approved."]
    assert [s.tool_output for s in rollout.trajectory.path if s.kind == "tool"] == outputs == seen[-1].tool_outputs
    words = ["approved", "refused: not to him", "refused"]
    assert [s.tool_output for s in rollout.trajectory.path if s.kind == "approval"] == words
    ended_whole(rollout, 2)


async def test_the_flag_wins_over_the_file_for_the_tools_that_it_names(tmp_path: Path):
    agent = written(tmp_path, "def approve(item, context):\n    return 'never'\n")
    script = sending(("send", {"to": "ann"}), ("ask", {"to": "bob"}), ("ask", {"to": "ann"}))
    (rollout,), _ = await roll_out(agent, script, approve=["send"])
    assert [shown(s) for s in rollout.trajectory.path] == [
        ("approval", "send", "approved"),
        ("tool", "send", "sent 1 to ann"),
        ("approval", "ask", "refused: never"),
        ("tool", "ask", "never"),
        ("tool", "ask", "asked ann"),  # `careful` wants no approval of this one
    ]


async def test_approve_gets_the_context_of_the_rollout(tmp_path: Path):
    agent = written(tmp_path, "def approve(item, context):\n    return '/'.join(context[:1])\n")
    (rollout,), _ = await roll_out(agent, sending(("send", {"to": "ann"})))
    assert rollout.trajectory.path[0].tool_output == "refused: ctx"


def through(form: str) -> Callable[[Seen], Say]:
    """Let the clerk send a letter, by way of a tool of the boss."""

    def script(seen: Seen) -> Say:
        if seen.system == "Clerk.":
            return Say("Sent.") if seen.tool_outputs else Say(calls=(("send", {"to": "ann"}), ("send", {"to": "bob"})))
        argument = "to" if form == "nested" else "input"
        return Say("Done.") if seen.tool_outputs else Say(calls=((form, {argument: "go"}),))

    return script


INNER = [
    ("approval", "send", "approved"),
    ("tool", "send", "sent 1 to ann"),
    ("approval", "send", "refused: not to him"),
    ("tool", "send", "not to him"),
]


@pytest.mark.few(3)
@BOTH_APIS
@pytest.mark.parametrize("form", ["nested", "as_tool", "streamed", "configured"])
async def test_the_calls_of_nested_agents_are_decided_on_and_replayed(form: str, api: str, tmp_path: Path):
    agent = written(tmp_path, SYNC)
    (rollout,), _ = await roll_out(agent, through(form), api)
    *before, tool = rollout.trajectory.path
    assert [shown(s) for s in before] == ([("approval", "as_tool", "approved")] if form == "as_tool" else [])
    assert [shown(s) for s in tool.inner] == INNER
    ended_whole(rollout, 4)
    run = await archived(agent, "Do it.", through(form), tmp_path / "runs", api)
    silent = written(tmp_path)
    await identical(run, silent)
    await identical(run, silent, live_tools=True)


async def test_a_replay_runs_no_tool_that_was_refused_or_not_decided_on(tmp_path: Path):
    script = sending(("send", {"to": "ann"}), ("send", {"to": "bob"}))
    run = await archived(written(tmp_path, SYNC), "Do it.", script, tmp_path / "runs")
    silent = written(tmp_path, change=("RAN.append(to)", "assert to == 'ann'"))
    await identical(run, silent, live_tools=True)

    def asking(seen: Seen) -> Say:
        return Say("Done.") if seen.tool_outputs else Say(calls=(("ask", {"to": "ann"}),))

    run = await archived(written(tmp_path, SYNC), "Do it.", asking, tmp_path / "runs")
    silent = written(tmp_path, change=("needs_approval=careful", "needs_approval=True"))
    for one in await replayed(run, silent, live_tools=True):
        assert one.divergence
        assert "approval" in one.divergence.detail


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        ("    raise LookupError('no list')\n", ("internal", "LookupError", "no list")),
        ("    return None\n", ("internal", "TypeError", "must give True, False, or a str")),
    ],
)
@pytest.mark.parametrize("form", ["send", "as_tool"])
async def test_an_approve_that_fails_ends_the_rollout_and_is_not_the_agents_fault(
    form: str, code: str, failure: tuple[str, str, str], tmp_path: Path
):
    agent = written(tmp_path, "def approve(item, context):\n" + code)
    script = sending(("send", {"to": "ann"})) if form == "send" else through(form)
    (rollout,), _ = await roll_out(agent, script)
    kind, type_, words = failure
    assert rollout.failure
    assert (rollout.failure.kind, rollout.failure.type) == (kind, type_)
    assert words in rollout.failure.message


async def test_a_call_that_nobody_decides_on_fails_the_rollout_with_the_ways_named(tmp_path: Path):
    agent = written(tmp_path)
    (rollout,), _ = await roll_out(agent, sending(("ask", {"to": "bob"})), approve=["send", "as_tool"])
    assert rollout.failure
    assert rollout.failure.kind == "approval"
    assert all(word in rollout.failure.message for word in ("ask", "approve=", "approve(item, context)"))


def of_form(form: str) -> Agent[Any]:
    holder = Agent(name="holder", tools=[send])
    middle = Agent(name="middle", handoffs=[holder])
    match form:
        case "own":
            return holder
        case "handoff target":
            return Agent(name="a", handoffs=[middle])
        case "handoff object":
            return Agent(name="a", handoffs=[handoff(middle)])
        case _:
            return Agent(name="a", tools=[middle.as_tool("ask", "Ask.")])


@pytest.mark.parametrize("form", ["own", "handoff target", "handoff object", "tool"])
async def test_where_nobody_decides_it_is_said_before_anything_is_spent(form: str):
    with FakeEndpoint(agent=lambda _: Say("Fine.")).serving() as endpoint:
        more: dict[str, Any] = {"n": 1, "model": "m", "base_url": endpoint.base_url}
        with pytest.raises(UsageError, match=r"'holder' has the tool 'send'.*approve=\['NAME'\].*approve\(item"):
            await harness.rollout(of_form(form), "Do it.", approve=["burn"], **more)
        with pytest.raises(UsageError, match="alone"):
            await harness.rollout(of_form(form), "Do it.", approve=["send", "all"], **more)
        assert not endpoint.requests
        group = await harness.rollout(of_form(form), "Do it.", approve=["send"], **more)
        assert group.rollouts[0].status == "ok"


def test_the_command_says_it_and_exits_2_and_the_flag_is_kept_in_the_run(tmp_path: Path, harness: Harness):
    agent, word = written(tmp_path), sending(("send", {"to": "ann"}))
    with FakeEndpoint(agent=word).serving() as endpoint:
        args = ("run", "Do it.", "--agent", agent, "--model", "m", "--base-url", endpoint.base_url, "-n", "1")
        refused = harness(*args)
        assert (refused.code, endpoint.requests) == (2, [])
        assert "'send'" in refused.err
        assert not (tmp_path / "runs").exists()
        done = harness(*args, "--approve", "send", "--approve", "as_tool", "--topology", "none")
        assert re.findall("--approve .*: no call", done.err) == ["--approve as_tool: no call"]
        path = harness("show", "--rollout", "0")
    (run,) = (tmp_path / "runs").glob("*/run.json")
    assert json.loads(run.read_text("utf-8"))["settings"]["approve"] == ["send", "as_tool"]
    assert "1. approval send" in path.out


def test_resume_takes_the_flag_in_place_of_the_runs_own_and_keeps_it(tmp_path: Path, harness: Harness):
    agent, word = written(tmp_path), sending(("ask", {"to": "bob"}))
    with FakeEndpoint(agent=word).serving() as endpoint:
        run = f"run Do-it. --model m -n 2 --base-url {endpoint.base_url} --approve send --approve as_tool --agent"
        waiting = harness(*run.split(), agent)
        assert waiting.code == 3, waiting.err
        asked, rankings = len(endpoint.requests), set((tmp_path / "runs").glob("*/rankings/*.jsonl"))
        resumed = harness("resume", "last", "--retry-failed", "--approve", "all", "--json")
        assert resumed.code == 0, resumed.err
        assert len([seen for seen in endpoint.requests[asked:] if not seen.is_judge]) == 4
    (group,) = resumed.json["groups"]
    assert [r["status"] for r in group["rollouts"]] == ["ok", "ok"]
    assert "1. approval ask" in harness("show", "last", "--rollout", "1").out
    (newest,) = set((tmp_path / "runs").glob("*/rankings/*.jsonl")) - rankings
    assert json.loads(newest.read_text("utf-8").splitlines()[0])["settings"]["approve"] == ["all"]


class Post(MCPServer):
    """An MCP server in this process, some of whose tools need approval. Each rollout gets a copy of its own."""

    def __init__(self, require_approval: Any, note_call: Callable[[str], None]) -> None:
        super().__init__(require_approval=require_approval)
        self.note_call = note_call

    @property
    def name(self) -> str:
        return "post"

    async def connect(self) -> None:
        pass

    async def cleanup(self) -> None:
        pass

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[MCPTool]:
        schema = {"type": "object", "properties": {}}
        return [MCPTool(name=name, description="Do it.", input_schema=schema) for name in ("post", "look")]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> CallToolResult:
        self.note_call(tool_name)
        return CallToolResult(content=[TextContent(type="text", text=f"{tool_name} done")])

    async def list_prompts(self) -> Any:
        raise NotImplementedError

    async def get_prompt(self, name: str, arguments: Any = None) -> Any:
        raise NotImplementedError


POLICIES = ["always", {"post": "always", "look": "never"}, {"always": {"tool_names": ["post"]}}]


@pytest.mark.few(6)
@BOTH_APIS
@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize(
    ("flags", "word", "output"),
    [(["post", "look"], "approved", "post done"), (["none"], "refused", "Tool execution was not approved.")],
)
async def test_the_flag_decides_on_calls_of_mcp_tools_too(
    policy: Any, api: str, flags: list[str], word: str, output: str
):
    called = set[str]()
    agent = Agent(name="a", mcp_servers=[Post(policy, lambda name: called.add(name))])  # noqa: PLW0108 - not copied
    (rollout,), _ = await roll_out(agent, sending(("post", {}), ("look", {})), api, approve=flags)
    decision, tool = (s for s in rollout.trajectory.path if s.tool_name == "post")
    assert shown(decision) == ("approval", "post", word)
    assert output in (tool.tool_output or "")
    assert ("post" in called) == (word == "approved")
    assert ("look" in called) == (word == "approved" or policy != "always")
    ended_whole(rollout, 2)


async def test_a_call_of_an_mcp_tool_that_nobody_decides_on_fails_the_rollout_with_what_to_do():
    called = list[str]()
    agent = Agent(name="a", mcp_servers=[Post("always", lambda name: called.append(name))])  # noqa: PLW0108 - as above
    (rollout,), _ = await roll_out(agent, sending(("post", {})))
    assert rollout.failure
    assert rollout.failure.kind == "approval"
    assert all(word in rollout.failure.message for word in ("post", "approve="))
    assert called == []
