"""An app's own function in the place of an agent: `async def answer(query)`, which runs agents and returns the answer.

A function that builds an agent is told apart from it by what it takes and what it says that it returns.
"""

import inspect
from typing import Any, get_args, get_origin, get_type_hints

from agents import Agent

from harness.core.errors import UsageError
from harness.core.records import Query

_EITHER = "`async def {0}(query) -> str`, which runs agents and answers, or `async def {0}(env: AgentEnv) -> Agent`"


def is_app_function(source: Any) -> bool:
    """Return whether a function answers a query; else it builds an agent.

    Raises UsageError where it may be either, and where it answers, but is not async or not given the query alone.
    """
    if not inspect.isroutine(source):
        return False
    hints, name = _hints(source), source.__name__
    parameters = _parameters(source)
    needed = [p for p in parameters if p.default is p.empty and p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}]
    asked = [p for p in parameters if p.name == "query" or hints.get(p.name) in (str, Query)]
    first, returns = next(iter(needed or asked[:1]), None), hints.get("return", Any)
    takes_env = first is not None and (first.name == "env" or _names(hints.get(first.name)) == "AgentEnv")
    if name == "build" or takes_env or _may_be_agent(returns):
        return False
    fault = None
    if not inspect.iscoroutinefunction(source):
        fault = "is no `async def` that returns its answer" if first in asked or returns is str else None
    elif first is None:
        fault = "takes no query" if returns is str else None
    elif first not in asked and returns in (Any, object):
        raise UsageError(f"{name}({first.name}): cannot tell what it is; write {_EITHER.format(name)}")
    elif len(needed) > 1 or first is not parameters[0] or first.kind is first.KEYWORD_ONLY:
        fault = "needs more than the query, which is all that it is given, by place"
    else:
        return True
    if fault:
        write = "answer in `async def answer(query) -> str`, or build an agent in `def build(env)`"
        raise UsageError(f"function {name!r} {fault}; {write}")
    return False


def argument_for(function: Any, query: Query) -> Any:
    """Return what an app's function is called with: a Query or a text if it says so, else what the SDK would take."""
    takes = _hints(function).get(next(iter(inspect.signature(function).parameters)))
    return query if takes is Query else query.text if takes is str else query.agent_input()


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):  # of a function in C
        return []


def _hints(function: Any) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except Exception:  # noqa: BLE001 - annotations are the user's code, and may name what is not there
        return dict(getattr(function, "__annotations__", {}))


def _names(hint: Any) -> str:
    return hint.rpartition(".")[2] if isinstance(hint, str) else getattr(hint, "__name__", "")


def _may_be_agent(hint: Any) -> bool:
    """Return whether an annotation, or a part of it, is an Agent."""
    kind = get_origin(hint) or hint
    if isinstance(kind, str):
        return "Agent" in kind
    return (isinstance(kind, type) and issubclass(kind, Agent)) or any(map(_may_be_agent, get_args(hint)))
