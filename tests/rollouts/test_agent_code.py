"""Whatever an agent's own code raises, and wherever, ends that rollout alone, and is told as the agent's."""

import asyncio
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from agents import (
    Agent,
    AgentHooks,
    FunctionTool,
    GuardrailFunctionOutput,
    InputGuardrail,
    OutputGuardrail,
    Runner,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    function_tool,
    handoff,
)

import harness
from harness.core.records import AGENT_FAILURES, Rollout
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Reaction, Say, Seen

pytestmark = pytest.mark.anyio


class OwnError(BaseException):
    """An own kind of end."""


RAISED = {
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": lambda: GeneratorExit("end"),
    "OwnError": lambda: OwnError("over"),
    "CancelledError": asyncio.CancelledError,
    "LookupError": lambda: LookupError("gone"),
}
Boom = Callable[..., Any]


def tool(boom: Boom, *, sync: bool = False, **options: Any) -> FunctionTool:
    async def act() -> str:
        """Act."""
        return boom()

    def act_in_a_thread() -> str:
        """Act."""
        return boom()

    made: Any = function_tool(name_override="act", failure_error_function=None, **options)
    return made(act_in_a_thread if sync else act)


def bare_tool(boom: Boom) -> FunctionTool:
    async def act(*_: Any) -> str:
        return boom()

    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    return FunctionTool("act", "Act.", schema, act, timeout_seconds=5)


@function_tool(name_override="act")
def harmless() -> str:
    """Act."""
    return "acted"


def raising_hooks(name: str, boom: Boom) -> Any:
    async def hook(*_: Any) -> None:
        boom()

    hook.__code__ = hook.__code__.replace(co_name=name)
    hooks: Any = AgentHooks()
    setattr(hooks, name, hook)
    return hooks


def with_tool(boom: Boom, **options: Any) -> Agent[Any]:
    return Agent(name="a", tools=[tool(boom, **options)])


def nested(boom: Boom) -> Agent[Any]:
    return Agent(name="a", tools=[with_tool(boom).as_tool("act", "Act.")])


def streamed(boom: Boom) -> Agent[Any]:
    async def act() -> str:
        """Act."""
        result = Runner.run_streamed(with_tool(boom), "Go.")
        async for _ in result.stream_events():
            pass
        return "streamed"

    return Agent(name="a", tools=[function_tool(act)])


def beside_another(boom: Boom) -> Agent[Any]:
    async def other() -> str:
        """Wait."""
        await asyncio.sleep(0.01)
        return "waited"

    return Agent(name="a", tools=[tool(boom), function_tool(other)])


def in_a_task(boom: Boom) -> Agent[Any]:
    async def child() -> None:
        boom()

    async def act() -> str:
        """Act."""
        await asyncio.gather(child(), asyncio.sleep(0))
        return "acted"

    return Agent(name="a", tools=[function_tool(failure_error_function=None)(act)])


def guarding_tool(guard: str, boom: Boom) -> Agent[Any]:
    kind: Any = ToolInputGuardrail if guard == "tool_input_guardrails" else ToolOutputGuardrail

    def check(_: Any) -> ToolGuardrailFunctionOutput:
        boom()
        return ToolGuardrailFunctionOutput.allow()

    options: dict[str, Any] = {guard: [kind(check)]}
    return Agent(name="a", tools=[function_tool(name_override="act", **options)(lambda: "acted")])


def guarded(side: str, boom: Boom) -> Agent[Any]:
    async def check(*_: Any) -> GuardrailFunctionOutput:
        boom()
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    kind: Any = InputGuardrail if side == "input_guardrails" else OutputGuardrail
    guards: dict[str, Any] = {side: [kind(check)]}
    return Agent(name="a", **guards)


def handing_over(boom: Boom, option: str) -> Agent[Any]:
    options: dict[str, Any] = {option: lambda *_: boom()}
    return Agent(name="a", handoffs=[handoff(Agent[Any](name="b"), **options)])


def enabled(boom: Boom) -> Agent[Any]:
    return Agent(name="a", tools=[function_tool(name_override="act", is_enabled=lambda *_: boom())(lambda: "x")])


def told_to(boom: Boom, *, sync: bool = True) -> Agent[Any]:
    async def instructions(_: Any, agent: Any) -> str:
        return boom(agent)

    return Agent(name="told", instructions=(lambda _, agent: boom(agent)) if sync else instructions)


TOOLS: dict[str, Callable[[Boom], Any]] = {
    "async tool": with_tool,
    "sync tool": lambda boom: with_tool(boom, sync=True),
    "tool with a time limit": lambda boom: with_tool(boom, timeout=5),
    "tool beside another": beside_another,
    "tool of an agent as a tool": nested,
    "tool of a streamed run in a tool": streamed,
    "task of a tool": in_a_task,
    "tool that is no function": lambda boom: Agent(name="a", tools=[bare_tool(boom)]),
}
ELSEWHERE: dict[str, Callable[[Boom], Any]] = {
    "instructions": told_to,
    "async instructions": lambda boom: told_to(boom, sync=False),
    "instructions of an agent as a tool": lambda boom: Agent(
        name="a", tools=[told_to(boom).as_tool("act", "Act.", failure_error_function=None)]
    ),
    "is_enabled of a tool": enabled,
    "is_enabled of a handoff": lambda boom: handing_over(boom, "is_enabled"),
    "on_handoff": lambda boom: handing_over(boom, "on_handoff"),
    "input_filter": lambda boom: handing_over(boom, "input_filter"),
    "input guardrail": lambda boom: guarded("input_guardrails", boom),
    "output guardrail": lambda boom: guarded("output_guardrails", boom),
    "tool's input guardrail": lambda boom: guarding_tool("tool_input_guardrails", boom),
    "tool's output guardrail": lambda boom: guarding_tool("tool_output_guardrails", boom),
    "tool_use_behavior": lambda boom: Agent(name="a", tools=[harmless], tool_use_behavior=lambda *_: boom()),
    **{
        name: lambda boom, name=name: Agent(name="a", tools=[harmless], hooks=raising_hooks(name, boom))
        for name in ("on_start", "on_llm_start", "on_llm_end", "on_tool_start", "on_tool_end", "on_end")
    },
}
HOOKS = {"context": "agent_code", "before_rollout": "agent_code", "build": "agent_code", "approve": "internal"}


def script(seen: Seen) -> Reaction:
    names = [t["function"]["name"] for t in seen.body.get("tools", ())]
    return Say("Done.") if seen.tool_outputs or not names else Say(calls=tuple((name, {}) for name in names))


def calling_script(seen: Seen) -> Reaction:
    arguments = {"input": "go"} if "input" in str(seen.body.get("tools", "")) else {}
    said = script(seen)
    return (
        Say(calls=tuple((name, arguments) for name, _ in said.calls)) if isinstance(said, Say) and said.calls else said
    )


async def roll_out(agent: Any, **hooks: Any) -> list[Rollout]:
    module = ModuleType("agents_file")
    vars(module).update({"agent": agent} if isinstance(agent, Agent) else {"build": agent}, **hooks)
    with FakeEndpoint(agent=calling_script).serving() as endpoint:
        group = await harness.rollout(module, "Do it.", n=2, model="m", base_url=endpoint.base_url, timeout=5.0)
    return list(group.rollouts)


def raising(kind: str) -> Boom:
    def boom(*_: Any) -> Any:
        error = RAISED[kind]()
        raise error

    return boom


def told(rollout: Rollout) -> tuple[Any, ...]:
    failure = rollout.failure
    return (failure.kind, failure.type, "boom (" in failure.message and __file__ in failure.message) if failure else ()


@pytest.mark.few(12)
@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("place", TOOLS)
async def test_what_a_tool_raises_is_the_failure_of_its_rollout(place: str, kind: str):
    rollouts = await roll_out(TOOLS[place](raising(kind)))
    failures = [told(r) for r in rollouts]
    if kind in {"SystemExit", "KeyboardInterrupt", "GeneratorExit", "OwnError"}:
        assert failures == [("tool", kind, True)] * 2
    else:  # the SDK decides what becomes of it
        assert {f[0] for f in failures if f} <= {"tool"}


@pytest.mark.few(24)
@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("place", ELSEWHERE)
async def test_what_other_code_of_the_agent_raises_is_a_failure_of_its_own_kind_with_file_and_line(
    place: str, kind: str
):
    rollouts = await roll_out(ELSEWHERE[place](raising(kind)))
    if kind == "CancelledError":  # inside a tool call the SDK takes it for the tool's, wherever it came from
        assert {r.failure.kind for r in rollouts if r.failure} <= AGENT_FAILURES
    else:
        assert [told(r) for r in rollouts] == [("agent_code", kind, True)] * 2


@pytest.mark.few(8)
@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("hook", HOOKS)
async def test_so_is_what_the_agents_file_raises_around_a_rollout(hook: str, kind: str):
    boom = raising(kind)
    agent = Agent(name="a", tools=[function_tool(name_override="act", needs_approval=True)(lambda: "acted")])
    built = iter([agent])  # for the check before the run
    build = lambda: next(built, None) or boom()  # noqa: E731
    rollouts = await (
        roll_out(build, approve=len) if hook == "build" else roll_out(agent, **{"approve": len, hook: boom})
    )
    assert [r.failure.kind for r in rollouts if r.failure] == [HOOKS[hook]] * 2
    assert all(
        r.failure and (hook == "approve" or __file__ in r.failure.message) and kind in str(r.failure) for r in rollouts
    )


@pytest.mark.few(4)
@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("hook", ["after_rollout", "reward"])
async def test_what_is_raised_after_a_rollout_is_told_beside_its_result(hook: str, kind: str):
    rollouts = await roll_out(Agent(name="a"), **{hook: raising(kind)})
    assert [r.status for r in rollouts] == ["ok"] * 2
    assert all(f"{hook} raised {kind}: " in str(r.clean_up_error or r.verify_error) for r in rollouts)


@pytest.mark.parametrize("place", ["instructions", "context", "guardrail"])
async def test_a_function_that_takes_other_arguments_is_the_agents_fault_too(place: str):
    wrong: Any = lambda: "x"  # noqa: E731
    if place == "context":
        rollouts = await roll_out(Agent(name="a"), context=wrong)
    else:
        options: dict[str, Any] = {"input_guardrails": [InputGuardrail(wrong)], "instructions": wrong}
        name = "instructions" if place == "instructions" else "input_guardrails"
        rollouts = await roll_out(Agent(name="a", **{name: options[name]}))
    assert [(r.failure.kind, r.failure.type) for r in rollouts if r.failure] == [("agent_code", "TypeError")] * 2


async def test_the_rollouts_beside_it_go_on():
    numbers = itertools.count(1)

    def act() -> str:
        """Act."""
        return sys.exit(0) if next(numbers) == 3 else "acted"

    with FakeEndpoint(agent=calling_script).serving() as endpoint:
        agent = Agent(name="a", tools=[function_tool(act)])
        group = await harness.rollout(agent, "Do it.", n=5, model="m", base_url=endpoint.base_url)
    assert sorted(told(r)[:2] for r in group.rollouts) == [()] * 4 + [("tool", "SystemExit")]


async def test_a_tool_in_a_thread_may_raise_stop_iteration():
    def act() -> str:
        """Act."""
        return next(iter(()))

    (first, _) = await roll_out(Agent(name="a", tools=[function_tool(act)]))
    assert first.status == "ok"
    assert "StopIteration" in str(first.trajectory.path[0])


async def test_a_tasks_factory_of_the_users_own_is_kept_and_asked():
    made = list[Any]()

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        made.append(coro)
        return asyncio.Task(coro, loop=loop, **options)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(factory)
    try:
        await roll_out(with_tool(lambda: "fine"))
        assert loop.get_task_factory() is factory
    finally:
        loop.set_task_factory(None)
    assert any("contained" in str(coro) for coro in made)


def test_an_exit_in_a_tool_is_no_exit_code_of_the_command(harness: Harness, endpoint: FakeEndpoint, tmp_path: Path):
    source = "from agents import Agent, function_tool\nimport sys\n\n@function_tool\ndef act():\n    sys.exit(0)\n"
    (tmp_path / "exits.py").write_text(f"{source}\nagent = Agent(name='a', tools=[act])\n")
    endpoint.agent = calling_script
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    done = harness("run", "--agent", "exits.py", "Do it.", "--model", "m", "-n", "2", "--json", env=env)
    assert done.code == 3, done.err
    assert "SystemExit" in done.out
