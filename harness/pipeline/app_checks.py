"""What an app gives the runs of its agent, and its sandbox, made once and looked at before anything is spent."""

import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, cast

import anyio
from agents import Model, ModelResponse, RunConfig, Tool
from agents.run import AgentRunner
from agents.sandbox import SandboxAgent

from harness.core.errors import UsageError, before_colon, joined, on_a_line, option, quoted, short_message
from harness.core.records import Query
from harness.core.settings import Settings
from harness.pipeline.resolve import AgentSpec, env_before, refuse_no_model
from harness.rollouts.agent_code import ends_rollout
from harness.rollouts.app_parts import AppAgent, GivenPart, part_fault, part_maker
from harness.rollouts.lifecycle import close_session, made_part
from harness.rollouts.loading import LoadedAgent, from_object, load_agent, users_error
from harness.rollouts.model_request import check_chat
from harness.rollouts.run_options import brings_models, refuse_two_servers
from harness.rollouts.sandboxes import Workspaces, sandbox_agents, sandboxes_in, unguarded

_STARTING_S = 120.0


def loaded_agent(agent: Any, **parts: Any) -> LoadedAgent:
    """Find or wrap an agent that the caller gave; a name is looked up from the working folder.

    `parts` are what its app gives its runs, by name, in place of the agent's own; an agent with any cannot be found
    again by its name. Raises UsageError.
    """
    given = {name: part for name, part in parts.items() if part is not None}
    if isinstance(agent, AppAgent):
        return loaded_agent(agent.agent, **(agent.parts | given))
    loaded = load_agent(str(agent), Path.cwd()) if isinstance(agent, str | Path) else from_object(agent)
    for name, part in given.items():
        if not callable(part) and (instead := part_fault(name, part)):
            raise UsageError(
                f"{joined(option(name), quoted(part))}: give {instead}, or a function of the query that does"
            )
        if loaded.app:
            raise UsageError(f"{option(name)}: {loaded.name!r} is a function, which gives that to its runs itself")
    makers: dict[str, Any] = {name: part_maker(part) for name, part in given.items()}
    return replace(loaded, word=None, **makers) if makers else loaded


def judge_objects(settings: Mapping[str, Any]) -> Sequence[LoadedAgent]:
    """Return the agents that judge where settings give objects; none where they give names. Raises UsageError."""
    given = settings.get("judge_agent")
    several = cast("Sequence[Any]", given) if isinstance(given, list | tuple) else () if given is None else (given,)
    if all(isinstance(each, str) for each in several):
        return ()
    try:
        return [loaded_agent(each) for each in several]
    except UsageError as exc:
        raise UsageError(f"{before_colon('judge_agent')}: {exc}") from None


class _Enough(Exception):
    """Ends a trial, which has seen all that it is for."""


@dataclass
class SandboxTrial(Model):
    """What a sandbox gives an agent: the tools and settings of its capabilities. Stands in for a model."""

    tools: list[Tool] = field(default_factory=list[Tool])
    extra_args: dict[str, Any] = field(default_factory=dict[str, Any])

    async def get_response(self, *_: Any, **asked: Any) -> ModelResponse:
        """Note what the run would ask for, and end it."""
        self.tools, self.extra_args = asked["tools"], asked["model_settings"].extra_args or {}
        raise _Enough

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Do nothing: no trial streams."""
        raise NotImplementedError


async def try_sandbox(agent: SandboxAgent[Any], theirs: RunConfig | None) -> SandboxTrial:
    """Make an agent's sandbox once, up to its first model call. Raises UsageError, with the reason, if it cannot be."""
    bare: dict[str, Any] = {"instructions": None, "base_instructions": "none", "hooks": None, "output_type": None}
    bare |= {
        name: list[Any]() for name in ("tools", "mcp_servers", "handoffs", "input_guardrails", "output_guardrails")
    }
    bare["capabilities"] = unguarded(agent)["capabilities"]
    trial, workspaces = SandboxTrial(), Workspaces()
    config = workspaces.given_to(theirs or RunConfig())
    usual = RunConfig(model=trial, tracing_disabled=True, sandbox=config.sandbox)
    client = config.sandbox and config.sandbox.client
    why = f"it did not start within {_STARTING_S:g} s"
    with anyio.move_on_after(_STARTING_S), sandboxes_in(workspaces):
        try:
            await AgentRunner().run(agent.clone(**bare), "Nothing.", run_config=usual)
        except (_Enough, UsageError) as exc:
            if isinstance(exc, UsageError):
                raise
            if workspaces.failure is None:
                return trial
            why = workspaces.failure.message
        except Exception as exc:  # noqa: BLE001 - the client, and what it needs, may be anybody's
            why = short_message(f"{type(exc).__name__}: {exc.__cause__ or exc}")
        finally:
            await workspaces.close()
    raise UsageError(f"the sandbox of agent {agent.name!r} cannot be made with {client}: {why}")


async def check_app(spec: AgentSpec, settings: Settings, queries: Iterable[Query]) -> None:
    """Make what the runs of the first queries are begun with, as far as the agent's app gives anything.

    Raises UsageError for what the SDK cannot use, for a provider of models beside --base-url, for an agent without a
    model, and for a session that rollouts would share.
    """
    loaded = spec.loaded
    if not (loaded.has_run_parts or spec.sandboxed) or not (first := list(islice(queries, 2))):
        return
    theirs: RunConfig | None = await _made(loaded, "run_config", first[0])
    if theirs is not None:
        refuse_two_servers(theirs, settings)
    if spec.endpoint is None and not spec.offline and not (theirs and brings_models(theirs)):
        await refuse_no_model(loaded, settings)
    await _made(loaded, "hooks", first[0])
    if loaded.session:
        await _check_sessions(loaded, settings, first)
    if not spec.sandboxed:
        return
    async with loaded.open(env_before(settings, spec.endpoint, offline=spec.offline)) as agent:
        for each in sandbox_agents(agent):  # what its capabilities need may be unknown to its API
            trial = await try_sandbox(each, theirs)
            beside = "the capability Compaction" if "context_management" in trial.extra_args else None
            if not spec.offline:
                check_chat(each, trial.tools, spec.endpoint, settings.model, beside)


async def _check_sessions(loaded: LoadedAgent, settings: Settings, first: list[Query]) -> None:
    """Refuse a session that two rollouts would share: of one query, or where n is 1, of two."""
    n, remedy = option("n", settings.n), "give a function session(query) that makes a new one each time"
    if isinstance(loaded.session, GivenPart):
        if settings.n > 1 or len(first) > 1:
            of = f"the {settings.n} rollouts of a query" if settings.n > 1 else "all queries"
            raise UsageError(f"{n}: {of} would share the session that is given for agent {loaded.name!r}; {remedy}")
        return
    asked = [first[0], first[0]] if settings.n > 1 else first
    made = [session for query in asked if (session := await _made(loaded, "session", query)) is not None]
    try:
        if len(made) > 1 and (place := shared_place(*made, isolated=settings.isolate == "process")):
            two = "one query" if settings.n > 1 else "two queries"
            raise UsageError(
                f"{n}: session(query) of agent {loaded.name!r} gives rollouts of {two} the same session ({place}), so "
                f"that each would read what the other wrote; {remedy}, such as with uuid.uuid4().hex for its id"
            )
    finally:
        for session in made if len(set(map(id, made))) == len(made) else ():  # one that is shared is not ours to close
            await _blamed(f"closing a session of agent {loaded.name!r}", loaded, close_session(session))


def shared_place(one: Any, other: Any, *, isolated: bool) -> str | None:
    """Return in words what two sessions share; None where each has a history of its own.

    `isolated` rollouts have working folders of their own. Of a class that is not known, two with one id share their
    history, unless their simple attributes differ or each has a container, in which its history may be.
    """
    one, other = _innermost(one), _innermost(other)
    if one is other:
        return "one object"
    name = _id_of(one)
    if type(one) is not type(other) or name is None or name != _id_of(other):
        return None
    what = f"{type(one).__name__} with session_id {quoted(name)}"
    fields: Mapping[str, Any] = getattr(one, "__dict__", {})
    others: Mapping[str, Any] = getattr(other, "__dict__", {})
    path, other_path = fields.get("db_path"), others.get("db_path")
    if isinstance(path, str | Path) and isinstance(other_path, str | Path):
        kept_apart = str(path) == ":memory:" or (isolated and not Path(path).is_absolute())
        same = not kept_apart and os.path.realpath(path) == os.path.realpath(other_path)
        return f"{what} in {on_a_line(path)}" if same else None
    pairs: list[tuple[Any, Any]] = [(value, others.get(field)) for field, value in fields.items()]
    urls = [str(getattr(value, "url", "")) for value, _ in pairs]
    in_memory = any(url.startswith("sqlite") and (":memory:" in url or url.endswith("://")) for url in urls)
    if in_memory or any(isinstance(mine, list | dict | deque) and mine is not its for mine, its in pairs):
        return None
    differ = any(isinstance(mine, str | int | Path) and mine != its for mine, its in pairs)
    return None if differ else what


def _innermost(session: Any) -> Any:
    """Return the session that keeps the items, within those that encrypt or compact them."""
    while (inner := getattr(session, "underlying_session", None)) is not None:
        session = inner
    return session


def _id_of(session: Any) -> Any:
    try:
        return session.session_id
    except Exception:  # noqa: BLE001 - a class of the user's; the SDK's own raises where the server has given none yet
        return None


async def _made(loaded: LoadedAgent, name: str, query: Query) -> Any:
    return await _blamed(f"{name}(query) of agent {loaded.name!r}", loaded, made_part(loaded, name, query))


async def _blamed(what: str, loaded: LoadedAgent, work: Awaitable[Any]) -> Any:
    """Do what calls the user's code. Raises UsageError, naming the line, for what that raises."""
    try:
        return await work
    except UsageError:
        raise
    except BaseException as exc:
        if not ends_rollout(exc):
            raise
        raise users_error(what, exc, loaded.file) from exc
