"""What a rollout runs in: its agent, its context, and whatever the agent's file sets up and cleans up.

The SDK has no way to give one run a runner, MCP servers or trace processors of its own, so what all runs use has to be
changed. Each changed function looks at a context variable, which only the tasks concerned have set, and otherwise does
what the original does: all other runs of the process are as they would be without.
"""

import inspect
import math
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import anyio
from agents import Agent, RunConfig
from agents.mcp import MCPServer

from harness.core.errors import UsageError
from harness.core.records import Query, Rollout
from harness.rollouts.agent_code import ends_rollout, in_words
from harness.rollouts.app_parts import RUN_PARTS, GivenPart, part_fault
from harness.rollouts.graph import Change, connect, copied, servers_to_connect
from harness.rollouts.loading import AgentEnv, LoadedAgent
from harness.rollouts.run_options import as_config

_Value = TypeVar("_Value")


class set_within(Generic[_Value]):  # noqa: N801 - used as a function: `contextmanager` takes thrice as long
    """Let a context variable have a value in this task, and in the tasks and threads that the task starts."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[_Value], value: _Value) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


class ProcessGuard:
    """Counts the users of one change."""

    def __init__(self, install: Callable[[], Callable[[], None]], renew: Callable[[], None] | None = None) -> None:
        """`install` makes the change and returns what undoes it. `renew` makes the change again where it was lost."""
        self._install, self._renew = install, renew
        self._undo: Callable[[], None] | None = None
        self._users = 0
        self._lock = threading.Lock()

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Keep the change for as long as this lasts."""
        with self._lock:
            if self._undo is None:
                self._undo = self._install()
            elif self._renew:
                self._renew()
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._undo()
                    self._undo = None


WrappedMethod = tuple[type[Any], str, Callable[[Callable[..., Any]], Callable[..., Any]]]
"""A class, the name of a method of it, and what makes of that method the one in its place."""


def guard_methods(methods: Callable[[], list[WrappedMethod]]) -> ProcessGuard:
    """Return the guard of a change that puts other methods in the place of a class's own, or of those it inherits."""

    def install() -> Callable[[], None]:
        before = list[tuple[type[Any], str, Any]]()
        for kind, name, wrapper in methods():
            before.append((kind, name, vars(kind).get(name)))
            setattr(kind, name, wrapper(getattr(kind, name)))

        def undo() -> None:
            for kind, name, method in before:
                if method is None:
                    delattr(kind, name)  # the method was inherited
                else:
                    setattr(kind, name, method)

        return undo

    return ProcessGuard(install)


REWARD_S = 120.0
"""How long the agent's own `reward` may take over one rollout: it may run a test suite."""
_CLEAN_UP_S = 30.0
_UNSET = [p.default for p in inspect.signature(MCPServer).parameters.values() if p.default is not p.empty]
"""The defaults of the SDK's servers: it knows one that was not set by its identity."""


@dataclass
class RolloutScope:
    """What one rollout has for itself. `clean_up_error` is set if the clean-up raised."""

    context: Any = None
    run_config: RunConfig | None = None
    hooks: Any = None
    session: Any = None
    merged: tuple[str, ...] = ()
    """What the run takes of its RunConfig, and what of that gives way."""
    clean_up_error: str | None = None


@asynccontextmanager
async def set_up(
    loaded: LoadedAgent, env: AgentEnv, query: Query, scope: RolloutScope, change: Change
) -> AsyncGenerator[Agent[Any]]:
    """Give the agent of one rollout and fill its `scope`: `context(query)`, `before_rollout(query, context)`, agent.

    The agent is a copy with the fields that `change` gives, its unconnected MCP servers connected for it alone.
    `after_rollout(query, context)` runs also when the rollout failed or was cancelled; its error is kept beside that.
    """
    scope.context = await call_user_code(loaded.context, query)
    try:
        await call_user_code(loaded.before_rollout, query, scope.context)
        for name in RUN_PARTS if loaded.has_run_parts else ():
            setattr(scope, name, await made_part(loaded, name, query))
        async with loaded.open(env) as agent, AsyncExitStack() as connections:
            connected: dict[int, MCPServer] = {}
            for server in servers_to_connect(agent):
                connected[id(server)] = await connect(
                    deepcopy(server, {id(unset): unset for unset in _UNSET}), connections
                )
            yield copied(agent, lambda a: change(a) | {"mcp_servers": [connected.get(id(s), s) for s in a.mcp_servers]})
    finally:
        with anyio.move_on_after(_CLEAN_UP_S, shield=True) as limit:
            error = await _cleaned_up("after_rollout", loaded.after_rollout, query, scope.context)
            if scope.session is not None and not isinstance(loaded.session, GivenPart):
                closing = await _cleaned_up("closing the session", close_session, scope.session)
                error = error or closing
            scope.clean_up_error = error
        if limit.cancelled_caught:
            scope.clean_up_error = f"after_rollout was not done after {_CLEAN_UP_S:g} s"


async def _cleaned_up(what: str, function: Callable[..., Any] | None, *args: Any) -> str | None:
    """Call what cleans up, and return in words what that raised."""
    try:
        await call_user_code(function, *args)
    except BaseException as exc:  # the user's code may raise anything
        if not ends_rollout(exc):
            raise
        return f"{what} raised {in_words(exc)}"
    return None


async def close_session(session: Any) -> None:
    """Close a session that can be closed."""
    await call_user_code(getattr(session, "close", None))


async def made_part(loaded: LoadedAgent, name: str, query: Query) -> Any:
    """Return what a run for a query is begun with, a RunConfig as such. Raises UsageError for what cannot be used."""
    maker: Callable[..., Any] | None = getattr(loaded, name)
    if maker is None:
        return None
    made = await call_user_code(maker, query)
    if instead := part_fault(name, made):
        raise UsageError(f"{name} of agent {loaded.name!r} gives a {type(made).__name__}; it must give {instead}")
    return as_config(made) if name == "run_config" and made is not None else made


async def verified(loaded: LoadedAgent, rollout: Rollout, query: Query, most_s: float = REWARD_S) -> Rollout:
    """Return a rollout that ended well with the reward of the agent's file, which may take `most_s`, or why none."""
    if loaded.reward is None or rollout.failure:
        return rollout
    reward: float | None = None
    error: str | None = f"reward was not done after {most_s:.3g} s"
    with anyio.move_on_after(most_s, shield=True):
        try:
            given: Any = await call_user_code(loaded.reward, rollout, query)
            reward, error = None if given is None else float(given), None
        except BaseException as exc:  # the user's code may raise anything
            if not ends_rollout(exc):
                raise
            error = f"reward raised {in_words(exc)}"
    if reward is not None and not math.isfinite(reward):
        reward, error = None, f"reward raised ValueError: it gave {reward}, which ranks nowhere"
    return rollout.model_copy(update={"verified": reward, "verify_error": error})


async def call_user_code(function: Callable[..., Any] | None, *args: Any) -> Any:
    """Call what is the user's own, sync or async, if there is anything to call."""
    result = function(*args) if function else None
    return await result if inspect.isawaitable(result) else result
