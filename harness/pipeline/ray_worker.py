"""The Ray actors: the one that runs the agent, and the one that passes news on. No key is in any of it."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any

import anyio
import ray
from ray.exceptions import RayActorError

from harness.archive.store import MemoryStore
from harness.core.errors import HarnessError, UsageError
from harness.core.records import Rollout
from harness.core.settings import Settings
from harness.core.unicode import without_credentials
from harness.endpoints.address import AGENT_KEY
from harness.endpoints.credentials import AGENT_URL, CUSTOM_HEADERS, Credentials
from harness.endpoints.gate import GateLesson
from harness.endpoints.refused_settings import SettingLesson
from harness.pipeline import workers
from harness.pipeline.engines import open_engine
from harness.pipeline.resolve import AgentSpec, make_redactor, resolve_agent
from harness.pipeline.run_environment import RunEnvironment, package_versions
from harness.rollouts.maker import BegunRollout, RolloutsHere
from harness.rollouts.run_context import RunContext


@dataclass(frozen=True)
class WorkerJob:
    """What a worker needs to know of a run."""

    run_id: str
    settings: Settings
    """The run's, with the address that the agent's models are at; no password is in the address."""
    agent: workers.AgentPlace
    _: KW_ONLY
    instructions: str | None
    at_endpoint: bool
    """Whether the agent's models are at an endpoint, and not the agent's own or embedded."""
    has_key: bool
    """Whether the endpoint is asked with a key, which the worker's environment must hold then."""
    named: bool
    """Whether the driver's user named the endpoint, and no archive alone: no other gets what a worker's environment
    holds."""
    version: str

    def environ(self, of_worker: Mapping[str, str]) -> dict[str, str]:
        """Return a worker's environment without the secrets that the endpoint is not to have."""
        environ = dict(of_worker)
        url = environ.pop(AGENT_URL, None)
        if not (self.at_endpoint and self.named):
            environ.pop(AGENT_KEY, None)
            environ.pop(CUSTOM_HEADERS, None)
        elif url and without_credentials(url) == self.settings.base_url:
            environ[AGENT_URL] = url  # it may hold a password
        return environ

    def asked_with(self, environ: Mapping[str, str], node: str) -> tuple[Settings, Credentials]:
        """Return where a worker on `node` asks, and with what, by its `environ`. Raises UsageError for a missing key.

        No address in a worker's environment names a server: the driver alone does.
        """
        if self.has_key and not environ.get(AGENT_KEY):
            raise UsageError(
                f"{AGENT_KEY} is not set in the environment of the Ray worker on {node}; keys are never sent to "
                "workers: set it where that machine's Ray is started"
            )
        settings = replace(self.settings, base_url=environ.get(AGENT_URL) or self.settings.base_url)
        credentials = Credentials(environ)
        return settings, credentials.also_to([str(settings.base_url)]) if self.named else credentials


_LONGEST_WAIT_S = 20.0
_MOST_KEPT = 10_000
_BEFORE_ASKING_AGAIN_S = 1.0


class Traffic:
    """The actor: keeps the latest news, and hands them to whoever waits for them."""

    def __init__(self) -> None:
        self._news: deque[tuple[int, str, workers.News]] = deque(maxlen=_MOST_KEPT)
        self._count = 0
        self._changed = asyncio.Event()

    async def post(self, source: str, news: workers.News) -> None:
        """Keep the news of `source`, and wake who waits."""
        self._count += 1
        self._news.append((self._count, source, news))
        self._changed.set()
        self._changed = asyncio.Event()

    async def receive(
        self, listener: str, since: int, *, everything: bool
    ) -> tuple[int, list[tuple[str, workers.News]]]:
        """Return the latest number and other sources' news after `since`; waits for some, but not for ever."""
        try:
            async with asyncio.timeout(_LONGEST_WAIT_S):
                while not (
                    latest := [
                        (source, news)
                        for number, source, news in self._news
                        if number > since and source != listener and (everything or isinstance(news, workers.Lesson))
                    ]
                ):
                    await self._changed.wait()
        except TimeoutError:
            latest = []
        return self._count, latest


class TrafficLine:
    """A worker's or the driver's line to the actor."""

    def __init__(self, traffic: Any, name: str, *, everything: bool = False) -> None:
        """Speak under `name`; listen to `everything`, or to what concerns all workers."""
        self._traffic, self._name, self._everything = traffic, name, everything

    def post(self, news: workers.News) -> None:
        """Tell the others; any thread may, and nobody waits for it."""
        self._traffic.post.remote(self._name, news)

    async def listen(self, receive: Callable[[str, workers.News], None]) -> None:
        """Have `receive` called with the source and the news, until this is cancelled."""
        since = 0
        latest: list[tuple[str, workers.News]] = []
        while True:
            try:
                since, latest = await self._traffic.receive.remote(self._name, since, everything=self._everything)
            except RayActorError:  # it is started again elsewhere, and counts anew
                since, latest = 0, []
                await asyncio.sleep(_BEFORE_ASKING_AGAIN_S)
            for source, news in latest:
                receive(source, news)


_RAY: Any = ray


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
                workers.WorkerNote(
                    "a Ray worker was lost and is started again: the rollouts that it was making begin anew"
                )
            )

    async def ready(self) -> workers.MadeRollout:
        """Load the agent and open its connections; return why that fails, if it does."""
        try:
            await self._run_context()
        except HarnessError as exc:
            return workers.MadeRollout.refused(exc)
        return workers.MadeRollout()

    async def make(self, order: workers.RolloutOrder) -> workers.MadeRollout:
        """Run the agent once; return its record with the texts that the record names, also when it is stopped."""
        try:
            run_context = await self._run_context()
            for lesson in order.refused:
                run_context.models.state.refused.note(lesson)
            store, done = MemoryStore(run_context.store.redact), dict[int, Rollout]()
            self._under_way[order.number] = under_way = _UnderWay(anyio.CancelScope())
            first_call = workers.AnsweredFirst(self._line.post, order)
            begun = BegunRollout(order.query, order.index, first_call, done, lambda: under_way.late, leads=order.leads)
            try:
                with under_way.scope:
                    await RolloutsHere(replace(run_context, store=store)).make(begun)
            finally:
                del self._under_way[order.number]
            return workers.MadeRollout(done.get(order.index), store.blobs)
        except HarnessError as exc:
            return workers.MadeRollout.refused(exc)

    async def stop(self, number: int, *, late: bool) -> None:
        """End the rollout of an order now; `late` says that a deadline is why."""
        if under_way := self._under_way.get(number):
            under_way.late = late
            under_way.scope.cancel()

    async def _run_context(self) -> RunContext:
        """Return what the worker's rollouts share, opened once. Raises UsageError each time where that fails."""
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(self._opened))
        return await asyncio.shield(self._opened)

    async def _serve(self, opened: asyncio.Future[RunContext]) -> None:
        """Hold agent and connections open for as long as the process lives."""
        try:
            spec, run_env = await self._resolved(), self._run_env
            run_env.gates.share = self._line.post
            settings = self._job.settings
            store = MemoryStore(make_redactor(spec.loaded, settings, run_env.environ))
            async with open_engine(spec, settings, store, run_env, run_id=self._job.run_id) as engine:
                refused = engine.run_context.models.state.refused
                refused.share = self._line.post
                opened.set_result(engine.run_context)

                def learn(_: str, news: workers.News) -> None:
                    if isinstance(news, GateLesson):
                        run_env.gates.learn(news)
                    elif isinstance(news, SettingLesson):
                        refused.note(news)

                await self._line.listen(learn)
        except Exception as exc:  # noqa: BLE001 - each order that waits for it gets it
            if not opened.done():
                opened.set_exception(exc)

    @cached_property
    def _run_env(self) -> RunEnvironment:
        """This process's environment, with the run's own address in it or none."""
        environ = self._job.environ(os.environ)
        if self._job.at_endpoint and CUSTOM_HEADERS not in environ:
            os.environ.pop(CUSTOM_HEADERS, None)  # the openai client reads it there
        return RunEnvironment(environ, progress=workers.PassedOn(self._line.post))

    async def _resolved(self) -> AgentSpec:
        job = self._job
        if (version := package_versions()["arena-harness"]) != job.version:
            raise UsageError(
                f"a Ray worker has arena-harness {version}, and this is {job.version}: install the same one"
            )
        settings, credentials = job.asked_with(self._run_env.environ, _RAY.util.get_node_ip_address())
        loaded = replace(job.agent.load(), instructions=job.instructions)
        return await resolve_agent(loaded, settings, credentials, with_tools=False)
