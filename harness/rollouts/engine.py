"""Rolling out: one query, N runs of the agent, each isolated, each ending in a record whatever happens."""

import random
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import anyio
from agents import Model, ModelProvider, RunConfig, Runner, RunResult
from agents.tracing import gen_trace_id, trace
from pydantic import TypeAdapter

from harness.api_errors import refused
from harness.archive import Store
from harness.clock import Clock
from harness.errors import UsageError
from harness.offline import OfflineModel
from harness.progress import Progress
from harness.records import Failure, Group, Query, Role, Rollout, Sampling, Trajectory
from harness.rollouts.accounts import Accounts, account
from harness.rollouts.capture import check_tracing, span_log
from harness.rollouts.environment import AgentEnv
from harness.rollouts.failures import failure_from
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.models import RecordedModel, RecordedProvider, Recorder, settings_for, with_recorded_models
from harness.rollouts.steps import split_think, steps_of
from harness.settings import Endpoint, Settings

ANCHOR_TEMPERATURE = 0.0


@dataclass(frozen=True)
class Outcome:
    """How a run of the agent ended: its result, or why there is none."""

    answer: str = ""
    is_json: bool = False
    failure: Failure | None = None
    error: BaseException | None = None


class FirstCall:
    """Lets one rollout go first, until its first reply is in.

    A wrong key, model or address so costs one call and not N, and is the whole run's error, not N failures.
    """

    def __init__(self) -> None:
        """Nobody has gone yet."""
        self._taken = False
        self._through = anyio.Event()
        self.answered = False

    async def lead_or_wait(self) -> bool:
        """Return True to the first caller at once, False to the others once it is through."""
        if self._taken:
            await self._through.wait()
            return False
        self._taken = True
        return True

    def reply(self) -> None:
        """A reply came in: all may go."""
        self.answered = True
        self._through.set()

    def over(self) -> None:
        """The leader has ended; all may go."""
        self._through.set()


@dataclass(frozen=True)
class Engine:
    """Rolls out queries on one agent. `endpoint` None: the embedded model if `offline`, else the agent's own."""

    loaded: LoadedAgent
    settings: Settings
    endpoint: Endpoint | None
    provider: ModelProvider
    offline: bool
    run_id: str
    store: Store
    progress: Progress
    clock: Clock
    limiter: anyio.CapacityLimiter
    first_call: FirstCall

    async def roll_out(self, query: Query) -> Group:
        """Run the agent `settings.n` times on `query`: index 0 is the anchor, the others sample.

        Every rollout is in the store when this returns, failed ones with their cause and steps so far. Raises
        Refused if the endpoint turned the very first call down, UsageError for an agent that cannot be made.
        """
        check_tracing()
        done: dict[int, Rollout] = {}
        self.progress.expect("rollouts", self.settings.n)

        async def one(index: int) -> None:
            async with self.limiter:
                leads = await self.first_call.lead_or_wait()
                done[index] = await self._one(query, index, leads=leads)
            self.progress.done("rollouts")

        async with anyio.create_task_group() as tasks:
            for index in range(self.settings.n):
                tasks.start_soon(one, index)
        return Group(query=query, rollouts=tuple(done[i] for i in sorted(done)))

    async def _one(self, query: Query, index: int, *, leads: bool) -> Rollout:
        role: Role = "anchor" if index == 0 else "sample"
        temperature = ANCHOR_TEMPERATURE if role == "anchor" else self.settings.temperature
        recorder, trace_id, started = Recorder(on_reply=self.first_call.reply), gen_trace_id(), self.clock()
        span_log().watch(trace_id)
        finish = _Finisher(self, query, index, role, temperature, recorder, trace_id, started)
        try:
            outcome = await self._run_agent(query, index, temperature, recorder, trace_id)
        except anyio.get_cancelled_exc_class():
            # Nothing here awaits, so the record is whole on disk before the cancellation goes on.
            finish(Outcome(failure=Failure(kind="cancelled", type="Cancelled", message="stopped before it ended")))
            raise
        except UsageError:
            span_log().take(trace_id)
            raise
        if leads and not self.first_call.answered:
            host = self.endpoint.host if self.endpoint else "the agent's endpoint"
            asked = self.settings.model or (recorder.calls[0].model if recorder.calls else None)
            if refusal := refused(outcome.error, asked or "the default", host):
                span_log().take(trace_id)
                raise refusal from outcome.error
        if leads:
            self.first_call.over()
        return finish(outcome)

    async def _run_agent(
        self, query: Query, index: int, temperature: float, recorder: Recorder, trace_id: str
    ) -> Outcome:
        env = self._env(query, index)
        outcome: Outcome | None = None
        with anyio.move_on_after(self.settings.timeout) as limit:
            try:
                async with self.loaded.open(env) as agent:
                    with trace(self.loaded.name, trace_id=trace_id, group_id=self.run_id or None):
                        result = await Runner.run(
                            with_recorded_models(agent, recorder), query.text, max_turns=self.settings.max_turns,
                            run_config=self._config(env, temperature, recorder),
                        )  # fmt: skip
                outcome = _ended(result)
            except UsageError:
                raise
            except Exception as exc:  # noqa: BLE001 - whatever ends a rollout is data
                turn = sum(c.response is not None for c in recorder.calls)
                outcome = Outcome(failure=failure_from(exc, turn), error=exc)
        if outcome is None or (outcome.failure and limit.cancel_called):
            message = f"not done after {self.settings.timeout:g} s (--timeout)"
            return Outcome(failure=Failure(kind="timeout", type="TimeoutError", message=message))
        return outcome

    def _env(self, query: Query, index: int) -> AgentEnv:
        """Give each rollout chance of its own, the same for the same seed, query and index."""
        return AgentEnv(
            api=self.endpoint.api if self.endpoint else "chat", offline=self.offline, corpus=self.settings.corpus,
            model=self.settings.model, rng=random.Random(f"{self.settings.seed}/{query.id}/{index}"),
        )  # fmt: skip

    def _config(self, env: AgentEnv, temperature: float, recorder: Recorder) -> RunConfig:
        model: str | Model | None = self.settings.model
        if self.offline:
            model = RecordedModel(OfflineModel(env.rng), recorder)
        return RunConfig(
            model=model, model_provider=RecordedProvider(self.provider, recorder),
            model_settings=settings_for(temperature), trace_include_sensitive_data=True, workflow_name=self.loaded.name,
        )  # fmt: skip


@dataclass(frozen=True)
class _Finisher:
    """Turns an outcome into a stored record. Synchronous, so that no cancellation can come between."""

    engine: Engine
    query: Query
    index: int
    role: Role
    temperature: float
    recorder: Recorder
    trace_id: str
    started: datetime

    def __call__(self, outcome: Outcome) -> Rollout:
        engine, spans = self.engine, span_log().take(self.trace_id)
        costs = account(spans, self.recorder, engine.store.put_blob, self.temperature)
        lifted, answer = split_think(outcome.answer)
        rollout = Rollout(
            run=engine.run_id, query=self.query.id, index=self.index, role=self.role,
            requested=Sampling(temperature=self.temperature, model=engine.settings.model),
            effective=costs.effective, calls=costs.calls, status="failed" if outcome.failure else "ok",
            failure=outcome.failure, usage=costs.usage, price_usd=self._price(costs),
            trajectory=Trajectory(
                query=self.query.text, path=steps_of(spans, finished=outcome.failure is None),
                answer=answer if lifted else outcome.answer, answer_type="json" if outcome.is_json else "text",
            ),
            fingerprint=self.recorder.fingerprint, started_at=self.started,
            duration_s=(engine.clock() - self.started).total_seconds(),
            tool_names=tuple(t["name"] for t in self._request("tools", [])),
            instructions=self._request("instructions", None),
        )  # fmt: skip
        engine.store.add_rollout(rollout)
        return rollout

    def _price(self, costs: Accounts) -> float | None:
        """Return what the model calls cost; unknown where the agent brought models of its own."""
        if self.engine.offline:
            return 0.0
        return costs.price_usd(self.engine.endpoint.base_url) if self.engine.endpoint else None

    def _request(self, part: str, otherwise: Any) -> Any:
        return self.recorder.calls[0].request[part] if self.recorder.calls else otherwise


def _ended(result: RunResult) -> Outcome:
    if result.interruptions:
        waiting = ", ".join(str(getattr(i, "name", None) or "a tool") for i in result.interruptions)
        return Outcome(
            failure=Failure(kind="approval", type="ToolApprovalItem", message=f"waits for approval of {waiting}")
        )
    final: Any = result.final_output
    if final is None or isinstance(final, str):
        return Outcome(answer=final or "")
    return Outcome(answer=TypeAdapter(Any).dump_json(final).decode(), is_json=True)
