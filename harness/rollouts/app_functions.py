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
    """Return whether a function answers a query; one that is not async, or takes nothing, builds an agent.

    Raises UsageError where it may be either, and where it takes more than a query.
    """
    if not inspect.isroutine(source) or not inspect.iscoroutinefunction(source):
        return False
    parameters = [*inspect.signature(source).parameters.values()]
    needed = [p for p in parameters if p.default is p.empty and p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}]
    if not needed:
        return False
    hints, name = _hints(source), source.__name__
    takes, returns = hints.get(needed[0].name), hints.get("return", Any)
    builds = needed[0].name == "env" or name == "build" or _names(takes) == "AgentEnv" or _may_be_agent(returns)
    answers = needed[0].name == "query" or takes in {str, Query} or returns not in {Any, object}
    if builds:
        return False
    if not answers:
        raise UsageError(f"{name}({needed[0].name}): cannot tell what it is; write {_EITHER.format(name)}")
    if len(needed) > 1 or needed[0].kind is needed[0].KEYWORD_ONLY:
        raise UsageError(f"{name}: an app's function is given the query alone, and this one needs more: {name}(query)")
    return True


def argument_for(function: Any, query: Query) -> Any:
    """Return what an app's function is called with: a Query or a text if it says so, else what the SDK would take."""
    takes = _hints(function).get(next(iter(inspect.signature(function).parameters)))
    return query if takes is Query else query.text if takes is str else query.agent_input()


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
