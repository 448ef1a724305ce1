"""Ray itself: where it runs, and the actors that are started there."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import anyio
import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from harness.archive.memory_store import MemoryStore
from harness.core.addresses import without_credentials
from harness.core.errors import HarnessError, UsageError, quoted
from harness.core.progress import Silent
from harness.core.records import Rollout
from harness.core.wording import option
from harness.endpoints.address import AGENT_KEY
from harness.endpoints.credentials import AGENT_URL, Credentials
from harness.endpoints.gate import GateLesson
from harness.endpoints.refused_settings import RefusedSettings, SettingLesson
from harness.pipeline.ray_engine.orders import MadeRollout, RolloutOrder, WorkerJob
from harness.pipeline.ray_engine.traffic import (
    FirstReply,
    News,
    RetriedCall,
    Traffic,
    TrafficLine,
    WaitingCalls,
    WorkerNote,
)
from harness.pipeline.resolve import AgentSpec, redactor_of, resolve_agent
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.run_info import package_versions
from harness.pipeline.stages import open_engine
from harness.rollouts.attempt import RunContext
from harness.rollouts.maker import BegunRollout, FirstCall, RolloutsHere

_RAY: Any = ray
"""Its own types are partly unknown."""


class _PassedOn(Silent):
    """Passes on to the driver what only the worker sees. The driver counts rollouts by itself."""

    def __init__(self, line: TrafficLine) -> None:
        self._line = line

    def retried(self) -> None:
        self._line.post(RetriedCall())

    def waiting(self, place: str, calls: int) -> None:
        self._line.post(WaitingCalls(place, calls))

    def note(self, text: str) -> None:
        self._line.post(WorkerNote(text))


class _AnsweredFirst(FirstCall):
    """Tells the driver of the first reply to the rollout that the others wait for."""

    def __init__(self, line: TrafficLine, order: RolloutOrder) -> None:
        super().__init__()
        self._line, self._order = line, order

    def reply(self) -> None:
        if self._order.leads and not self.answered:
            self._line.post(FirstReply(self._order.number))
        super().reply()


@dataclass
class _UnderWay:
    scope: anyio.CancelScope
    late: bool = False


class RolloutWorker:
    """The actor. Its agent is loaded, and its connections are opened, when the first order comes."""

    def __init__(self, job: WorkerJob, traffic: str, name: str) -> None:
        """Belong to a run; `traffic` is the name of the actor that passes news on, `name` the worker's own there."""
        self._job, self._line = job, TrafficLine(_RAY.get_actor(traffic), name)
        self._under_way: dict[int, _UnderWay] = {}
        self._opened: asyncio.Future[RunContext] | None = None
        if _RAY.get_runtime_context().was_current_actor_reconstructed:
            self._line.post(
                WorkerNote("a Ray worker was lost and is started again: the rollouts that it was making begin anew")
            )

    async def ready(self) -> MadeRollout:
        """Load the agent and open its connections; return why that fails, if it does."""
        try:
            await self._run_context()
        except HarnessError as exc:
            return _refusal(exc)
        return MadeRollout()

    async def make(self, order: RolloutOrder) -> MadeRollout:
        """Run the agent once; return its record with the texts that the record names, also when it is stopped."""
        try:
            run_context = await self._run_context()
            for lesson in order.refused:
                run_context.models.state.refused.note(lesson)
            return await self._made(order, replace(run_context, store=MemoryStore(run_context.store.redact)))
        except HarnessError as exc:
            return _refusal(exc)

    async def stop(self, number: int, *, late: bool) -> None:
        """End the rollout of an order now; `late` says that a deadline is why."""
        if under_way := self._under_way.get(number):
            under_way.late = late
            under_way.scope.cancel()

    async def _made(self, order: RolloutOrder, run_context: RunContext) -> MadeRollout:
        done: dict[int, Rollout] = {}
        self._under_way[order.number] = under_way = _UnderWay(anyio.CancelScope())
        first_call = _AnsweredFirst(self._line, order)
        begun = BegunRollout(order.query, order.index, first_call, done, lambda: under_way.late, leads=order.leads)
        try:
            with under_way.scope:
                await RolloutsHere(run_context).make(begun)
        finally:
            del self._under_way[order.number]
        store = run_context.store
        assert isinstance(store, MemoryStore), "each rollout has a store of its own"  # noqa: S101 - for the type checker
        return MadeRollout(done.get(order.index), store.blobs)

    async def _run_context(self) -> RunContext:
        """Return what the worker's rollouts share, opened once. Raises UsageError each time where that fails."""
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(self._opened))
        return await asyncio.shield(self._opened)

    async def _serve(self, opened: asyncio.Future[RunContext]) -> None:
        """Hold agent and connections open for as long as the process lives."""
        try:
            spec, run_env = await self._resolved(), self._surroundings
            run_env.gates.pass_on(self._line.post)
            settings = self._job.settings
            store = MemoryStore(redactor_of(spec.loaded, settings, run_env.environ))
            async with open_engine(spec, settings, store, run_env, run_id=self._job.run_id) as engine:
                refused = engine.run_context.models.state.refused
                refused.share = self._line.post
                opened.set_result(engine.run_context)
                await self._line.listen(partial(self._learn, refused))
        except Exception as exc:  # noqa: BLE001 - each order that waits for it gets it
            if not opened.done():
                opened.set_exception(exc)

    def _learn(self, refused: RefusedSettings, _: str, news: News) -> None:
        if isinstance(news, GateLesson):
            self._surroundings.gates.learn(news)
        elif isinstance(news, SettingLesson):
            refused.note(news)

    @cached_property
    def _surroundings(self) -> RunEnvironment:
        return RunEnvironment(self._environ(), progress=_PassedOn(self._line))

    async def _resolved(self) -> AgentSpec:
        """Return the agent, and its endpoint with the key of this process's environment. Raises UsageError."""
        job, environ = self._job, self._surroundings.environ
        if (version := package_versions()["arena-harness"]) != job.version:
            raise UsageError(
                f"a Ray worker has arena-harness {version}, and this is {job.version}: install the same one"
            )
        if job.has_key and not environ.get(AGENT_KEY):
            raise UsageError(
                f"{AGENT_KEY} is not set in the environment of the Ray worker on {_RAY.util.get_node_ip_address()}; "
                "keys are never sent to workers: set it where that machine's Ray is started"
            )
        loaded = replace(job.agent.load(), instructions=job.instructions)
        credentials = Credentials.naming(environ, job.settings.base_url)
        return await resolve_agent(loaded, job.settings, credentials, with_tools=False)

    def _environ(self) -> Mapping[str, str]:
        """Return this process's environment, with the run's own address in it or none."""
        environ = dict(os.environ)
        url = environ.pop(AGENT_URL, None)
        if not self._job.at_endpoint:
            environ.pop(AGENT_KEY, None)
        elif url and without_credentials(url) == self._job.settings.base_url:
            environ[AGENT_URL] = url  # it may hold a password
        return environ


def _refusal(error: HarnessError) -> MadeRollout:
    return MadeRollout(refusal=str(error), refused_by=type(error).__name__)


"""Its own types are partly unknown."""
_OBJECT_STORE = 256 * 2**20
"""Bytes for what is between worker and driver: a rollout's texts, for the moment until the driver has them."""
_TRIES = 3
"""So often a rollout is begun again whose worker was lost."""
_ANSWERS_WITHIN_S = 10.0
_ADVICE = " (a cluster that wants Ray's token takes RAY_AUTH_MODE=token and the token, as for every program of Ray's)"
_SPARE_CALLS = 16
"""Beside the rollouts, a worker is asked to stop some of them."""


@contextmanager
def ray_at(address: str | None, shipped: Mapping[str, Any]) -> Generator[None]:
    """Connect to the cluster at `address`, or start Ray on this machine; what was started here is ended.

    `shipped` is Ray's runtime environment for the workers. Where this process has Ray at hand already, that is used and
    left as it is. Raises UsageError.
    """
    if ray_is_at_hand():
        yield
        return
    advice = ""
    try:
        if address:
            _check_address(address)
            advice = _ADVICE  # something answers there, and Ray does not say that the token is what keeps it out
        with _signals_kept():
            _connect(address, shipped)
    except (OSError, ValueError, RuntimeError, RayError) as exc:
        where = option("ray_address", address) if address else "Ray on this machine"
        raise UsageError(f"{where} gives no cluster: {quoted(str(exc))}{advice}") from None
    try:
        yield
    finally:
        _RAY.shutdown()


def ray_is_at_hand() -> bool:
    """Return whether this process has called `ray.init`."""
    return _RAY.is_initialized()


def _check_address(address: str) -> None:
    """Raise OSError where nothing answers: Ray itself would try for minutes. Raises ValueError for a Ray Client's."""
    if address.startswith("ray://"):
        raise ValueError("the harness does not run over Ray Client: start it on a machine of the cluster")
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _ANSWERS_WITHIN_S).close()


def _connect(address: str | None, shipped: Mapping[str, Any]) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address:
        _RAY.init(address, runtime_env=dict(shipped), **quiet)
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell Ray's makers of each start
    _RAY.init("local", include_dashboard=False, object_store_memory=_OBJECT_STORE, **quiet)


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


def start_traffic(name: str) -> Any:
    """Start the actor that passes news on, by name, on this machine: it lasts as long as the driver."""
    here = NodeAffinitySchedulingStrategy(_RAY.get_runtime_context().get_node_id(), soft=True)
    actor: Any = _RAY.remote(Traffic)
    options = {"name": name, "num_cpus": 0, "max_restarts": -1}
    return actor.options(**options, max_concurrency=10_000, scheduling_strategy=here).remote()


def start_workers(job: WorkerJob, traffic: str) -> list[Any]:
    """Start a worker for each CPU of the cluster, but no more than there are rollouts at a time.

    `traffic` is the name of the actor that passes news on.
    """
    concurrency = job.settings.concurrency
    count = max(1, min(int(_RAY.cluster_resources().get("CPU", 1)), concurrency))
    actor: Any = _RAY.remote(RolloutWorker)
    options = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": _TRIES}
    started = actor.options(**options, max_concurrency=concurrency + _SPARE_CALLS)
    return [started.remote(job, traffic, f"worker {number}") for number in range(count)]


def end_actors(actors: list[Any]) -> None:
    """End actors, in whatever they are doing."""
    for actor in actors:
        _RAY.kill(actor)


def folder_shipped(file: Path | None) -> dict[str, Any]:
    """Return the runtime environment that brings the folder of an agent's file to the workers' machines."""
    if file is None:
        return {}
    return {"working_dir": str(file.parent), "excludes": ["runs/", ".git/", ".venv/", ".env"]}
