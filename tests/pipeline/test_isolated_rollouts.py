"""Rollouts in processes of their own: the run of one process, but nothing of a rollout reaches another, or the run."""

import os
import signal
import subprocess
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
from harness.core.progress import Progress, Silent, now
from harness.core.records import Rollout
from harness.core.settings import as_written
from harness.core.settings_sources import load
from harness.formats.queries import query_from
from harness.pipeline.plan import prepare
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import run_queries
from harness.pipeline.validation import replay_run, validate_folder
from harness.rollouts.loading import from_object, load_agent
from tests.fake_endpoint import FakeEndpoint, Hang, Refuse, Say, Seen
from tests.nursery import Nursery
from tests.pipeline.elsewhere import Deterministic, by_seed, records
from tests.pipeline.strangers import machine
from tests.token_server import TokenServer

pytestmark = pytest.mark.process

AGENT = """
import asyncio, ctypes, os, signal, sys, tempfile, time
from pathlib import Path
from agents import Agent, SQLiteSession, function_tool

TALLY = []

@function_tool(needs_approval=True)
def search(query: str) -> str:
    return "found " + query

@function_tool
async def trace() -> str:
    TALLY.append(1)
    for folder in (".", tempfile.gettempdir()):
        with open(f"{folder}/scratch.txt", "a") as file:
            file.write("x")
    session = SQLiteSession("one", "session.db")
    await session.add_items([{"role": "user", "content": "x"}])
    sizes = [len(TALLY), os.path.getsize("scratch.txt"), os.path.getsize(f"{tempfile.gettempdir()}/scratch.txt")]
    return f"{sizes + [len(await session.get_items())]} {os.environ['HARNESS_STARTED_IN']}"

@function_tool
async def end(how: str) -> str:  # in the event loop: what the loop has not told by then is lost
    ways = {
        "os._exit(7)": lambda: os._exit(7),
        "os._exit(0)": lambda: os._exit(0),
        "a segfault": lambda: ctypes.string_at(0),
        "abort()": os.abort,
        "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "loop.stop()": lambda: str(asyncio.get_running_loop().stop()),
        "os.fork()": lambda: "goes on" if os.fork() else "comes back",
        "memory": lambda: str(len(bytes(600 * 2**20))),
    }
    return ways[how]() if how in ways else "goes on"

@function_tool
async def sleep() -> str:
    (Path(os.environ["HARNESS_STARTED_IN"]) / "pids" / str(os.getpid())).touch()
    time.sleep(600)

agent = Agent(name="mine", instructions="Answer.", model="m", tools=[search, trace, end, sleep])

def approve(item, context):
    return True

def context(query):
    return {"query": query}

def reward(rollout, query):
    return len(rollout.trajectory.answer)
"""


SILENT = Silent()


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(AGENT)
    return file


async def made(
    agent: Path, server: FakeEndpoint, queries: list[str], progress: Progress = SILENT, **settings: Any
) -> Path:
    environ = machine(agent.parent)
    at = {"base_url": server.base_url, "n": 2, "topology": "none", "runs_dir": agent.parent / "runs"}
    prepared = await prepare(
        load_agent(str(agent), agent.parent), load(at | {"isolate": "process"} | settings), environ
    )
    return (
        await run_queries(prepared, [query_from(text) for text in queries], RunEnvironment(environ, progress=progress))
    ).path


def rollouts(run: Path) -> dict[str, list[Rollout]]:
    with RunReader(run) as reader:
        return {query.text: list(reader.group(query).rollouts) for query in reader.queries()}


@pytest.mark.few(1)
@pytest.mark.parametrize("more", [{}, {"offline": True}, {"tokens": "auto"}], ids=["plain", "offline", "tokens"])
def test_a_run_in_processes_is_the_run_of_one_process_but_for_times_and_replays_identically(agent: Path, more: Any):
    async def both() -> tuple[Path, Path, list[Any]]:
        with Deterministic(TokenServer(by_seed)).serving() as server:
            queries = ["Why?", "How?"]
            apart, here = [
                await made(agent, server, queries, topology="anchor", isolate=isolate, **more)
                for isolate in ("process", "none")
            ]
        loaded = load_agent(str(agent), agent.parent)
        return apart, here, [r async for r in replay_run(apart, loaded, machine(agent.parent))]

    apart, here, replayed = anyio.run(both)
    assert records(apart) == records(here)
    assert all(bool(r.sampled_tokens) == ("tokens" in more) for each in rollouts(apart).values() for r in each)
    assert [r.divergence for r in replayed] == [None] * 4


ENDS = {
    "os._exit(7)": ("agent_code", "ProcessExit", "exit code 7"),
    "os._exit(0)": ("agent_code", "ProcessExit", "exit code 0"),
    "a segfault": ("agent_code", "SIGSEGV", "Segmentation fault"),
    "abort()": ("agent_code", "SIGABRT", "SIGABRT"),
    "loop.stop()": ("agent_code", "ProcessExit", "exit code 1"),
    "SIGKILL": ("internal", "SIGKILL", "from outside"),
}


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Rollout]], list[str]]:
    """Two rollouts of each query, of which some leave traces and some end their process: run, rollouts, notes."""

    def script(seen: Seen) -> Say:
        call = ("trace", {}) if seen.user == "Trace." else ("end", {"how": seen.user})
        return Say(seen.tool_outputs[0]) if seen.tool_outputs else Say(calls=(call,))

    heard, folder = Heard(), tmp_path_factory.mktemp("apart")
    writing = f"""
def before_rollout(query, context):
    if query.text == "Trace.":
        for path in ("own.txt", {str(folder / "shared.txt")!r}):
            open(path, "w").close()
"""
    (folder / "mine.py").write_text(AGENT + writing)
    with FakeEndpoint(agent=script).serving() as server:
        asked = ["Trace.", "Go on.", "os.fork()", "memory", *ENDS]
        run = anyio.run(lambda: made(folder / "mine.py", server, asked, progress=heard, memory=500))
    return run, rollouts(run), heard.notes


def test_no_rollout_sees_the_files_the_module_or_the_sessions_of_another_and_who_writes_one_path_is_named(apart: Any):
    run, found, notes = apart
    folder = run.parents[1]
    assert {rollout.trajectory.answer for rollout in found["Trace."]} == {f"[1, 1, 1, 1] {folder}"}
    assert not (folder / "scratch.txt").exists()
    (note,) = (text for text in notes if "both write" in text)
    assert f"both write {folder / 'shared.txt'}: each has a working folder of its own" in note


@pytest.mark.nightly
def test_a_process_that_may_be_reused_keeps_the_module_but_no_file_until_a_rollout_fails_in_it(agent: Path):
    def script(seen: Seen) -> Say:
        call = ("end", {"how": "os._exit(7)"}) if seen.user == "Exit." else ("trace", {})
        return Say(seen.tool_outputs[0]) if seen.tool_outputs else Say(calls=(call,))

    agent.write_text(AGENT + "REUSES_PROCESS = True\n")
    with FakeEndpoint(agent=script).serving() as server:
        run = anyio.run(lambda: made(agent, server, ["Trace.", "Exit.", "Then."], n=2, concurrency=1))
    found = rollouts(run)
    assert [r.failure and r.failure.type for r in found.pop("Exit.")] == ["ProcessExit"] * 2
    answers = {text: sorted(r.trajectory.answer.split("]")[0] for r in each) for text, each in found.items()}
    assert answers == dict.fromkeys(("Trace.", "Then."), ["[1, 1, 1, 1", "[2, 1, 1, 1"])


def test_however_a_process_ends_that_is_the_failure_of_its_rollout_alone(apart: Any):
    run, found, _ = apart
    for how in ("Go on.", "os.fork()"):
        assert [r.trajectory.answer for r in found[how]] == ["goes on", "goes on"]
    for how, (kind, type_, words) in ENDS.items():
        for went_on, rollout in zip(found["Go on."], found[how], strict=True):
            assert rollout.failure
            assert (rollout.failure.kind, rollout.failure.type) == (kind, type_)
            assert words in rollout.failure.message
            assert (rollout.usage.requests, rollout.usage.tokens, len(rollout.calls)) == (1, 120, 1), "it was paid for"
            assert rollout.effective == went_on.effective, "it was asked as another one was"
            assert rollout.capture_gaps == ("its process ended before it could tell requests, replies and steps",)
    assert not validate_folder(run, now).remaining


def test_a_rollout_that_takes_more_memory_than_it_may_fails(apart: Any):
    assert [(r.failure.kind, len(r.calls)) for r in apart[1]["memory"]] == [("agent_code", 2)] * 2


@pytest.mark.nightly
def test_a_rollout_may_take_as_much_memory_as_it_wants(agent: Path):
    def eating(seen: Seen) -> Say:
        return Say("Done.") if seen.tool_outputs else Say(calls=(("end", {"how": "memory"}),))

    with FakeEndpoint(agent=eating).serving() as server:
        run = anyio.run(lambda: made(agent, server, ["Eat."], n=1))
    assert [(r.failure, len(r.calls)) for r in rollouts(run)["Eat."]] == [(None, 2)]


@pytest.mark.nightly
def test_a_limit_on_memory_that_leaves_no_room_is_a_usage_error(agent: Path, nowhere: FakeEndpoint):
    with pytest.raises(UsageError, match="less than the process takes with the agent loaded"):
        anyio.run(lambda: made(agent, nowhere, ["Why?"], memory=20))


@pytest.mark.nightly
def test_a_server_that_is_down_is_asked_as_rarely_as_by_one_process(agent: Path):
    asked: list[tuple[int, set[Any]]] = []
    for isolate in ("none", "process"):
        replies = iter([Say("Done.")])
        with FakeEndpoint(agent=lambda _: next(replies, Refuse(500))).serving() as server:  # noqa: B023 - serves this
            more: dict[str, Any] = {"n": 8, "isolate": isolate, "give_up": 1.0}
            run = anyio.run(lambda: made(agent, server, ["Why?"], **more))  # noqa: B023 - called at once
            kinds = {rollout.failure and rollout.failure.kind for rollout in rollouts(run)["Why?"]}
            asked.append((len(server.requests), kinds))
    (here, kinds), (apart, kinds_apart) = asked
    assert kinds == kinds_apart
    assert abs(here - apart) <= 3, asked


@pytest.mark.nightly
def test_a_call_that_hangs_ends_after_the_request_timeout(agent: Path):
    with FakeEndpoint(agent=lambda _: Hang(20)).serving() as server:
        more: dict[str, Any] = {"request_timeout": 0.3, "retries": 1, "give_up": 60.0}
        run = anyio.run(lambda: made(agent, server, ["Why?"], **more))
        assert [r.failure and r.failure.type for r in rollouts(run)["Why?"]] == ["APITimeoutError"] * 2
        assert len(server.requests) == 4


@pytest.mark.nightly  # it waits for twice eleven seconds
def test_what_blocks_the_event_loop_of_its_process_is_ended_from_outside(agent: Path):
    without_reward = AGENT.partition("def reward")[0]  # which may take minutes of its own
    agent.write_text(without_reward.replace("TALLY.append(1)", "import re\n    re.match('(a+)+$', 'a' * 60 + 'b')"))
    with FakeEndpoint(agent=lambda _: Say(calls=(("trace", {}),))).serving() as server:
        run = anyio.run(lambda: made(agent, server, ["Trace."], n=1, timeout=1.0))
    (rollout,) = rollouts(run)["Trace."]
    assert rollout.failure
    assert (rollout.failure.kind, len(rollout.calls)) == ("timeout", 1)
    assert "something blocked its process" in rollout.failure.message


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_no_process_outlives_the_run_whatever_ends_it(agent: Path, nursery: Nursery, number: int):
    (agent.parent / "pids").mkdir()
    with FakeEndpoint(agent=lambda _: Say(calls=(("sleep", {}),))).serving() as server:
        words = f"run Why? --agent {agent} -n 2 --topology none --isolate process -q --grace 0"
        keys = {"OPENAI_API_KEY": "sk", "OPENAI_BASE_URL": server.base_url, "TMPDIR": str(agent.parent)}
        command = nursery.start(words.split(), agent.parent, keys)
        until = time.monotonic() + 60
        while len(pids := [int(file.name) for file in (agent.parent / "pids").iterdir()]) < 2:
            assert time.monotonic() < until, command.err.read_text()
            time.sleep(0.05)
        os.kill(command.pid, number)
        done = nursery.wait(command)
        assert done.code == (-signal.SIGKILL if number == signal.SIGKILL else 143), done.err
    while any(map(is_alive, pids)) or list(agent.parent.glob("harness-*")):
        assert time.monotonic() < until + 60
        time.sleep(0.05)


@pytest.mark.nightly
@pytest.mark.few(1)
@pytest.mark.parametrize("api", ["chat", "responses", None])
def test_the_stand_in_that_warms_a_server_up_ends_well_and_leaves_no_thread(api: str | None):
    code = f"""
import threading
from pydantic import SecretStr
from harness.core.settings_sources import load
from harness.endpoints.address import Endpoint
from harness.pipeline.process_server import warm_up
from harness.pipeline.resolve import AgentSpec
endpoint = {api!r} and Endpoint(base_url="http://nobody.invalid/v1", api={api!r}, key=SecretStr("k"))
print(warm_up(AgentSpec(None, endpoint, endpoint is None, "m"), load(dict(n=2))), threading.active_count())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "1"], done.stderr


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


class Heard(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.nightly
def test_files_that_are_looked_for_in_a_rollouts_empty_folder_are_named(agent: Path):
    for name in ("data.json", "notes.db", "unread.txt"):
        (agent.parent / name).write_text("{}")
    agent.write_text(
        AGENT
        + """
import sqlite3
def before_rollout(query, context):
    open("new.txt", "w").close()
    open("new.txt").close()
    sqlite3.connect("notes.db").close()
    open(os.environ["HARNESS_STARTED_IN"] + "/data.json").close()
    open("data.json")
"""
    )
    heard = Heard()
    with FakeEndpoint(agent=lambda _: Say("Done.")).serving() as server:
        run = anyio.run(lambda: made(agent, server, ["Why?"], progress=heard))
    assert {r.failure and r.failure.type for r in rollouts(run)["Why?"]} == {"FileNotFoundError"}
    named = sorted(text.split()[0] for text in heard.notes if "is looked for in the working folder" in text)
    assert named == ["data.json", "notes.db"]


@pytest.mark.nightly
def test_the_users_trace_processors_send_what_they_have_before_a_process_ends(agent: Path):
    agent.write_text(
        AGENT
        + f"""
from agents.tracing import TracingProcessor, add_trace_processor
class Late(TracingProcessor):
    seen = []
    def on_trace_start(self, trace): pass
    def on_trace_end(self, trace): self.seen.append(trace.name)
    def on_span_start(self, span): pass
    def on_span_end(self, span): pass
    def force_flush(self): pass
    def shutdown(self):
        if self.seen:
            (Path({str(agent.parent)!r}) / f"traces-{{os.getpid()}}").write_text(" ".join(self.seen))
add_trace_processor(Late())
"""
    )
    with FakeEndpoint(agent=lambda _: Say("Done.")).serving() as server:
        anyio.run(lambda: made(agent, server, ["Why?"], n=3))
    assert [file.read_text() for file in agent.parent.glob("traces-*")] == ["mine"] * 3


def test_no_archive_says_in_which_process_code_runs():
    settings = load({"isolate": "process"})
    assert "isolate" not in as_written(settings)
    assert recorded_settings({"isolate": "process", "n": 4}, "run.json").isolate == "none"


@pytest.fixture
def nowhere() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(agent=by_seed).serving() as server:
        yield server


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"engine": "ray"}, "leave out one of the two"),
        ({"isolate": "none", "memory": 500}, "does nothing without"),
        ({"base_url": ["{url}", "{url}/"]}, "2 servers"),
    ],
)
def test_what_goes_not_together_is_a_usage_error(agent: Path, nowhere: FakeEndpoint, more: Any, message: str):
    if "base_url" in more:
        more = {"base_url": [nowhere.base_url, nowhere.base_url.replace("127.0.0.1", "localhost")]}
    with pytest.raises(UsageError, match=message):
        anyio.run(lambda: made(agent, nowhere, ["Why?"], **more))


def test_an_agent_without_a_file_is_a_usage_error(agent: Path, nowhere: FakeEndpoint):
    async def run() -> None:
        loaded = from_object(load_agent(str(agent), agent.parent).source)
        environ = machine(agent.parent)
        at = {"base_url": nowhere.base_url, "runs_dir": agent.parent / "runs", "isolate": "process", "approve": ["all"]}
        prepared = await prepare(loaded, load(at | {"topology": "none"}), environ)
        await run_queries(prepared, [query_from("Why?")], RunEnvironment(environ))

    with pytest.raises(UsageError, match="name its file"):
        anyio.run(run)
