"""Rollouts on Ray: the same run as in one process, whatever becomes of the workers."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from harness.archive.reader import RunReader
from harness.archive.typed_records import recorded_settings
from harness.core.errors import UsageError
from harness.core.progress import Silent
from harness.core.settings import as_written
from harness.core.settings_sources import load
from harness.formats.queries import query_from
from harness.pipeline.plan import prepare
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import resume_run, run_queries
from harness.pipeline.validation import replay_run
from harness.rollouts.loading import load_agent
from tests.fake_endpoint import FakeEndpoint, Reaction, Refuse, Say, Seen
from tests.nursery import Nursery
from tests.pipeline.elsewhere import Deterministic, by_seed, records
from tests.pipeline.strangers import machine

ray: Any = pytest.importorskip("ray")

pytestmark = pytest.mark.process

QUERIES = [query_from(f"Question {number}?") for number in range(6)]
N = 3
OF_WORKERS = {"OPENAI_API_KEY": "sk-of-the-workers", "OPENAI_CUSTOM_HEADERS": "X-Gateway-Key: of-the-workers"}
AGENT = """
import os
from pathlib import Path
from agents import Agent, function_tool

@function_tool
def search(query: str) -> str:
    return "found " + query

agent = Agent(name="mine", instructions="Answer.", model="m", tools=[search])

def before_rollout(query, context):
    (Path(__file__).parent / "pids" / str(os.getpid())).touch()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray with two workers, whose environment holds keys that the driver's does not."""
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    with pytest.MonkeyPatch.context() as environ:
        for name, value in OF_WORKERS.items():
            environ.setenv(name, value)
        ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=80 * 2**20, **quiet)
    try:
        yield
    finally:
        ray.shutdown()


def on_ray(test: Any) -> Any:
    """Let a test run at night, with the cluster."""
    return pytest.mark.nightly(pytest.mark.usefixtures("cluster")(test))


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    (tmp_path / "pids").mkdir()
    file = tmp_path / "mine.py"
    file.write_text(AGENT)
    return file


@pytest.fixture
def server() -> Iterator[FakeEndpoint]:
    with Deterministic(by_seed).serving() as served:
        yield served


def environ_of(tmp_path: Path) -> dict[str, str]:
    return machine(tmp_path)


async def made(
    agent: Path, server: FakeEndpoint, environ: dict[str, str], around: RunEnvironment | None = None, **more: Any
) -> Path:
    at = {"base_url": server.base_url, "n": N, "topology": "anchor", "runs_dir": agent.parent / "runs"}
    prepared = await prepare(load_agent(str(agent), agent.parent), load(at | more), environ)
    return (await run_queries(prepared, QUERIES, around or RunEnvironment(environ))).path


@on_ray
def test_a_run_on_ray_is_the_run_of_one_process_but_for_times_and_replays_identically(
    agent: Path, server: FakeEndpoint, tmp_path: Path
):
    environ = environ_of(tmp_path)

    async def both() -> tuple[Path, Path, list[Any]]:
        on_ray = await made(agent, server, environ, engine="ray")
        pids = {int(file.name) for file in (tmp_path / "pids").iterdir()}
        assert os.getpid() not in pids
        assert len(pids) == 2, "both workers made rollouts"
        here = await made(agent, server, environ)
        replayed = [r async for r in replay_run(on_ray, load_agent(str(agent), tmp_path), environ)]
        return on_ray, here, replayed

    on_ray, here, replayed = anyio.run(both)
    assert records(on_ray) == records(here)
    assert (on_ray / "run.json").read_text().count("ray") == (here / "run.json").read_text().count("ray")
    assert [outcome.divergence for outcome in replayed] == [None] * (len(QUERIES) * N)


@on_ray
def test_a_worker_that_is_killed_is_started_again_and_only_what_it_had_in_flight_is_bought_again(
    agent: Path, tmp_path: Path
):
    at_once, notes = 4, list[str]()

    class Notes(Silent):
        def note(self, text: str) -> None:
            notes.append(text)

    def kills_at_ten(seen: Seen) -> Reaction:
        if len(server.of_agent) == 10:
            victim = min(int(file.name) for file in (tmp_path / "pids").iterdir())
            os.kill(victim, signal.SIGKILL)
        return by_seed(seen)

    server = Deterministic(kills_at_ten)
    environ = environ_of(tmp_path)
    with server.serving():
        around = RunEnvironment(environ, progress=Notes())
        run = anyio.run(lambda: made(agent, server, environ, around, engine="ray", concurrency=at_once))
    with RunReader(run) as reader:
        places = [p for of_query in reader.index.rollouts.values() for p in of_query.values()]
        assert [p.status for p in places] == ["ok"] * (len(QUERIES) * N)
    finals = [f"{s.user}/{s.body['seed']}" for s in server.of_agent if s.tool_outputs]
    assert len(set(finals)) == len(QUERIES) * N
    assert len(finals) - len(set(finals)) <= at_once
    assert any("worker was lost" in note for note in notes)


@on_ray
def test_a_wait_that_the_server_asks_for_holds_for_all_workers_and_fails_nothing(agent: Path, tmp_path: Path):
    def busy(seen: Seen) -> Reaction:
        if 6 <= len(server.of_agent) < 26:
            return Refuse(429, "slow down", headers={"retry-after": "0.3"})
        return by_seed(seen)

    places = set[str]()

    class Waits(Silent):
        def waiting(self, place: str, calls: int) -> None:
            places.add(place)

    server, environ = Deterministic(busy), environ_of(tmp_path)
    around = RunEnvironment(environ, progress=Waits())
    with server.serving():
        run = anyio.run(lambda: made(agent, server, environ, around, engine="ray"))
    with RunReader(run) as reader:
        assert all(p.status == "ok" for of in reader.index.rollouts.values() for p in of.values())
    assert f"{server.host} (Ray workers)" in places


@on_ray
def test_what_a_model_refuses_is_asked_once_a_run_and_not_once_a_worker(agent: Path, tmp_path: Path):
    asked, notes = list[str](), list[str]()

    class Notes(Silent):
        def note(self, text: str) -> None:
            notes.append(text)

    def picky(seen: Seen) -> Reaction:
        if name := next((name for name in ("temperature", "seed") if name in seen.body), None):
            asked.append(name)
            return Refuse(400, f"{name} is not supported", param=name)
        return Say("An answer.") if seen.tool_outputs else Say(calls=(("search", {"query": "languages"}),))

    environ = environ_of(tmp_path)
    with Deterministic(picky).serving() as server:
        around = RunEnvironment(environ, progress=Notes())
        run = anyio.run(lambda: made(agent, server, environ, around, engine="ray"))
    assert len(list((tmp_path / "pids").iterdir())) == 2, "both workers made rollouts"
    assert sorted(asked) == ["seed", "temperature"]
    assert sum("refuses the setting" in note for note in notes) == 2
    with RunReader(run) as reader:
        assert all(p.status == "ok" for of in reader.index.rollouts.values() for p in of.values())


@on_ray
def test_workers_send_what_they_hold_to_a_server_that_the_driver_names_and_nothing_to_one_that_an_archive_names(
    agent: Path, server: FakeEndpoint, tmp_path: Path
):
    mine = environ_of(tmp_path)

    async def both() -> None:
        run = await made(agent, server, machine(tmp_path, "theirs"), engine="ray")
        assert {(seen.key, seen.gateway_key) for seen in server.of_agent} == {("sk-of-the-workers", "of-the-workers")}
        server.requests.clear()
        for folder in ("rollouts", "rankings"):
            shutil.rmtree(run / folder)
        await resume_run(run, load_agent(str(agent), agent.parent), RunEnvironment(mine), changes={"engine": "ray"})

    anyio.run(both)
    assert server.of_agent
    assert {(seen.key, seen.gateway_key) for seen in server.of_agent} == {("none", None)}


@on_ray
def test_a_driver_that_is_killed_leaves_a_run_that_resume_completes_without_ray_at_the_workers_key(
    agent: Path, tmp_path: Path, nursery: Nursery
):
    def slow(seen: Seen) -> Say:
        time.sleep(0.05)
        return by_seed(seen)

    (tmp_path / "q.txt").write_text("".join(f"{query.text}\n" for query in QUERIES))
    at_once = 2
    command = f"--agent {agent} --queries q.txt -n {N} --topology anchor --engine ray -q --concurrency {at_once}"
    with Deterministic(slow).serving() as server:
        keys = {"OPENAI_API_KEY": "sk-of-the-environment", "OPENAI_BASE_URL": server.base_url}
        driver = nursery.start(["run", *command.split()], tmp_path, keys)
        until = time.monotonic() + 90
        while len(rollouts_of(tmp_path)) < 4:
            assert time.monotonic() < until, "the driver makes no rollouts"
            time.sleep(0.05)
        os.kill(driver.pid, signal.SIGKILL)
        kept = rollouts_of(tmp_path)
        resumed = nursery.wait(nursery.start(["resume", "-q", "--json"], tmp_path, keys))
        assert resumed.code == 0, resumed.err
        assert kept < rollouts_of(tmp_path)
        finals = [f"{s.user}/{s.body['seed']}" for s in server.of_agent if s.tool_outputs]
        assert len(set(finals)) == len(QUERIES) * N
        assert len(finals) - len(set(finals)) <= at_once
        assert {seen.key for seen in server.requests} == {"sk-of-the-environment"}
        replayed = nursery.wait(nursery.start(["replay"], tmp_path, keys))
        assert replayed.code == 0, replayed.err
    assert not [text for text in (tmp_path / "runs").rglob("*") if text.is_file() and b"sk-of" in text.read_bytes()]


@on_ray
def test_a_driver_that_is_asked_to_end_says_what_is_kept(agent: Path, tmp_path: Path, nursery: Nursery):
    with Deterministic(by_seed).serving() as server:
        command = f"run Why? --agent {agent} -n {N} --topology none --engine ray -q --grace 0 --concurrency 1"
        keys = {"OPENAI_API_KEY": "sk-of-the-environment", "OPENAI_BASE_URL": server.base_url}
        server.agent = lambda seen: time.sleep(0.5) or by_seed(seen)
        driver = nursery.start(command.split(), tmp_path, keys)
        until = time.monotonic() + 90
        while not server.requests:
            assert time.monotonic() < until, "the driver makes no rollouts"
            time.sleep(0.05)
        os.kill(driver.pid, signal.SIGTERM)
        done = nursery.wait(driver)
    assert done.code == 143, done.err
    assert "error: interrupted. " in done.err
    assert "harness resume" in done.err


@pytest.mark.nightly
def test_an_address_where_nothing_answers_and_that_of_a_ray_client_are_usage_errors_at_once(
    agent: Path, server: FakeEndpoint, tmp_path: Path, nursery: Nursery
):
    for address, reason in {"127.0.0.1:1": "Connection refused", "ray://127.0.0.1:10001": "Ray Client"}.items():
        command = f"run Why? --agent {agent} -n 2 -q --engine ray --base-url {server.base_url} --ray-address {address}"
        done = nursery.wait(nursery.start(command.split(), tmp_path))
        assert done.code == 2
        assert done.err.startswith(f"error: --ray-address {address} gives no cluster: ")
        assert reason in done.err
        assert "RAY_AUTH_MODE" not in done.err
    assert not (tmp_path / "runs").exists()
    assert not server.requests


def rollouts_of(folder: Path) -> set[str]:
    files = folder.glob("runs/*/rollouts/*.jsonl")
    return {line for file in files for line in file.read_text().splitlines() if '"kind":"rollout"' in line}


def test_without_ray_or_with_a_ray_client_the_engine_says_what_to_do_and_costs_nothing(
    agent: Path, server: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(UsageError, match=r"--ray-address ray://a:1 gives no cluster: .*Ray Client"):
        anyio.run(lambda: made(agent, server, environ_of(tmp_path), engine="ray", ray_address="ray://a:1"))
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'arena-harness\[ray\]'"):
        anyio.run(lambda: made(agent, server, environ_of(tmp_path), engine="ray"))
    with pytest.raises(UsageError, match=r"--ray-address .* does nothing without --engine ray"):
        anyio.run(lambda: made(agent, server, environ_of(tmp_path), ray_address="auto"))
    assert not server.requests


@pytest.mark.nightly
def test_no_archive_says_on_which_machines_an_agent_runs():
    settings = recorded_settings({"engine": "ray", "ray_address": "strangers.example:6379", "n": 4}, "run.json")
    assert (settings.engine, settings.ray_address, settings.n) == ("local", None, 4)
    assert not {"engine", "ray_address"} & as_written(load({"engine": "ray", "ray_address": "mine:6379"})).keys()
