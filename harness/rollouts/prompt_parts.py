"""The texts of an agent that may be replaced: instructions of those in sight, descriptions of their tools.

`--instructions` reads them all from one file. What stands before the first line `=== part: NAME ===` is the starting
agent's instructions; each such line begins the text of the part that it names: `AGENT.instructions`,
`TOOL.description`.
"""

import copy
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agents import Agent, FunctionTool, Tool

from harness.core.errors import UsageError, did_you_mean, quoted
from harness.rollouts.graph import copied, reachable

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
    """Return the texts that may be replaced, of an agent and all that it hands off to; none made by a function."""
    parts = dict[str, str]()
    for at, each in enumerate(reachable(agent)):
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
    known = [*parts_of(agent), _OWN]
    if strange := next((name for name in parts if name not in known), None):
        hint = did_you_mean(strange, known)
        raise UsageError(f"{quoted(strange)} is no part of agent {agent.name!r}{hint}; there are: {', '.join(known)}")

    def change(each: Agent[Any]) -> dict[str, Any]:
        name = _OWN if each is agent else f"{each.name}.{_OWN}"
        changed: dict[str, Any] = {"instructions": parts[name]} if name in parts else {}
        return changed | {"tools": [_described(tool, parts) for tool in each.tools]}

    return copied(agent, change)


def _described(tool: Tool, parts: Mapping[str, str]) -> Tool:
    text = parts.get(f"{tool.name}.description") if isinstance(tool, FunctionTool) else None
    return replace(tool, description=text) if text is not None and isinstance(tool, FunctionTool) else tool
