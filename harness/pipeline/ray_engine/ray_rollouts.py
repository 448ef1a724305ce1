"""Making rollouts on Ray, seen from the process that judges and writes.

That process gives out the places and the money, so that a worker that is lost takes neither along.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from ray import cloudpickle
from ray.exceptions import RayError, RayTaskError

from harness.core.addresses import without_credentials
from harness.core.errors import UsageError
from harness.core.progress import Progress
from harness.core.wording import option
from harness.endpoints.credentials import AGENT_URL
from harness.endpoints.gate import GateLesson, Gates
from harness.endpoints.refused_settings import SettingLesson
from harness.pipeline.ray_engine.cluster import (
    end_actors,
    folder_shipped,
    ray_at,
    ray_is_at_hand,
    start_traffic,
    start_workers,
)
from harness.pipeline.ray_engine.orders import AgentPlace, MadeRollout, RolloutOrder, WorkerJob
from harness.pipeline.ray_engine.traffic import FirstReply, News, RetriedCall, TrafficLine, WaitingCalls, WorkerNote
from harness.pipeline.resolve import AgentSpec
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.run_info import package_versions
from harness.rollouts.attempt import RunContext
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.maker import BegunRollout, FirstCall, RolloutMaker, record_lost

_CLOUDPICKLE: Any = cloudpickle
_PARTING_S = 10.0
"""A rollout that is stopped has so long to come back with what it has done."""


@asynccontextmanager
async def open_rollouts_on_ray(
    spec: AgentSpec, run_context: RunContext, run_env: RunEnvironment
) -> AsyncGenerator[RolloutMaker]:
    """Give what makes rollouts on Ray; its workers are ended at the end. Raises UsageError."""
    address = run_context.settings.ray_address or run_env.environ.get("RAY_ADDRESS") or None
    job, shipped = worker_job(spec, run_context, remote=bool(address) and not ray_is_at_hand())
    with ray_at(address, shipped):
        name = f"harness-{run_context.run_id}"
        traffic = start_traffic(name)
        workers = start_workers(job, name)
        line = TrafficLine(traffic, "driver", everything=True)
        relay = _Relay(run_context.progress, run_env.gates)
        listening = asyncio.create_task(line.listen(relay.hear))
        run_env.gates.pass_on(line.post)
        try:
            first: MadeRollout = await workers[0].ready.remote()  # the first call goes alone for a time, and not before
            if first.refusal:
                raise first.error
            yield _RolloutsOnRay(run_context, [_Worker(actor) for actor in workers], relay)
        finally:
            run_env.gates.pass_on(lambda _: None)
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
            end_actors([*workers, traffic])


def worker_job(spec: AgentSpec, run_context: RunContext, *, remote: bool) -> tuple[WorkerJob, Mapping[str, Any]]:
    """Return what workers are told of a run, and Ray's runtime environment; `remote` where machines share no folder.

    Raises UsageError for several servers, an address with a password, and an agent that cannot be sent.
    """
    place, shipped = _agent_place(spec.loaded, remote=remote)
    endpoint = spec.endpoint
    settings = replace(
        run_context.settings,
        engine="local",
        ray_address=None,
        offline=spec.offline,
        base_url=_address(spec),
        api=endpoint.api if endpoint else run_context.settings.api,
        judge_base_url=None,
        instructions=None,
    )
    job = WorkerJob(
        run_context.run_id,
        settings,
        place,
        instructions=spec.loaded.instructions,
        at_endpoint=endpoint is not None,
        has_key=bool(endpoint and endpoint.has_key),
        version=package_versions()["arena-harness"],
    )
    return job, shipped


def _address(spec: AgentSpec) -> str | None:
    if spec.endpoint is None:
        return None
    if spec.servers:
        raise UsageError(
            f"{option('base_url')} names {len(spec.servers)} servers, and {option('engine', 'ray')} takes one: put a "
            f"router before them, or give each machine its own by {option('shard')}"
        )
    url = without_credentials(spec.endpoint.url)
    if url != spec.endpoint.url and spec.endpoint.named_by != AGENT_URL:
        raise UsageError(
            f"{option('base_url', url)}: the address holds a password, which is never sent to Ray workers: set "
            f"{AGENT_URL} here and in the workers' environment"
        )
    return url


def _agent_place(loaded: LoadedAgent, *, remote: bool) -> tuple[AgentPlace, Mapping[str, Any]]:
    if loaded.word is None:
        _check_sendable(loaded)
        return AgentPlace(loaded.name, itself=loaded), {}
    place, colon, attr = loaded.word.rpartition(":") if ":" in loaded.word[2:] else (loaded.word, "", "")
    is_file = place.endswith(".py") or (not colon and loaded.file and not loaded.packaged)
    if not (is_file and loaded.file):
        return AgentPlace(loaded.name, loaded.word, None if remote else loaded.here), {}
    if remote:
        return AgentPlace(loaded.name, f"{loaded.file.name}{colon}{attr}"), folder_shipped(loaded.file)
    return AgentPlace(loaded.name, f"{loaded.file}{colon}{attr}", loaded.here or Path.cwd()), {}


def _check_sendable(loaded: LoadedAgent) -> None:
    try:
        _CLOUDPICKLE.dumps(loaded)
    except Exception as exc:  # noqa: BLE001 - objects raise what they like when they are pickled
        raise UsageError(
            f"agent {loaded.name!r} cannot be sent to Ray workers ({type(exc).__name__}: {exc}); name its file, as in "
            "path.py:attr"
        ) from None


@dataclass
class _Worker:
    actor: Any
    busy: int = 0


@dataclass
class _Relay:
    """Hears what the workers tell, and lets the run's watcher and gates know."""

    progress: Progress
    gates: Gates
    leading: dict[int, FirstCall] = field(default_factory=dict[int, FirstCall])
    refused: tuple[SettingLesson, ...] = ()
    """What models have refused in any worker: a rollout that begins later does not ask again."""
    _noted: set[str] = field(default_factory=set[str])
    _waiting: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    def hear(self, source: str, news: News) -> None:
        match news:
            case GateLesson():
                self.gates.learn(news)
            case SettingLesson():
                self.refused = tuple(dict.fromkeys((*self.refused, news)))
            case WorkerNote(text):
                self._note(text)
            case RetriedCall():
                self.progress.retried()
            case WaitingCalls(place, calls):
                self._wait(source, place, calls)
            case FirstReply(order):
                if first_call := self.leading.get(order):
                    first_call.reply()

    def _note(self, text: str) -> None:
        """Say once what each worker finds out by itself."""
        if text not in self._noted:
            self._noted.add(text)
            self.progress.note(text)

    def _wait(self, source: str, place: str, calls: int) -> None:
        self._waiting[source, place] = calls
        everywhere = sum(n for (_, of_place), n in self._waiting.items() if of_place == place)
        self.progress.waiting(f"{place} (Ray workers)", everywhere)


@dataclass(frozen=True)
class _RolloutsOnRay:
    run_context: RunContext
    workers: list[_Worker]
    relay: _Relay
    numbers: Iterator[int] = field(default_factory=count)

    async def make(self, begun: BegunRollout) -> None:
        worker = min(self.workers, key=lambda one: one.busy)
        order = RolloutOrder(next(self.numbers), begun.query, begun.index, begun.leads, self.relay.refused)
        if begun.leads:
            self.relay.leading[order.number] = begun.first_call
        worker.busy += 1
        try:
            made = await self._made(worker, order, begun)
        except RayTaskError:  # a fault of the harness's own
            raise
        except RayError as exc:
            lost = f"its Ray worker was lost, again and again ({type(exc).__name__})"
            begun.done[begun.index] = record_lost(self.run_context, begun.query, begun.index, lost)
        else:
            self._keep(begun, made)
        finally:
            worker.busy -= 1
        if begun.leads:
            begun.first_call.over()

    async def _made(self, worker: _Worker, order: RolloutOrder, begun: BegunRollout) -> MadeRollout:
        reply = worker.actor.make.remote(order)
        try:
            return await reply
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_PARTING_S, shield=True), suppress(RayError):
                await worker.actor.stop.remote(order.number, late=begun.is_late())
                self._keep(begun, await reply)
            raise

    def _keep(self, begun: BegunRollout, made: MadeRollout) -> None:
        """Write what came back: the texts first, because the record names them. Raises what ends the run instead."""
        if made.rollout is None:
            raise made.error
        store = self.run_context.store
        for text in (made.texts or {}).values():
            store.put_blob(text, as_is=True)
        begun.done[begun.index] = rollout = store.add_rollout(made.rollout)
        failed = rollout.status == "failed"
        self.run_context.progress.kept("rollouts", rollout.usage, rollout.price_usd, failed=failed)
