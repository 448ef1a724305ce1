"""What an app gives the runs of its agent beside the agent: a context, a RunConfig, hooks, a session.

Each is a value, or a function of the query that is called once a rollout.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from types import ModuleType
from typing import Any, cast

from agents import RunConfig
from agents.lifecycle import AgentHooksBase, RunHooksBase

from harness.core.errors import UsageError, on_a_line

RUN_PARTS = ("run_config", "hooks", "session")
"""The parts that have types of the SDK's; the context is whatever the agent's tools read."""
_FIELDS = frozenset(field.name for field in fields(RunConfig))
_KEEPERS = {"snapshot": ["context", "call"], "restore": ["context", "state"]}
_OF_A_SESSION = ("get_items", "add_items", "pop_item", "clear_session")


@dataclass(frozen=True)
class AppAgent:
    """An agent with what its app gives each of its runs: values, or functions of the query, called once a rollout."""

    agent: Any
    """Whatever stands for an agent."""
    _: KW_ONLY
    context: Any = None
    run_config: Any = None
    hooks: Any = None
    session: Any = None

    @property
    def parts(self) -> dict[str, Any]:
        """What is given, by name."""
        named = {"context": self.context, "run_config": self.run_config, "hooks": self.hooks, "session": self.session}
        return {name: part for name, part in named.items() if part is not None}


@dataclass(frozen=True)
class GivenPart:
    """A value that stands in the place of a function of the query."""

    value: Any

    def __call__(self, _: Any) -> Any:
        """Return the value."""
        return self.value


def part_maker(part: Any) -> Callable[[Any], Any] | None:
    """Return what gives a part for a query, None for no part. A function, or a class, may take a query or nothing."""
    if part is None or not callable(part):
        return None if part is None else GivenPart(part)
    return part if _takes_query(part) else lambda _: part()


def part_fault(name: str, part: Any) -> str | None:
    """Return what a part should be instead of what was given; None where it can be used."""
    match name:
        case "run_config" if isinstance(part, Mapping):
            strange = [name for name in cast("Mapping[object, Any]", part) if name not in _FIELDS]
            return f"an openai-agents RunConfig, which has no {on_a_line(str(strange[0]))!r}" if strange else None
        case "run_config":
            return None if isinstance(part, RunConfig | None) else "an openai-agents RunConfig"
        case "hooks" if isinstance(part, AgentHooksBase):
            return "openai-agents RunHooks (AgentHooks belong on the agent: Agent(hooks=...))"
        case "hooks":
            return None if isinstance(part, RunHooksBase | None) else "openai-agents RunHooks"
        case "session":
            usable = part is None or all(callable(getattr(part, method, None)) for method in _OF_A_SESSION)
            return None if usable else "an openai-agents Session"
        case _:
            return None


def state_keepers(module: ModuleType) -> dict[str, Any]:
    """Return `snapshot(context, call)` and `restore(context, state)` of an agent's file.

    Raises UsageError. One alone is something of the agent's, unless its parameters have these names.
    """
    keepers = {name: getattr(module, name, None) for name in _KEEPERS}
    if None in keepers.values():
        for (name, function), other in zip(keepers.items(), reversed(_KEEPERS), strict=True):
            if inspect.isfunction(function) and [*inspect.signature(function).parameters] == _KEEPERS[name]:
                raise UsageError(
                    f"{module.__file__}: {name!r} keeps or puts back the state outside for `harness fork`, which takes "
                    f"{other}({', '.join(_KEEPERS[other])}), too: write it beside {name!r}, or rename {name!r}"
                )
        return {}
    for (name, function), (_, second) in zip(keepers.items(), _KEEPERS.values(), strict=True):
        try:
            inspect.signature(cast("Any", function)).bind("context", second)
        except (TypeError, ValueError):
            raise UsageError(
                f"{module.__file__}: {name!r} must be a function of (context, {second}), for `harness fork`; if it is "
                "something else, rename it"
            ) from None
    return keepers


def _takes_query(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    return any(p.default is p.empty or p.name == "query" for p in positional)
