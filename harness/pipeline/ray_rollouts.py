"""Rollouts on a Ray cluster, seen from the process that judges and writes. Imported only for `--engine ray`.

That process gives out the places and the money, so that a worker that is lost takes neither along.
"""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import ray
from ray import cloudpickle
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from harness.core.errors import UsageError, option, quoted
from harness.core.records import Failure
from harness.core.settings import Settings
from harness.core.unicode import without_credentials
from harness.endpoints.credentials import AGENT_URL
from harness.pipeline import ray_worker
from harness.pipeline.resolve import AgentSpec
from harness.pipeline.run_environment import RunEnvironment, package_versions
from harness.pipeline.workers import AgentPlace, MadeRollout, Relay
from harness.rollouts.attempt import RunContext
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.maker import BegunRollout, RolloutMaker, record_lost

_RAY: Any = ray
"""Its own types are partly unknown."""
_CLOUDPICKLE: Any = cloudpickle
_PARTING_S = 10.0
"""A rollout that is stopped has so long to come back with what it has done."""
_OBJECT_STORE = 256 * 2**20
"""Bytes for what is between worker and driver: a rollout's texts, for the moment until the driver has them."""
_TRIES = 3
"""So often a rollout is begun again whose worker was lost."""
_ANSWERS_WITHIN_S = 10.0
_ADVICE = " (a cluster that wants Ray's token takes RAY_AUTH_MODE=token and the token, as for every program of Ray's)"
_SPARE_CALLS = 16
"""Beside the rollouts, a worker is asked to stop some of them."""


@asynccontextmanager
async def open_rollouts_on_ray(
    spec: AgentSpec, run_context: RunContext, run_env: RunEnvironment
) -> AsyncGenerator[RolloutMaker]:
    """Give what makes rollouts on Ray; its workers are ended at the end. Raises UsageError."""
    address = run_context.settings.ray_address or run_env.environ.get("RAY_ADDRESS") or None
    job, shipped = worker_job(
        spec, run_context.settings, run_context.run_id, remote=bool(address) and not _RAY.is_initialized()
    )
    with _ray_at(address, shipped):
        name = f"harness-{run_context.run_id}"
        here = NodeAffinitySchedulingStrategy(_RAY.get_runtime_context().get_node_id(), soft=True)
        options = {"name": name, "num_cpus": 0, "max_restarts": -1, "scheduling_strategy": here}
        traffic = _RAY.remote(ray_worker.Traffic).options(**options, max_concurrency=10_000).remote()
        concurrency = job.settings.concurrency
        starting = _RAY.remote(ray_worker.RolloutWorker).options(
            num_cpus=1, max_restarts=-1, max_task_retries=_TRIES, max_concurrency=concurrency + _SPARE_CALLS
        )
        cpus = int(_RAY.cluster_resources().get("CPU", 1))
        workers = [starting.remote(job, name, f"worker {n}") for n in range(max(1, min(cpus, concurrency)))]
        line = ray_worker.TrafficLine(traffic, "driver", everything=True)
        relay = Relay(run_context.progress, run_env.gates)
        listening = asyncio.create_task(line.listen(relay.receive))
        run_env.gates.share = line.post
        try:
            first: MadeRollout = await workers[0].ready.remote()  # the first call goes alone for a time, and not before
            if first.refusal:
                raise first.error
            yield _RolloutsOnRay(run_context, [_Worker(actor) for actor in workers], relay)
        finally:
            run_env.gates.share = lambda _: None
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
            for actor in (*workers, traffic):  # in whatever they are doing
                _RAY.kill(actor)


def worker_job(
    spec: AgentSpec, settings: Settings, run_id: str, *, remote: bool
) -> tuple[ray_worker.WorkerJob, Mapping[str, Any]]:
    """Return a run's job and Ray's runtime environment; `remote` where machines share no folder. Raises UsageError."""
    place, shipped = _agent_place(spec.loaded, remote=remote)
    endpoint, url = spec.endpoint, without_credentials(spec.endpoint.url) if spec.endpoint else None
    if spec.servers:
        raise UsageError(
            f"{option('base_url')} names {len(spec.servers)} servers, and {option('engine', 'ray')} takes one: put a "
            f"router before them, or give each machine its own by {option('shard')}"
        )
    if endpoint and url != endpoint.url and endpoint.named_by != AGENT_URL:
        raise UsageError(
            f"{option('base_url', url)}: the address holds a password, which is never sent to Ray workers: set "
            f"{AGENT_URL} here and in the workers' environment"
        )
    settings = replace(
        settings,
        engine="local",
        ray_address=None,
        offline=spec.offline,
        base_url=url,
        api=endpoint.api if endpoint else settings.api,
        judge_base_url=None,
        instructions=None,
    )
    job = ray_worker.WorkerJob(
        run_id,
        settings,
        place,
        instructions=spec.loaded.instructions,
        at_endpoint=endpoint is not None,
        has_key=bool(endpoint and endpoint.has_key),
        named=bool(endpoint and endpoint.named),
        version=package_versions()["arena-harness"],
    )
    return job, shipped


def _agent_place(loaded: LoadedAgent, *, remote: bool) -> tuple[AgentPlace, Mapping[str, Any]]:
    if loaded.word is None:
        try:
            _CLOUDPICKLE.dumps(loaded)
        except Exception as exc:  # noqa: BLE001 - objects raise what they like when they are pickled
            raise UsageError(
                f"agent {loaded.name!r} cannot be sent to Ray workers ({type(exc).__name__}: {exc}); name its file, "
                "as in path.py:attr"
            ) from None
        return AgentPlace(loaded.name, itself=loaded), {}
    place, colon, attr = loaded.word.rpartition(":") if ":" in loaded.word[2:] else (loaded.word, "", "")
    is_file = place.endswith(".py") or (not colon and loaded.file and not loaded.packaged)
    if not (is_file and loaded.file):
        return AgentPlace(loaded.name, loaded.word, None if remote else loaded.here), {}
    if remote:
        shipped = {"working_dir": str(loaded.file.parent), "excludes": ["runs/", ".git/", ".venv/", ".env"]}
        return AgentPlace(loaded.name, f"{loaded.file.name}{colon}{attr}"), shipped
    return AgentPlace(loaded.name, f"{loaded.file}{colon}{attr}", loaded.here or Path.cwd()), {}


@dataclass
class _Worker:
    actor: Any
    busy: int = 0


@dataclass(frozen=True)
class _RolloutsOnRay:
    run_context: RunContext
    workers: list[_Worker]
    relay: Relay
    numbers: Iterator[int] = field(default_factory=count)

    async def make(self, begun: BegunRollout) -> None:
        worker = min(self.workers, key=lambda one: one.busy)
        order = self.relay.order(next(self.numbers), begun)
        worker.busy += 1
        try:
            reply = worker.actor.make.remote(order)
            try:
                made = await reply
            except anyio.get_cancelled_exc_class():
                with anyio.move_on_after(_PARTING_S, shield=True), suppress(RayError):
                    await worker.actor.stop.remote(order.number, late=begun.is_late())
                    (await reply).keep(self.run_context, begun)
                raise
            made.keep(self.run_context, begun)
        except RayTaskError:  # a fault of the harness's own
            raise
        except RayError as exc:
            lost = f"its Ray worker was lost, again and again ({type(exc).__name__})"
            failure = Failure(kind="internal", type="WorkerLost", message=lost)
            begun.done[begun.index] = record_lost(self.run_context, begun.query, begun.index, failure)
        finally:
            worker.busy -= 1
        if begun.leads:
            begun.first_call.over()


@contextmanager
def _ray_at(address: str | None, shipped: Mapping[str, Any]) -> Generator[None]:
    """Connect to the cluster at `address`, or start Ray here until the end; what runs already is used and left."""
    if _RAY.is_initialized():
        yield
        return
    advice, quiet = "", {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address:
            _check_address(address)
            advice = _ADVICE  # something answers there, and Ray does not say that the token is what keeps it out
        with _signals_kept():
            if address:
                _RAY.init(address, runtime_env=dict(shipped), **quiet)
            else:
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell Ray's makers of each start
                _RAY.init("local", include_dashboard=False, object_store_memory=_OBJECT_STORE, **quiet)
    except (OSError, ValueError, RuntimeError, RayError) as exc:
        where = option("ray_address", address) if address else "Ray on this machine"
        raise UsageError(f"{where} gives no cluster: {quoted(str(exc))}{advice}") from None
    try:
        yield
    finally:
        _RAY.shutdown()


def _check_address(address: str) -> None:
    """Raise OSError where nothing answers: Ray itself would try for minutes. Raises ValueError for a Ray Client's."""
    if address.startswith("ray://"):
        raise ValueError("the harness does not run over Ray Client: start it on a machine of the cluster")
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _ANSWERS_WITHIN_S).close()


@contextmanager
def _signals_kept() -> Generator[None]:
    """Keep what this process does when it is asked to end: Ray would have it print a stack trace and abort."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if handler is not None:  # else it is none of Python's
                signal.signal(number, handler)
