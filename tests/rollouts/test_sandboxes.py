"""SandboxAgents run N at once, each rollout in a workspace of its own that is gone afterwards, with what ran there."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.archive.reader import RunReader
from harness.core.errors import UsageError
from harness.core.settings_sources import environment, load
from harness.formats.queries import query_from
from harness.pipeline.plan import prepare
from harness.rollouts.loading import load_agent
from harness.rollouts.sandbox_watcher import left_running, processes_in
from harness.rollouts.sandboxes import _folder
from harness.transcripts.transcript import path_text, plain_steps
from tests.agents_config.exchanges import tools_in
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Say, Seen
from tests.nursery import Nursery
from tests.rollouts.test_capture import roll_out
from tests.rollouts.test_replay import archived, identical

pytestmark = [pytest.mark.anyio, pytest.mark.process]

CODER = """
import tempfile
from agents import Agent, RunConfig, Runner, handoff
from agents.sandbox import Manifest, SandboxAgent, SandboxPathGrant, SandboxRunConfig
from agents.sandbox.capabilities import Compaction, Filesystem, Shell
from agents.sandbox.entries import File, LocalFile
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient

coder = SandboxAgent(name="coder", instructions="Write code.", capabilities=[Shell()],
                     default_manifest=Manifest(entries={"a.txt": File(content=b"one\\ntwo\\n")}))

class Cloud(UnixLocalSandboxClient):
    backend_id = "cloud"

async def asked(session, query):
    config = RunConfig(sandbox=SandboxRunConfig(session=session))
    return (await Runner.run(coder, query, run_config=config)).final_output
"""
OWN = """
async def answer(query: str) -> str:
    client = {}()
    session = await client.create(manifest=coder.default_manifest)
    try:
        async with session:
            return await asked(session, query)
    finally:
        await client.delete(session)
"""
KINDS = {
    "itself": "agent = coder",
    "client": "agent = coder\nrun_config = RunConfig(sandbox=SandboxRunConfig(client=UnixLocalSandboxClient()))",
    "handoff": "agent = Agent(name='first', handoffs=[coder])",
    "handoff()": "agent = Agent(name='first', handoffs=[handoff(coder)])",
    "as_tool": "agent = Agent(name='first', tools=[coder.as_tool('ask', 'Ask it.')])",
    "function": "async def answer(query: str) -> str:\n    return (await Runner.run(coder, query)).final_output",
    "a session of its own": OWN.format("UnixLocalSandboxClient"),
    "left open": """
async def answer(query: str) -> str:
    return await asked(await UnixLocalSandboxClient().create(manifest=coder.default_manifest), query)
""",
    "removed while open": OWN.format("UnixLocalSandboxClient").replace(
        "async with session", "if not await session.start()"
    ),
    "of another client": OWN.format("Cloud"),
    "two of another client": OWN.format("Cloud").replace(
        "            return",
        """\
            async with await client.create(manifest=coder.default_manifest) as other:
                await other.exec("touch empty")
            return""",
    ),
    "with folders": """
async def answer(query: str) -> str:
    with tempfile.TemporaryDirectory() as given, tempfile.TemporaryDirectory() as other:
        grants = (SandboxPathGrant(path=given), SandboxPathGrant(path=other))
        manifest = coder.default_manifest.model_copy(update={"extra_path_grants": grants})
        own = coder.clone(instructions=f"Write to {other}/b, and to {given}.", default_manifest=manifest)
        return (await Runner.run(own, query)).final_output
""",
}
WORK = "cat *.txt; echo three >> a.txt; echo x > $$.txt; sleep 0.2; ls | wc -l; (sleep 60 >&- 2>&- &)"


def working(command: str) -> Any:
    def script(seen: Seen) -> Say:
        names = tools_in(seen)
        if "exec_command" in names:
            said = [output.rpartition("Output:\n")[2] for output in seen.tool_outputs if "Output:" in output]
            return Say(said[-1]) if said else Say(calls=(("exec_command", {"cmd": command}),))
        if "ask" in names and seen.tool_outputs:
            return Say(seen.tool_outputs[-1])
        return Say("passed on", calls=(("ask", {"input": "go"}) if "ask" in names else ("transfer_to_coder", {}),))

    return script


def written(folder: Path, kind: str) -> str:
    (folder / "app.py").write_text(CODER + KINDS.get(kind, kind))
    return f"{folder / 'app.py'}{':answer' if 'def answer' in KINDS.get(kind, kind) else ''}"


def nothing_left() -> bool:
    return not [*_folder().iterdir()] and not [*processes_in(str(_folder()))]


@pytest.mark.few(2)
@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("kind", KINDS)
async def test_four_at_once_see_no_file_of_another_and_leave_nothing(kind: str, api: str, tmp_path: Path):
    rollouts, _ = await roll_out(written(tmp_path, kind), working(WORK), api, n=4, concurrency=4)
    assert [r.failure for r in rollouts] == [None] * 4
    assert {r.trajectory.answer.strip() for r in rollouts} == {"one\ntwo\n2"}
    assert {r.capture for r in rollouts} == {"full"}
    assert len({r.fingerprint for r in rollouts}) == 1
    assert nothing_left()


@pytest.mark.parametrize("kind", ["itself", pytest.param("as_tool", marks=pytest.mark.nightly)])
async def test_rollouts_that_do_the_same_are_equal_for_the_judge(kind: str, tmp_path: Path):
    rollouts, _ = await roll_out(written(tmp_path, kind), working('echo "at $PWD" | tee a.txt'), n=3)
    (path,) = {path_text(plain_steps(rollout.trajectory.path), {}) for rollout in rollouts}
    assert "| Process exited with code 0" in path
    assert "at /workspace" in path


@pytest.mark.parametrize("read", ["None", "MemoryReadConfig(live_update=False)"])
async def test_no_model_is_asked_for_memories_of_a_workspace_that_is_gone(
    read: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    remembering = f"""
from agents.sandbox import MemoryReadConfig
from agents.sandbox.capabilities import Memory
agent = SandboxAgent(name="coder", capabilities=[Shell(), Memory(read={read})])
"""
    app = written(tmp_path, remembering)
    with FakeEndpoint(agent=working("ls")).serving() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-own")
        (rollout,) = (await harness.rollout(app, "Go.", n=1, model="m", api="chat")).rollouts
    assert (rollout.failure, len(endpoint.requests), rollout.trajectory.files) == (None, 2, ())


async def test_a_rollout_that_is_out_of_time_leaves_nothing(tmp_path: Path):
    ((rollout,), _) = await roll_out(written(tmp_path, "itself"), working("sleep 60"), timeout=1)
    assert rollout.failure
    assert rollout.failure.kind == "timeout"
    assert nothing_left()


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_replay_is_identical_though_each_workspace_has_a_folder_of_its_own(kind: str, tmp_path: Path):
    app = written(tmp_path, kind)
    run = await archived(app, "Go.", working("pwd; ls"), tmp_path / "runs")
    await identical(run, app)
    assert nothing_left()


@pytest.mark.parametrize("kind", [pytest.param("a session of its own", marks=pytest.mark.nightly), "with folders"])
async def test_a_sandbox_that_an_app_makes_anew_in_each_call_is_its_rollouts_own(kind: str, tmp_path: Path):
    app, command = written(tmp_path, kind), working("printf x > $$.txt; sleep 0.3; ls | wc -l")
    run = await archived(app, "Go.", command, tmp_path / "runs", concurrency=2)
    with RunReader(run) as reader:
        (group,) = map(reader.group, reader.queries())
    assert [(r.failure, r.capture, r.trajectory.answer.strip()) for r in group.rollouts] == [(None, "full", "2")] * 2
    assert [[file.change for file in r.trajectory.files] for r in group.rollouts] == [["added"]] * 2
    assert len({r.fingerprint for r in group.rollouts}) == 1
    await identical(run, app)
    assert nothing_left()


SHARED = """
made = []
async def answer(query: str) -> str:
    if not made:
        made.append(await UnixLocalSandboxClient().create(manifest=coder.default_manifest))
    return await asked(made[0], query)
"""


async def test_a_sandbox_session_that_two_rollouts_would_share_is_refused_in_the_second(tmp_path: Path):
    (first, second), _ = await roll_out(written(tmp_path, SHARED), working("ls"), n=2)
    assert first.failure is None
    assert second.failure
    assert "a session, which all rollouts would share: make it inside" in second.failure.message
    assert not second.calls


DEFAULT = "agent = SandboxAgent(name='coder')"
REFUSED = {
    DEFAULT: "coder.*apply_patch.*Chat Completions does not know.*--api responses",
    "agent = SandboxAgent(name='coder', capabilities=[Compaction()])": "Compaction.*--api responses",
    "agent = SandboxAgent(name='c', capabilities=[], default_manifest=Manifest(root='/x'))": "root is /x,.*leave",
    "agent = SandboxAgent(name='c', capabilities=[], default_manifest=Manifest(entries={'a': LocalFile(src='no')}))": (
        "sandbox of agent 'c' cannot be made with UnixLocalSandboxClient: LocalFileReadError"
    ),
    """
class Cloud(UnixLocalSandboxClient):
    backend_id = "cloud"
    async def create(self, **_):
        raise ConnectionError("no key: set CLOUD_KEY")
agent = Agent(name="first", handoffs=[coder])
run_config = RunConfig(sandbox=SandboxRunConfig(client=Cloud()))
""": "sandbox of agent 'coder' cannot be made with Cloud: ConnectionError: no key: set CLOUD_KEY",
    "agent = coder\nrun_config = RunConfig(sandbox=SandboxRunConfig(session=object()))": "has a sandbox with a session",
}


@pytest.mark.parametrize("source", REFUSED)
async def test_what_cannot_run_is_refused_before_anything_is_spent(source: str, tmp_path: Path):
    loaded = load_agent(written(tmp_path, source), tmp_path)
    with FakeEndpoint().serving() as endpoint:
        settings = load({"base_url": endpoint.base_url, "model": "m", "n": 2})
        with pytest.raises(UsageError, match=REFUSED[source]):
            await prepare(loaded, settings, environment(), [query_from("Go.")])
    assert not endpoint.requests
    assert nothing_left()


def test_a_kill_of_the_command_leaves_no_process_and_no_folder(nursery: Nursery, tmp_path: Path):
    written(tmp_path, "itself")
    with FakeEndpoint(working("touch begun; sleep 600")).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url, "TMPDIR": str(tmp_path)}
        born = nursery.start("run Go --agent app.py --model m -n 2 -q".split(), tmp_path, env)
        while len(begun := [*tmp_path.glob("harness-sandboxes-*/*/begun")]) < 2:
            time.sleep(0.02)
        folder = begun[0].parents[1]
        assert [*processes_in(str(folder))]
        os.kill(born.pid, signal.SIGKILL)
        nursery.wait(born)
        until = time.monotonic() + 10
        while time.monotonic() < until and (folder.exists() or [*processes_in(str(folder))]):
            time.sleep(0.02)
        assert not folder.exists()
        assert not [*processes_in(str(folder))]


def test_a_system_without_proc_is_told_what_is_left_running_and_stops_nothing(tmp_path: Path):
    assert "outlives its rollout" in str(left_running(tmp_path / "none"))
    assert [*processes_in(str(tmp_path), tmp_path / "none")] == []
    assert (left_running() is None) == Path("/proc/self").exists()


def test_doctor_says_what_the_local_client_leaves_open_and_what_would_stop_a_run(harness: Harness, tmp_path: Path):
    env = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "x"}
    for source, status, said in (("itself", "ok", "commands have all the rights"), (DEFAULT, "fail", "apply_patch")):
        written(tmp_path, source)
        checks = json.loads(harness(*"doctor --agent app.py --model m --json".split(), env=env).out)
        (sandbox,) = (check for check in checks if check["name"] == "sandbox")
        assert sandbox["status"] == status
        assert said in sandbox["found"]
