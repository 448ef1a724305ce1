"""Rollouts on a Ray cluster, seen from the process that judges and writes. Imported only for `--engine ray`.

That process gives out the places and the money, so that a worker that is lost takes neither along.
"""

import asyncio
import logging
import os
import re
import shutil
import signal
import socket
import tempfile
import threading
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import ray
from ray import cloudpickle
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from harness.core.errors import UsageError, counted, on_a_line, option, quoted
from harness.core.records import Failure
from harness.core.settings import Settings
from harness.core.unicode import without_credentials
from harness.endpoints.credentials import AGENT_URL
from harness.pipeline import ray_worker
from harness.pipeline.resolve import AgentSpec
from harness.pipeline.run_environment import RunEnvironment, package_versions
from harness.pipeline.workers import AgentPlace, MadeRollout, Relay
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.maker import BegunRollout, RolloutMaker, record_lost
from harness.rollouts.run_context import RunContext

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
    """Give what makes rollouts on Ray; its workers are ended at the end.

    Raises UsageError where there is no Ray, or no worker comes up, and for what cannot be sent to workers.
    """
    address = run_context.settings.ray_address or run_env.environ.get("RAY_ADDRESS") or None
    remote, ship = bool(address) and not _RAY.is_initialized(), run_context.settings.ship
    job, file = worker_job(spec, run_context.settings, run_context.run_id, remote=remote)
    if ship and file is None:
        why = f"an agent's file that goes to another machine ({option('ray_address')})"
        raise UsageError(f"{option('ship', ship[0])} does nothing without {why}")
    with ExitStack() as opened:
        copy, shipped = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="harness-"))), dict[str, Any]()
        if file:
            shipped |= await anyio.to_thread.run_sync(shipped_env, file, ship, copy, run_env.progress.note)
        opened.enter_context(_ray_at(address, shipped))
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
        relay = Relay(run_context.progress, run_env.gates, "Ray workers")
        listening = asyncio.create_task(line.listen(relay.receive))
        run_env.gates.share = line.post
        try:
            try:
                first: MadeRollout = await workers[0].ready.remote()  # the first call goes alone for a time
            except RayError as exc:
                raise UsageError(f"{option('engine', 'ray')}: no worker starts: {quoted(str(exc))}") from None
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
) -> tuple[ray_worker.WorkerJob, Path | None]:
    """Return a run's job; `remote` where machines share no folder: then the agent's file, too, if it is to be sent.

    Raises UsageError.
    """
    place, file = _agent_place(spec.loaded, remote=remote)
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
        ship=(),
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
    return job, file


def _agent_place(loaded: LoadedAgent, *, remote: bool) -> tuple[AgentPlace, Path | None]:
    if loaded.word is None:
        try:
            _CLOUDPICKLE.dumps(loaded)
        except Exception as exc:  # noqa: BLE001 - objects raise what they like when they are pickled
            raise UsageError(
                f"agent {loaded.name!r} cannot be sent to Ray workers ({type(exc).__name__}: {exc}); name its file, "
                "as in path.py:attr"
            ) from None
        return AgentPlace(loaded.name, itself=loaded), None
    place, colon, attr = loaded.word.rpartition(":") if ":" in loaded.word[2:] else (loaded.word, "", "")
    is_file = place.endswith(".py") or (not colon and loaded.file and not loaded.packaged)
    if not (is_file and loaded.file):
        return AgentPlace(loaded.name, loaded.word, None if remote else loaded.here), None
    if remote:
        return AgentPlace(loaded.name, f"{loaded.file.name}{colon}{attr}"), loaded.file
    return AgentPlace(loaded.name, f"{loaded.file}{colon}{attr}", loaded.here or Path.cwd()), None


_STAYS: tuple[str, ...] = ("runs", ".git", ".venv", "venv", ".env", "__pycache__")
MOST_BYTES, MOST_FILES = 100_000_000, 10_000
"""What is sent to workers at most: Ray reads it all before the first rollout, and again where it arrives."""
_SHOWN_PARTS = 3
_OF_PATTERNS = re.compile(r"[\\*?\[\]! ]")
"""Characters that mean something in a pattern of git's."""
_QUIET = logging.getLogger(f"{__name__}.quiet")


def shipped_env(file: Path, ship: Sequence[str], copy: Path, note: Callable[[str], None]) -> Mapping[str, Any]:
    """Return Ray's runtime environment: the folder of an agent's file, or a `copy` of what the patterns of `ship` fit.

    `note` hears how much that is. Raises UsageError for too much, and for a pattern that fits nothing.
    """
    folder, stays = file.parent, list(_STAYS)
    sizes = _fitting(folder, ship) | {file: file.stat().st_size} if ship else dict(_files_below(folder, stays))
    have = _amount(sizes.values())
    if sum(sizes.values()) > MOST_BYTES or len(sizes) > MOST_FILES:
        parts = defaultdict[str, list[int]](list)
        for path, size in sizes.items():
            parts[path.relative_to(folder).parts[0]].append(size)
        shares = {name: sum(each) / MOST_BYTES + len(each) / MOST_FILES for name, each in parts.items()}
        names = sorted(shares, key=lambda name: -shares[name])[:_SHOWN_PARTS]
        largest = ", ".join(f"{on_a_line(name)} ({_amount(parts[name])})" for name in names)
        most = f"at most {MOST_BYTES / 1e6:,.0f} MB in {MOST_FILES:,} files go to Ray workers"
        raise UsageError(
            f"{on_a_line(folder)}, the folder of the agent's file, has {have}, and {most}; the largest parts: "
            f"{largest}; name what the agent needs with {option('ship', 'GLOB')}"
        )
    note(f"sending {have} of {on_a_line(folder)} to the Ray workers")
    if not ship:
        return {"working_dir": str(folder), "excludes": stays}
    for path in (path for path in sizes if path.name not in {".gitignore", ".rayignore"}):  # the user has chosen
        target = copy / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    return {"working_dir": str(copy)}


def _amount(sizes: Collection[int]) -> str:
    return f"{sum(sizes) / 1e6:,.1f} MB in {counted(len(sizes), 'file')}"


def _files_below(folder: Path, stays: list[str]) -> Iterator[tuple[Path, int]]:
    """Yield the files in a folder that Ray would send, with their sizes; `stays` hears of virtual environments."""
    open_: list[tuple[Path, list[Callable[[Path], bool]]]] = [(folder, [])]
    while open_:
        below, ignored = open_.pop()
        ignored = [*ignored, *_ignored_in(below)]
        with os.scandir(below) as entries:
            for path, is_folder in [(Path(entry.path), entry.is_dir(follow_symlinks=False)) for entry in entries]:
                if path.name in _STAYS or any(fits(path) for fits in ignored):
                    continue
                if not is_folder:
                    with suppress(OSError):  # a link that leads nowhere
                        yield path, path.stat().st_size
                elif (path / "pyvenv.cfg").is_file():
                    stays.append("/" + _OF_PATTERNS.sub(r"\\\g<0>", str(path.relative_to(folder))))
                else:
                    open_.append((path, ignored))


def _ignored_in(folder: Path) -> list[Callable[[Path], bool]]:
    """Return what Ray leaves out because of a .gitignore or a .rayignore there; nothing where Ray has changed."""
    with suppress(ImportError, AttributeError, TypeError, OSError, ValueError):
        packaging: Any = import_module("ray._private.runtime_env.packaging")
        return packaging.get_excludes_from_ignore_files(folder, include_gitignore=True, logger=_QUIET)
    return []


def _fitting(folder: Path, patterns: Sequence[str]) -> dict[Path, int]:
    """Return the files that patterns fit, and those in the folders that patterns fit, with their sizes."""
    sizes = dict[Path, int]()
    for pattern in patterns:
        try:
            parts = ((path, path.relative_to(folder).parts) for path in folder.glob(pattern) if path.exists())
            found = [path for path, names in parts if not {"..", *_STAYS} & {*names}]
        except (NotImplementedError, ValueError, IndexError):  # an absolute one, or an empty one
            found = []
        for path in found:
            sizes.update(_files_below(path, []) if path.is_dir() else [(path, path.stat().st_size)])
        if not found:
            raise UsageError(
                f"{option('ship', pattern)} fits nothing in {on_a_line(folder)}, the folder of the agent's file"
            )
    return sizes


@dataclass
class _Worker:
    actor: Any
    busy: int = 0


@dataclass(frozen=True)
class _RolloutsOnRay:
    run_context: RunContext
    workers: list[_Worker]
    relay: Relay

    async def make(self, begun: BegunRollout) -> None:
        worker = min(self.workers, key=lambda one: one.busy)
        order = self.relay.order(begun)
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
def _ray_at(address: str | None, shipped: dict[str, Any]) -> Generator[None]:
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
                _RAY.init(address, runtime_env=shipped, **quiet)
            else:
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell Ray's makers of each start
                _RAY.init("local", include_dashboard=False, object_store_memory=_OBJECT_STORE, **quiet)
    except Exception as exc:  # noqa: BLE001 - Ray raises exceptions of no class of its own, too
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
