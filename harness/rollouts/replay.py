"""Driving an agent's code again on the replies that one of its rollouts recorded, and comparing as it goes.

Every request is held against the recorded ones; the first that fits none ends the replay. A reply is found by what
was asked, not by its number: nested agents that run side by side may ask in another order than they did.
"""

import copy
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio
from agents import ModelSettings, RunConfig, Runner, RunState, SQLiteSession
from agents.tracing import gen_trace_id

from harness.core.errors import UsageError
from harness.core.recipes import BY_TEMPERATURE, Vary
from harness.core.records import Failure, Query, Record, Rollout
from harness.endpoints.gate import EndpointState, Gate
from harness.endpoints.refused_settings import RefusedSettings
from harness.rollouts import sandboxes
from harness.rollouts.agent_code import AgentRaised, ends_rollout
from harness.rollouts.app_parts import GivenPart, part_maker
from harness.rollouts.capture import SPAN_LOG
from harness.rollouts.graph import copied
from harness.rollouts.lifecycle import RolloutScope, set_up
from harness.rollouts.loading import AgentEnv, LoadedAgent
from harness.rollouts.model_request import Divergence, Scrub, diff, split_think
from harness.rollouts.outcomes import AgentOutcome, app_outcome, read_outcome
from harness.rollouts.raw import RawCall
from harness.rollouts.recorder import Recorder, failure_from
from harness.rollouts.recording import Recording, ReplayModel
from harness.rollouts.run_options import as_config, merged
from harness.rollouts.sdk_runner import Options, RecordedServers, TakenRun, runs_taken_over, without_servers
from harness.rollouts.states import at_usual_place
from harness.rollouts.variation import with_variant


@dataclass
class ReplayRuns:
    """Lets the runs of one replay ask its recording, by way of the SDK's own runner."""

    recording: Recording
    workspaces: sandboxes.Workspaces = field(default_factory=sandboxes.Workspaces)
    through_usual_runner: bool = False
    raised: AgentRaised | None = None
    """What ends the replay, also where the SDK made it a message to the model."""

    def on_raised(self, raised: AgentRaised) -> None:
        """Let it end the replay."""
        self.raised = self.raised or raised

    def take(self, agent: Any, given_input: Any, options: Options) -> TakenRun:
        """Return a run on the recording. Raises Diverged for a run whose calls were not recorded."""
        theirs = as_config(options.get("run_config"))
        if theirs.sandbox or sandboxes.sandbox_agents(agent):
            theirs = self.workspaces.given_to(theirs)
            sandboxes.go_on_beside_others(agent if isinstance(given_input, RunState) else None)
            agent = agent if isinstance(given_input, RunState) else copied(agent, sandboxes.unguarded)
            options |= {"run_config": theirs}
        live = self.recording.live_tools and not self.recording.drives_nested
        if isinstance(theirs.model, ReplayModel) or live:
            return TakenRun(agent, options)
        if not self.recording.drives_nested:
            runs = f"the agent's own code runs agent {agent.name!r} (in a guardrail?)"
            detail = f"{runs}: not all such calls are recorded, and a replay asks no model"
            raise self.recording.diverge(Divergence(what="more calls", agent=agent.name, detail=detail))
        config = copy.copy(theirs)
        config.model, config.tracing_disabled = ReplayModel(self.recording), True
        return TakenRun(agent, options | {"run_config": config})


class Replayed(Record):
    """How the replay of one rollout came out: identical if `divergence` is None."""

    query: str
    index: int
    calls: int
    """Recorded model calls."""
    replayed: int
    """How many of them were asked for again, up to the end or the divergence."""
    divergence: Divergence | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReplayOptions:
    """How to replay. Recorded tool outputs stand in for the tools, unless `live_tools`."""

    max_turns: int
    timeout_s: float
    scrub: Scrub
    """Takes out of today's texts what the archive does not keep."""
    get_text: Callable[[str], str]
    """Finds a text of the archive."""
    live_tools: bool = False
    vary: Vary = BY_TEMPERATURE
    """What the recipes of the run's rollouts are of."""


async def replay_rollout(
    loaded: LoadedAgent, env: AgentEnv, query: Query, rollout: Rollout, calls: Sequence[RawCall], options: ReplayOptions
) -> Replayed:
    """Run the agent on a rollout's replies; tell if all was as recorded. Raises UsageError if it cannot be made."""
    # A nested call failed for good where no retry came of it, and the rollout did not end with it.
    lost = sum(c.error is not None for c in rollout.calls) - rollout.retries
    unrecorded = lost > (rollout.failure is not None) or any(c.raw is None and c.error is None for c in rollout.calls)
    workspaces = sandboxes.Workspaces(None if options.live_tools else rollout.trajectory.files, options.get_text)

    def scrub(text: str) -> str:
        return at_usual_place(options.scrub(at_usual_place(text, workspaces.temporary)), rollout.temporary_folders)

    runs = ReplayRuns(Recording(rollout, calls, scrub, not unrecorded, options.live_tools), workspaces)
    recording, outcome = runs.recording, await _run(loaded, env, query, runs, options)
    why = "some nested model calls have no recorded reply (they ran on models of their own, or failed)"
    notes = [f"{why}: the outputs of agents used as tools were taken as recorded"] if unrecorded else []
    if recording.skipped:
        were = "model call was" if recording.skipped == 1 else "model calls were"
        notes.append(f"{recording.skipped} {were} made inside tools whose outputs were taken as recorded")
    if recording.withheld and recording.ended:
        notes.append("the output that a guardrail stopped is not recorded: its decision was taken as recorded")
    return Replayed(
        query=query.id,
        index=rollout.index,
        calls=len(calls),
        replayed=len(recording.used),
        divergence=_first_divergence(recording, outcome),
        notes=tuple(notes),
    )


async def _run(
    loaded: LoadedAgent, env: AgentEnv, query: Query, runs: ReplayRuns, options: ReplayOptions
) -> AgentOutcome:
    if isinstance(loaded.session, GivenPart):  # it may hold what the rollout said; a replay writes nothing, either
        loaded = replace(loaded, session=part_maker(partial(SQLiteSession, "replay")))
    recording, scope, timeout_s = runs.recording, RolloutScope(), options.timeout_s
    rollout, outcome = recording.rollout, AgentOutcome()
    settings = ModelSettings(temperature=rollout.requested.temperature, top_p=rollout.requested.top_p)
    config = RunConfig(model=ReplayModel(recording), tracing_disabled=True, model_settings=settings)
    with anyio.move_on_after(timeout_s):
        try:
            async with AsyncExitStack() as around:
                around.callback(SPAN_LOG.take, trace_id := gen_trace_id())
                around.enter_context(SPAN_LOG.watch(trace_id))  # a trace that the app begins is not uploaded
                around.enter_context(runs_taken_over(runs))
                around.enter_context(sandboxes.sandboxes_in(runs.workspaces))
                around.push_async_callback(runs.workspaces.close)
                if rollout.mcp_tools and not options.live_tools:
                    servers = RecordedServers(rollout.mcp_tools, [c.request for c in recording.calls])
                    around.enter_context(without_servers(servers))
                agent = await around.enter_async_context(set_up(loaded, env, query, scope, lambda _: {}))
                with_variant(agent, options.vary, rollout.recipe)
                if scope.run_config is not None:
                    config = replace(merged(scope.run_config, config), model=config.model)
                to_do: Options = {"context": scope.context, "max_turns": options.max_turns, "run_config": config}
                to_do |= {"hooks": scope.hooks, "session": scope.session}
                if loaded.app:
                    outcome = await app_outcome(loaded.source, query)
                else:
                    outcome = read_outcome(await Runner.run(agent, query.agent_input(), **to_do))
                error = runs.raised
        except UsageError:
            raise
        except BaseException as exc:
            if not ends_rollout(exc):
                raise
            error = runs.raised or exc  # however it ended is compared with how the rollout did
        if error is None:
            return outcome
        recorder = Recorder(state=EndpointState(Gate.impatient(), RefusedSettings()))
        return AgentOutcome(failure=failure_from(error, recorder, loaded.file), error=error)
    message = f"not done after {timeout_s:g} s"
    return AgentOutcome(failure=Failure(kind="timeout", type="TimeoutError", message=message))


def _first_divergence(recording: Recording, outcome: AgentOutcome) -> Divergence | None:
    """Return the first divergence: in a request, else in how many there were, else in how the run ended."""
    if recording.divergence:
        return recording.divergence
    recorded, now = recording.rollout.failure, outcome.failure
    if recorded and now and recorded.kind == now.kind == "guardrail":
        return None  # a guardrail runs beside the model call, and either may be the quicker
    if missing := recording.missing():
        ending = f"; now it ended in {_ending(now)}" if now else ""
        return missing.model_copy(update={"detail": missing.detail + ending})
    if recording.ended or (recorded and recorded.kind == (now.kind if now else "")):
        return None
    if (recorded or now) and not (recording.ends_outside and now is None):
        return Divergence(what="ended otherwise", detail=f"recorded: {_ending(recorded)}; now: {_ending(now)}")
    reasoning, rest = split_think(outcome.answer)
    answer = recording.scrub(rest if reasoning else outcome.answer)
    before = recording.scrub(recording.rollout.trajectory.answer)
    changed = Divergence(what="answer changed", detail=recording.remedy(), diff=diff(before, answer))
    return None if recorded or answer == before else changed


def _ending(failure: Failure | None) -> str:
    return f"{failure.kind} ({failure.type}: {failure.message})" if failure else "with an answer"
