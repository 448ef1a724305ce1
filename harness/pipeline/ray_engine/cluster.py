"""Ray itself: where it runs, and the actors that are started there."""

import os
import signal
import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from harness.core.errors import UsageError, quoted
from harness.core.wording import option
from harness.pipeline.ray_engine.orders import WorkerJob
from harness.pipeline.ray_engine.traffic import Traffic
from harness.pipeline.ray_engine.worker import RolloutWorker

_RAY: Any = ray
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
