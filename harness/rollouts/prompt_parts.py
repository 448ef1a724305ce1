"""The texts of an agent that may be replaced: instructions of those in sight, descriptions of their tools.

`--instructions` reads them all from one file. What stands before the first line `=== part: NAME ===` is the starting
agent's instructions; each such line begins the text of the part that it names: `AGENT.instructions`,
`TOOL.description`.
"""

import copy
import re
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from agents import Agent, FunctionTool, Tool

from harness.core.errors import UsageError, did_you_mean, quoted
from harness.rollouts.graph import Copies, copied, in_sight

_BEGINS = re.compile(r"^=== part: (.+) ===\n", re.MULTILINE)
_OWN = "instructions"


def split_parts(text: str) -> dict[str, str]:
    """Return the parts of a file by name; a text without a line that begins a part is the instructions alone."""
    own, *rest = _BEGINS.split(text)
    parts = {name: body.removesuffix("\n") for name, body in zip(rest[::2], rest[1::2], strict=True)}
    return ({_OWN: own.removesuffix("\n") if rest else own} if own.strip() or not rest else {}) | parts


def joined_parts(parts: Mapping[str, str]) -> str:
    """Return parts as one file, which `split_parts` reads."""
    own = parts.get(_OWN, "")
    rest = [f"=== part: {name} ===\n{text}\n" for name, text in parts.items() if name != _OWN]
    return "".join([f"{own}\n" if rest and own else own, *rest])


def parts_of(agent: Agent[Any]) -> dict[str, str]:
    """Return the texts that may be replaced, of an agent and all in its sight; none that a function makes."""
    parts = dict[str, str]()
    for at, each in enumerate(in_sight(agent)):
        if isinstance(each.instructions, str):
            parts[f"{each.name}.{_OWN}" if at else _OWN] = each.instructions
        parts |= {f"{t.name}.description": t.description for t in each.tools if isinstance(t, FunctionTool)}
    return parts


def with_parts(agent: Agent[Any], text: str) -> Agent[Any]:
    """Return a copy of an agent with the texts of a file in place of its own. Raises UsageError for a part it lacks."""
    parts = split_parts(text)
    if [*parts] == [_OWN]:
        agent = copy.copy(agent)  # whoever made it may give the same object again
        agent.instructions = text
        return agent
    known = [*dict.fromkeys([*parts_of(agent), _OWN])]
    if strange := next((name for name in parts if name not in known), None):
        hint = did_you_mean(strange, known) or f"; there are: {', '.join(known)}"
        raise UsageError(f"{quoted(strange)} is no part of agent {agent.name!r}{hint}")
    twins: Copies = {}

    def change(each: Agent[Any]) -> dict[str, Any]:
        name = _OWN if each is agent else f"{each.name}.{_OWN}"
        changed: dict[str, Any] = {"instructions": parts[name]} if name in parts else {}
        return changed | {"tools": [change_tool(tool) for tool in each.tools]}

    def change_tool(tool: Tool) -> Tool:
        if not isinstance(tool, FunctionTool):
            return tool
        twin = copy.copy(tool)
        twin.description = parts.get(f"{tool.name}.description", tool.description)
        own: Agent[Any] | None = getattr(tool, "_agent_instance", None)
        if own:
            twin.on_invoke_tool = _RunsTwin(tool.on_invoke_tool, own, copied(own, change, twins))
        return twin

    return copied(agent, change, twins)


_running: ContextVar["_RunsTwin | None"] = ContextVar("harness_agent_tool", default=None)


@dataclass(frozen=True)
class _RunsTwin:
    """What an agent's tool does that is itself an agent: it runs that agent's copy."""

    invoke: Callable[[Any, str], Awaitable[Any]]
    agent: Any
    twin: Any

    async def __call__(self, context: Any, arguments: str) -> Any:
        token = _running.set(self)
        try:
            return await self.invoke(context, arguments)
        finally:
            _running.reset(token)


def in_place_of(agent: Any) -> Any:
    """Return the agent that a run is to be made of: the copy with other texts, where the run is a tool's own."""
    tool = _running.get()
    return tool.twin if tool and agent is tool.agent else agent
