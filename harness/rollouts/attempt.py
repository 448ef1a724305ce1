"""One rollout: run the agent once, and make a record of however that ended."""

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any

import anyio
from agents import Agent, ModelSettings, RunConfig, Runner
from agents.tracing import Span, gen_trace_id, trace

from harness.core.cost import UNKNOWN, Cost
from harness.core.errors import Refused, option
from harness.core.recipes import Recipe
from harness.core.records import Bill, ModelCall, Query, Role, Rollout, Sampling, Trajectory
from harness.endpoints.costs import UNKNOWN_ADDRESS
from harness.endpoints.retries import agent_retries
from harness.offline.model import OfflineModel
from harness.rollouts.agent_code import NO_CONTEXT, ends_rollout, reads_no_context
from harness.rollouts.capture import SPAN_LOG, stray_replies
from harness.rollouts.checkpoints import OF_THE_REQUEST, Attempted, GivenAgain, Keeper
from harness.rollouts.lifecycle import REWARD_S, RolloutScope, set_up, verified
from harness.rollouts.loading import AgentEnv
from harness.rollouts.model_calls import CallTotals, PackedCalls, capture_gaps, total_calls
from harness.rollouts.model_request import split_think
from harness.rollouts.models import RecordedModel, RecordedProvider, RolloutRuns, recorded
from harness.rollouts.outcomes import AgentOutcome, app_outcome, read_outcome
from harness.rollouts.recorder import (
    BeginsAnew,
    CannotBranch,
    RecordedCall,
    Recorder,
    failure_from,
    not_whole,
    timed_out,
)
from harness.rollouts.run_context import RunContext, writes_told
from harness.rollouts.run_options import refuse_two_servers, what_became
from harness.rollouts.sandboxes import Workspaces, sandboxes_in
from harness.rollouts.sdk_runner import mcp_errors, runs_taken_over
from harness.rollouts.snapshots import NOTHING_KEPT, StateOutside
from harness.rollouts.states import at_usual_place
from harness.rollouts.steps import WitnessedCall, read_steps, witnessed_calls
from harness.rollouts.tool_threads import noting_no_thread
from harness.rollouts.variation import dealt, refused_words, sampling_for, vary_in, with_variant


@dataclass(frozen=True)
class Attempt:
    """One rollout under way: its own recorder, trace, scope and chance, none of them shared."""

    run_context: RunContext
    query: Query
    index: int
    recorder: Recorder
    started: datetime
    began_s: float = field(default_factory=anyio.current_time)
    """When it began, by the event loop's clock, which nobody sets anew."""
    trace_id: str = field(default_factory=gen_trace_id)
    scope: RolloutScope = field(default_factory=RolloutScope)
    before: Attempted | None = None
    """What an attempt before has had, and this one goes on from."""
    workspaces: Workspaces = field(default_factory=Workspaces)
    stray_replies: list[str] = field(default_factory=list[str])
    """The addresses of replies that came over the run's client and belong to no recorded call."""

    @cached_property
    def packed(self) -> PackedCalls:
        """The calls that were packed so far."""
        return PackedCalls(self.run_context.store)

    @cached_property
    def state_outside(self) -> StateOutside:
        """What is kept of it."""
        due = self.before.start.snapshot if self.before and self.before.start else NOTHING_KEPT
        context, run_context = (lambda: self.scope.context), self.run_context
        return StateOutside(run_context.loaded, self.recorder, run_context.store, context, self.workspaces, due.by_file)

    @property
    def role(self) -> Role:
        """Rollout 0 is the anchor."""
        return "anchor" if self.index == 0 else "sample"

    @cached_property
    def recipe(self) -> Recipe | None:
        """How it differs from the agent as it stands."""
        if self.before and self.before.start:
            return self.before.start.recipe
        return dealt(self.run_context.settings, self.query.id, self.index)

    @cached_property
    def requested(self) -> Sampling:
        """The settings asked for."""
        return sampling_for(self.run_context.settings, self.role, self.recipe, self.recorder.seed)

    async def run(self) -> AgentOutcome:
        """Run the agent. Raises Refused in strict mode only; all else that goes wrong is an outcome."""
        outcome: AgentOutcome | None = None
        limit, error = self.recorder.limit, None
        with (
            SPAN_LOG.watch(self.trace_id, uploaded=self.run_context.settings.upload_traces),
            stray_replies(self.stray_replies),
            mcp_errors(self.recorder.hooks.note_error),
            writes_told(self.run_context.on_write, f"{self.query.id}/{self.index}"),
            noting_no_thread(partial(setattr, self.recorder, "no_thread", True)),  # noqa: FBT003 - as setattr takes it
            limit.within(),
        ):
            try:
                outcome = await self._drive()
                if not (outcome.failure or outcome.is_json):
                    outcome = replace(outcome, failure=not_whole(self.recorder.calls))
                if not outcome.failure:
                    outcome = replace(outcome, failure=self.workspaces.failure)
            except BaseException as exc:  # whatever ends a rollout is data
                if not ends_rollout(exc):
                    raise
                error = exc
            if cause := self.recorder.fatal or error:  # the SDK may have made it a message to the model
                if isinstance(cause, Refused):
                    raise cause
                outcome = self._failed(cause)
        if outcome is None or (outcome.failure and limit.passed):
            return AgentOutcome(failure=timed_out(self.recorder, limit.seconds))
        return outcome

    def keep_as_it_comes(self) -> Keeper:
        """Have what this attempt gets kept as it comes, and given what the one before had. Returns who keeps it."""
        recorder, hooks, before = self.recorder, self.recorder.hooks, self.before
        recorder.state_outside, start = self.state_outside, before.start if before else None
        self.workspaces.begin_with = start.snapshot.sandboxes if start else ()

        def state() -> Any:
            own, context = self.run_context.own_state(), self.scope.context
            return context if own is None else (context, own)

        whose = {"query": self.query.id, "index": self.index, "attempt": self.trace_id}
        due, spaces = bool(start and start.snapshot.by_file), self.workspaces
        keeper = Keeper(recorder, self.run_context.store, whose, state, self.packed, lambda: due or bool(spaces))
        recorder.kept, hooks.began, hooks.ended = keeper.replied, keeper.began, keeper.ended
        if before:
            keeper.had.start = before.start
            redact = self.run_context.store.redact
            given = GivenAgain(before, hooks, redact, self.workspaces.temporary)
            keeper.before_s, recorder.give_again = before.elapsed_s, given.reply
            recorder.before_call = self._before_call
        return keeper

    def _before_call(self, call: RecordedCall) -> None:
        """Count a call that is about to be made. Raises CannotBranch, OutOfCalls."""
        start = self.before.start if self.before else None
        if start and start.calls and call.is_bound and not start.branch.restored:
            raise CannotBranch("its requests go on from what the server keeps of the conversation, and not of a branch")
        self.run_context.calls.take()

    def cannot_go_on(self, outcome: AgentOutcome) -> str | None:
        """Return why an attempt cannot go on from what the one before has had; None where it can, or nothing else."""
        if self.before and self.before.is_fresh:
            return None
        if isinstance(outcome.error, BeginsAnew):
            return str(outcome.error)
        has_new = any(call.response and not call.is_kept for call in self.recorder.calls)
        if outcome.failure and outcome.failure.type in OF_THE_REQUEST and not has_new:
            return f"the server does not go on from another's replies ({outcome.failure.message})"
        if outcome.failure and "tool call ID" in outcome.failure.message:
            return "the server names a tool call as one before is named"
        return None

    def _failed(self, cause: BaseException) -> AgentOutcome:
        loaded = self.run_context.loaded
        failure = failure_from(cause, self.recorder, loaded.file)
        if self.recipe and failure.type in OF_THE_REQUEST:
            failure = failure.model_copy(update={"message": f"{failure.message}; {refused_words(self.recipe)}"})
        if loaded.context is None and reads_no_context(cause):
            failure = failure.model_copy(update={"message": f"{failure.message}; {NO_CONTEXT}"})
        return AgentOutcome(failure=failure, error=cause)

    async def settle(self, outcome: AgentOutcome) -> Rollout:
        """Make the record, ask the agent's file for its reward, and store it; no cancellation comes between."""
        most_s = min(REWARD_S, max(0.0, self.run_context.deadline.at - anyio.current_time()))
        return self._keep(await verified(self.run_context.loaded, self._build(outcome), self.query, most_s))

    def calls_from(self, first: int) -> Sequence[ModelCall]:
        """Return the calls so far but for the `first` ones, as far as they are known without spans."""
        return self._calls((), witnessed_calls((), self.recorder.calls[first:])).calls

    def _calls(self, spans: Sequence[Span[Any]], replies: Sequence[WitnessedCall]) -> CallTotals:
        models, prices = self.run_context.models, self.run_context.prices

        def pricing(bill: Bill, names: Sequence[str | None]) -> Cost:
            return Cost() if models.offline else prices.cost(bill, names, models.base_url)

        return total_calls(spans, replies, self.recorder.hooks, self.requested.temperature, pricing)

    def record(self, outcome: AgentOutcome, **told: Any) -> Rollout:
        """Make the record and store it, at once and without a reward; `told` are fields known from elsewhere."""
        return self._keep(self._build(outcome).model_copy(update=told))

    def _build(self, outcome: AgentOutcome) -> Rollout:
        run_context, spans = self.run_context, SPAN_LOG.take(self.trace_id)
        models = run_context.models
        replies = witnessed_calls(spans, self.recorder.calls)
        calls = self._calls(spans, replies)
        cost = calls.cost if calls.calls or models.offline or models.base_url != UNKNOWN_ADDRESS else UNKNOWN
        gaps = capture_gaps(spans, replies, self.stray_replies, ended_well=outcome.failure is None)
        finished = outcome.failure is None or bool(outcome.answer)  # a failed one too, where it got as far as an answer
        lifted, rest = split_think(outcome.answer)
        files = self.workspaces.records(run_context.store)
        try:
            trajectory = Trajectory(
                query=self.query.text,
                path=self.workspaces.steps(read_steps(spans, replies, self.recorder.hooks, finished=finished)),
                answer=rest if lifted else outcome.answer,
                answer_type="json" if outcome.is_json else "text",
                files=files,
            )
        except Exception as exc:  # noqa: BLE001 - a reply that cannot be read must not take the paid run with it
            trajectory = Trajectory(query=self.query.text, answer=outcome.answer, files=files)
            outcome = AgentOutcome(failure=failure_from(exc, self.recorder))
        before_s = self.before.elapsed_s if self.before else 0.0
        first_request = self.recorder.calls[0].request if self.recorder.calls else {}
        raw_calls, sampled_tokens = self.packed.keep_all(calls, run_context.models.state.tokens.note)
        return Rollout(
            run=run_context.run_id,
            query=self.query.id,
            index=self.index,
            role=self.role,
            requested=self.requested,
            recipe=self.recipe,
            status="failed" if outcome.failure else "ok",
            failure=outcome.failure,
            trajectory=trajectory,
            effective=calls.effective.model_copy(update={"run_config": self.scope.merged}),
            calls=calls.calls,
            mcp_tools=calls.mcp_tools,
            raw_calls=raw_calls,
            sampled_tokens=sampled_tokens,
            capture="partial" if gaps else "full",
            capture_gaps=gaps,
            retries=calls.retries,
            usage=calls.usage,
            **cost.named("price_usd"),
            served_by=models.endpoint.host if run_context.alternatives and models.endpoint else None,
            clean_up_error=self.scope.clean_up_error,
            snapshot_error=self.state_outside.error,
            started_at=self.started,
            duration_s=anyio.current_time() - self.began_s + before_s,
            calls_kept=sum(call.is_kept and not call.is_prefix for call in self.recorder.calls) or None,
            temporary_folders=tuple(self.workspaces.temporary),
            branch=self.before.start.branch if self.before and self.before.start else None,
            state_changed=self._state_changed(replies),
            fingerprint=self.recorder.fingerprint,
            instructions=first_request.get("instructions"),
            tool_names=tuple(t["name"] for t in first_request.get("tools", ())),
        )

    def _state_changed(self, replies: Sequence[WitnessedCall]) -> int | None:
        replied = [reply.recorded for reply in replies if reply.recorded and reply.recorded.response]
        changed = self.recorder.state_changed
        return next((at for at, call in enumerate(replied, 1) if call is changed), None)

    def _keep(self, rollout: Rollout) -> Rollout:
        rollout = self.run_context.store.add_rollout(rollout)  # what is judged is what is kept
        failed = rollout.status == "failed"
        self.run_context.progress.kept("rollouts", rollout.usage, rollout.price_usd, failed=failed)
        noted, loaded = self.run_context.noted, self.run_context.loaded
        of_file = rollout.snapshot_error if loaded.snapshot else None  # of a sandbox it is seldom missed
        for error in filter(None, (rollout.clean_up_error, rollout.verify_error, of_file)):
            self.run_context.progress.note(f"rollout {self.index}: {error}")
        if self.recorder.hooks.read_no_context and loaded.context is None and NO_CONTEXT not in noted:
            noted.add(NO_CONTEXT)
            self.run_context.progress.note(f"a tool of agent {loaded.name!r} failed: {NO_CONTEXT}")
        return rollout

    async def _drive(self) -> AgentOutcome:
        models, loaded, settings = self.run_context.models, self.run_context.loaded, self.run_context.settings
        env = AgentEnv(
            api=models.endpoint.api if models.endpoint else "chat",
            offline=models.offline,
            corpus=settings.corpus,
            model=self.requested.model,
            rng=random.Random(f"{settings.seed}/{self.query.id}/{self.index}"),
        )
        config = self._config(env.rng)  # before the agent draws from the rng: its own draws change nothing
        own = models.endpoint is None
        runs = RolloutRuns(config, self.recorder, models.elsewhere, self._note_override, self.workspaces, own)
        change = partial(recorded, recorder=self.recorder)
        self.recorder.at_usual_place = partial(at_usual_place, temporary=self.workspaces.temporary)
        with runs_taken_over(runs), sandboxes_in(self.workspaces):
            try:
                async with set_up(loaded, env, self.query, self.scope, change) as agent:
                    with_variant(agent, vary_in(settings), self.recipe)
                    run_config = self._run_config(runs)
                    if loaded.app:  # it begins traces of its own, and the SDK warns of one within another
                        return await app_outcome(loaded.source, self.query)
                    with trace(loaded.name, trace_id=self.trace_id, group_id=self.run_context.run_id or None):
                        result = await Runner.run(
                            agent,
                            self.query.agent_input(),
                            context=self.scope.context,
                            max_turns=settings.max_turns,
                            run_config=run_config,
                            hooks=self.scope.hooks,
                            session=None if self.recorder.stop_before_first_call else self.scope.session,
                        )
                        return read_outcome(result)
            finally:
                runs.over = True
                await self.workspaces.close()

    def _run_config(self, runs: RolloutRuns) -> RunConfig:
        """Return what the run is made with, and note what became of the app's own configuration. Raises UsageError."""
        theirs = self.scope.run_config
        config = runs.outermost(theirs)
        if theirs is not None:
            refuse_two_servers(theirs, self.run_context.settings)
            self.scope.merged = what_became(theirs, config)
        return config

    def _note_override(self, agent: Agent[Any]) -> None:
        own, settings = agent.model_settings.temperature, self.run_context.settings
        temperature, of_anchor = settings.temperature, settings.anchor_temperature
        if own in (None, temperature) or self.requested.temperature is None or agent.name in self.run_context.noted:
            return
        self.run_context.noted.add(agent.name)
        runs = f"{temperature:g} for the samples ({option('temperature')}), {of_anchor:g} for the anchor"
        gives_way = f"the temperature {own:g} of agent {agent.name!r} gives way to the run's"
        self.run_context.progress.note(f"{gives_way}: {runs}")

    def _config(self, rng: random.Random) -> RunConfig:
        run_context, sampling, settings = self.run_context, self.requested, self.run_context.settings
        kind = sampling.model_copy(update={"seed": None})
        if kind not in run_context.configs:
            has_answered, retried = run_context.models.state.has_answered, run_context.progress.retried
            retries = agent_retries(settings.retries, random.Random(f"{settings.seed}/retries"), has_answered, retried)
            run_context.configs[kind] = RunConfig(
                model=sampling.model,
                trace_include_sensitive_data=True,
                workflow_name=run_context.loaded.name,
                model_settings=ModelSettings(temperature=sampling.temperature, top_p=sampling.top_p, retry=retries),
            )
        config = copy.copy(run_context.configs[kind])
        if run_context.models.offline:
            config.model = RecordedModel(OfflineModel(rng), self.recorder)
        config.model_provider = RecordedProvider(run_context.models.provider, self.recorder)
        config.tool_error_formatter = self.recorder.hooks.on_tool_error
        return config


def sampling_seed(run_context: RunContext, query: Query, index: int) -> int | None:
    """Return a rollout's seed where seeds exist: not on the Responses API, nor for models of the agent's own."""
    if run_context.models.endpoint is None or run_context.models.endpoint.api == "responses":
        return None
    return random.Random(f"{run_context.settings.seed}/{query.id}/{index}/seed").getrandbits(31)
