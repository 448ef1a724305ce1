"""A rollout that is cut off goes on from the replies it had: after a kill or a failure, or on another server."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, function_tool

import harness
from harness.archive.lines import encode, read_lines
from harness.archive.reader import RunReader
from harness.core.errors import HarnessError
from harness.core.progress import Silent
from harness.core.records import Rollout
from tests.conftest import Harness
from tests.fake_endpoint import Cut, FakeEndpoint, Reaction, Refuse, Say, Seen
from tests.nursery import Born, Nursery
from tests.pipeline.forked_agents import STEPS, endpoint, keyed

__all__ = ["endpoint", "keyed"]

NO_QUOTA = Refuse(429, "You exceeded your current quota", "insufficient_quota")


def stepping(cut_at: int | None = None, cut: Reaction = NO_QUOTA) -> Callable[[Seen], Reaction]:
    """Call the tool STEPS times, then answer. From request `cut_at` on (from 1) all end in `cut`."""
    asked = 0

    def reply(seen: Seen) -> Reaction:
        nonlocal asked
        asked += 1
        if cut_at and asked >= cut_at:
            return cut
        done = len(seen.tool_outputs)
        return Say("Done.") if done == STEPS else Say(calls=(("note", {"text": f"step {done + 1}"}),))

    return reply


class Notes(Silent):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


class NotingAgent:
    """An agent with a tool that leaves a mark whenever it runs."""

    def __init__(self, name: str = "noting", instructions: str = "Note.") -> None:
        self.marks: list[str] = []

        @function_tool
        def note(text: str) -> str:
            """Note a text."""
            self.marks.append(text)
            return f"noted {text}"

        self.agent = Agent[Any](name=name, instructions=instructions, tools=[note])


def cut_off(agent: Any, folder: Path, endpoint: FakeEndpoint, **settings: Any) -> Path:
    """Run a rollout that its endpoint cuts off; return the run's folder."""
    values: Any = {"n": 1, "model": "m", "topology": "none", "retries": 0, "report": False, **settings}
    with pytest.raises(HarnessError):
        harness.run_sync(agent, ["Go on?"], base_url=endpoint.base_url, runs_dir=folder, **values)
    (run,) = (path for path in folder.iterdir() if path.is_dir())
    return run


def only_rollout(folder: Path) -> Rollout:
    with RunReader(folder) as reader:
        (query,) = reader.queries()
        (rollout,) = reader.group(query).rollouts
        return rollout


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_resume_goes_on_from_the_replies_and_runs_no_tool_again(endpoint: FakeEndpoint, tmp_path: Path, api: Any):
    agent = NotingAgent()
    endpoint.agent = stepping(cut_at=3)
    folder = cut_off(agent.agent, tmp_path, endpoint, api=api)
    assert agent.marks == ["step 1", "step 2"]
    assert len(endpoint.requests) == 3
    endpoint.agent = stepping()
    harness.resume_sync(folder, agent.agent, base_url=endpoint.base_url)
    assert agent.marks == ["step 1", "step 2", "step 3"]
    assert len(endpoint.requests) == 5
    rollout = only_rollout(folder)
    assert rollout.status == "ok"
    assert rollout.calls_kept == 2
    assert len(rollout.calls) == 4
    assert rollout.usage.requests == 4
    assert [step.tool_output for step in rollout.trajectory.path] == ["noted step 1", "noted step 2", "noted step 3"]
    assert [step.error for step in rollout.trajectory.path] == [None, None, None]
    assert not list((folder / "checkpoints").glob("*"))


def test_the_record_is_that_of_a_rollout_that_was_never_cut_off_and_replays(endpoint: FakeEndpoint, tmp_path: Path):
    agent, endpoint.agent = NotingAgent(), stepping()
    harness.run_sync(
        agent.agent,
        ["Go on?"],
        n=1,
        model="m",
        topology="none",
        base_url=endpoint.base_url,
        runs_dir=tmp_path / "whole",
    )
    (whole,) = (tmp_path / "whole").iterdir()
    endpoint.agent = stepping(cut_at=4)
    folder = cut_off(agent.agent, tmp_path / "cut", endpoint)
    endpoint.agent = stepping()
    made = harness.resume_sync(folder, agent.agent, base_url=endpoint.base_url)

    def timeless(rollout: Rollout) -> Any:
        times = {"run", "started_at", "duration_s", "calls_kept", "raw_calls", "call_id", "fingerprint"}
        return without(rollout.model_dump(mode="json"), times | {"price_usd"})

    assert timeless(only_rollout(folder)) == timeless(only_rollout(whole))
    (replayed,) = harness.replay_sync(made, agent=agent.agent)
    assert replayed.divergence is None


def without(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {k: without(v, names) for k, v in value.items() if k not in names}
    return [without(v, names) for v in value] if isinstance(value, list) else value


def test_steps_and_calls_of_before_keep_the_times_that_they_took(endpoint: FakeEndpoint, tmp_path: Path):
    agent = NotingAgent()
    endpoint.agent = stepping(cut_at=3)
    folder = cut_off(agent.agent, tmp_path, endpoint)
    first = only_rollout(folder)
    endpoint.agent = stepping()
    harness.resume_sync(folder, agent.agent, base_url=endpoint.base_url)
    rollout = only_rollout(folder)
    assert [s.started_at for s in rollout.trajectory.path[:2]] == [s.started_at for s in first.trajectory.path[:2]]
    began = [call.started_at for call in rollout.calls if call.started_at]
    assert began[1] < rollout.started_at < began[2]
    assert rollout.duration_s > sum(call.duration_s or 0 for call in first.calls)


def test_an_agent_that_asks_something_else_begins_anew(endpoint: FakeEndpoint, tmp_path: Path):
    agent, notes = NotingAgent(), Notes()
    endpoint.agent = stepping(cut_at=3)
    folder = cut_off(agent.agent, tmp_path, endpoint)
    endpoint.agent = stepping()
    other = NotingAgent(instructions="Note well.")
    harness.resume_sync(folder, other.agent, base_url=endpoint.base_url, accept_changed_agent=True, progress=notes)
    assert other.marks == ["step 1", "step 2", "step 3"]
    rollout = only_rollout(folder)
    assert (rollout.calls_kept, len(rollout.calls), rollout.status) == (None, 4, "ok")
    assert any("begins anew: its model call 1 is another than before" in text for text in notes.texts)


AGENT_FILE = """
from pathlib import Path
from types import SimpleNamespace
from agents import Agent, RunContextWrapper, function_tool

@function_tool
def note(wrapper: RunContextWrapper, text: str) -> str:
    "Note a text."
    with (Path(__file__).parent / "marks.txt").open("a") as marks:
        print(text, file=marks)
    {acts}
    return f"noted {{text}}"

agent = Agent(name="noting", instructions="Note.", tools=[note])
{more}
"""
COUNTS, NOTHING = "wrapper.context.noted += 1", "pass"


def noting_file(folder: Path, more: str = "", acts: str = NOTHING) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "noting.py").write_text(AGENT_FILE.format(more=more, acts=acts))
    return folder / "noting.py"


def marks(file: Path) -> list[str]:
    return (file.parent / "marks.txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("more", "acts", "again", "kept"),
    [
        ("context = lambda query: SimpleNamespace(noted=0)", NOTHING, [], 2),
        ("context = lambda query: SimpleNamespace(noted=0)", COUNTS, ["step 1", "step 2"], 1),
        ("context = lambda query: SimpleNamespace(noted=lambda: 0)", NOTHING, ["step 1", "step 2"], 1),
        ("REPLAYABLE = False", NOTHING, ["step 1", "step 2"], None),
    ],
    ids=["a context that stays", "one that tools change", "one of which nobody can tell", "said in the file"],
)
def test_tools_run_again_where_the_agents_state_needs_it(
    endpoint: FakeEndpoint, tmp_path: Path, more: str, acts: str, again: list[str], kept: int | None
):
    file = noting_file(tmp_path / "agent", more, acts)
    endpoint.agent = stepping(cut_at=3)
    folder = cut_off(str(file), tmp_path / "runs", endpoint)
    endpoint.agent = stepping()
    harness.resume_sync(folder, base_url=endpoint.base_url)
    assert marks(file) == ["step 1", "step 2", *again, "step 3"]
    rollout = only_rollout(folder)
    assert (rollout.status, rollout.calls_kept, len(rollout.calls)) == ("ok", kept, 4)


@pytest.mark.parametrize("error", [Cut(), Refuse(500)], ids=["cut", "500"])
def test_another_server_goes_on_where_one_dies_midway(endpoint: FakeEndpoint, tmp_path: Path, error: Reaction):
    agent, endpoint.ids = NotingAgent(), count(10)
    with FakeEndpoint(stepping(cut_at=3, cut=error)).serving() as dying:
        made = on_two(agent.agent, dying, endpoint, tmp_path, retries=1)
    rollout = only_rollout(made.path)
    assert (rollout.failure, rollout.calls_kept, rollout.served_by) == (None, 2, endpoint.host)
    assert agent.marks == ["step 1", "step 2", "step 3"]
    assert [len(seen.tool_outputs) for seen in endpoint.requests] == [2, 3]
    assert not (made.path / "checkpoints").exists() or not list((made.path / "checkpoints").iterdir())


def test_where_another_server_gives_calls_the_same_ids_the_rollout_begins_anew(endpoint: FakeEndpoint, tmp_path: Path):
    agent, notes = NotingAgent(), Notes()
    with FakeEndpoint(stepping(cut_at=3, cut=Cut())).serving() as dying:
        made = on_two(agent.agent, dying, endpoint, tmp_path, progress=notes)
    rollout = only_rollout(made.path)
    assert (rollout.failure, rollout.calls_kept, len(rollout.calls)) == (None, None, 4)
    assert any("begins anew" in text for text in notes.texts)


def test_what_every_server_refuses_ends_the_rollout(endpoint: FakeEndpoint, tmp_path: Path):
    agent = NotingAgent()
    with FakeEndpoint(stepping(cut_at=3, cut=Refuse(400, "the input is too odd"))).serving() as dying:
        made = on_two(agent.agent, dying, endpoint, tmp_path)
    assert only_rollout(made.path).status == "failed"
    assert not endpoint.requests


def test_a_rollout_that_had_no_reply_has_nothing_to_begin_anew(endpoint: FakeEndpoint, tmp_path: Path):
    notes, endpoint.agent = Notes(), lambda _: Refuse(400, "the input is too odd")
    dies = FakeEndpoint(stepping(cut_at=1, cut=Cut()))
    with dies.serving() as dying, suppress(HarnessError):  # of the first call of a run
        on_two(NotingAgent().agent, dying, endpoint, tmp_path, progress=notes)
    assert len(endpoint.requests) == 1
    assert not any("begins anew" in text for text in notes.texts)


def on_two(agent: Any, first: FakeEndpoint, second: FakeEndpoint, folder: Path, **settings: Any) -> harness.Run:
    values: Any = {"n": 1, "model": "m", "topology": "none", "retries": 0, "report": False, **settings}
    return harness.run_sync(agent, ["Go on?"], base_url=[first.base_url, second.base_url], runs_dir=folder, **values)


def test_what_a_server_alone_knows_stays_with_it(endpoint: FakeEndpoint, tmp_path: Path):
    chained = Agent[Any](name="chained", instructions="Go on from before.")

    @function_tool
    async def ask() -> str:
        """Ask somebody whom the server knows."""
        return (await Runner.run(chained, "And now?", previous_response_id="resp_1")).final_output

    asking = Agent[Any](name="asking", instructions="Ask.", tools=[ask])

    def reply(seen: Seen) -> Reaction:
        if len(dying.requests) > 2:
            return Cut()
        return Say("Known.") if "from before" in seen.system else Say(calls=(("ask", {}),))

    with FakeEndpoint(reply).serving() as dying:
        made = on_two(asking, dying, endpoint, tmp_path, api="responses", give_up=1.0)
    assert only_rollout(made.path).status == "failed"
    assert not endpoint.requests


@pytest.mark.parametrize("fatal", range(2, 9))
@pytest.mark.parametrize("more", [[], ["--isolate", "process"]], ids=["here", "isolated"])
@pytest.mark.few(1)
def test_a_kill_loses_the_calls_in_flight_alone(
    harness: Harness, nursery: Nursery, endpoint: FakeEndpoint, tmp_path: Path, fatal: int, more: list[str]
):
    file, answer = noting_file(tmp_path / "agent"), stepping()
    running: list[Born] = []

    def reply(seen: Seen) -> Reaction:
        if len(endpoint.requests) == fatal:
            os.kill(running[0].pid, signal.SIGKILL)
        return answer(seen)

    endpoint.agent = reply
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    command = ["run", "Go on?", "--agent", str(file), "--model", "m", "-n", "2", "--topology", "none", *more]
    running.append(nursery.start(command, tmp_path, env))
    assert nursery.wait(running[0]).code == -signal.SIGKILL
    endpoint.agent = answer
    asked = len(endpoint.requests)
    assert harness("validate", env=env).code == 0
    again = harness("resume", *more, env=env)
    assert again.code == 0, again.err
    assert 8 <= len(endpoint.requests) <= 8 + 2, asked
    assert harness("validate", env=env).code == 0
    assert all(count <= 3 for count in Counter(marks(file)).values())
    replayed = harness("replay", env=env)
    assert replayed.code == 0, replayed.out


def test_an_agent_used_as_a_tool_goes_on_inside(endpoint: FakeEndpoint, tmp_path: Path):
    inner = NotingAgent(name="inner", instructions="Be inside.")
    outer = Agent[Any](name="outer", instructions="Ask.", tools=[inner.agent.as_tool("delegate", "Delegate the work.")])
    asked = 0

    def reply(seen: Seen, cut_at: int | None = None) -> Reaction:
        nonlocal asked
        asked += 1
        if cut_at and asked >= cut_at:
            return NO_QUOTA
        if "inside" in seen.system:
            done = len(seen.tool_outputs)
            return Say("Inner.") if done == STEPS else Say(calls=(("note", {"text": f"step {done + 1}"}),))
        return Say("Outer.") if seen.tool_outputs else Say(calls=(("delegate", {"input": "Do it."}),))

    endpoint.agent = lambda seen: reply(seen, cut_at=4)
    folder = cut_off(outer, tmp_path, endpoint)
    assert inner.marks == ["step 1", "step 2"]
    asked_before, endpoint.agent = len(endpoint.requests), reply
    made = harness.resume_sync(folder, outer, base_url=endpoint.base_url)
    assert inner.marks == ["step 1", "step 2", "step 3"]
    rollout = only_rollout(folder)
    assert (rollout.status, rollout.calls_kept, len(rollout.calls), rollout.trajectory.answer) == ("ok", 3, 6, "Outer.")
    assert [len(step.inner) for step in rollout.trajectory.path] == [3]
    assert len(endpoint.requests) - asked_before == 3
    assert harness.replay_sync(made, agent=outer)[0].divergence is None


def test_an_endpoint_that_still_refuses_makes_nobody_begin_anew(endpoint: FakeEndpoint, tmp_path: Path):
    agent, notes = NotingAgent(), Notes()
    endpoint.agent = stepping(cut_at=3)
    folder = cut_off(agent.agent, tmp_path, endpoint)
    endpoint.agent = stepping(cut_at=1, cut=Refuse(401, "bad key"))
    with pytest.raises(HarnessError):
        harness.resume_sync(folder, agent.agent, base_url=endpoint.base_url, progress=notes)
    assert not any("begins anew" in text for text in notes.texts)
    endpoint.agent = stepping()
    harness.resume_sync(folder, agent.agent, base_url=endpoint.base_url)
    assert agent.marks == ["step 1", "step 2", "step 3"]
    assert only_rollout(folder).calls_kept == 2


def test_where_a_kept_text_is_lost_the_rollout_begins_anew_and_says_so(endpoint: FakeEndpoint, tmp_path: Path):
    agent, notes = NotingAgent(instructions="Note. " * 1000), Notes()
    endpoint.agent = stepping(cut_at=3)
    folder = cut_off(agent.agent, tmp_path, endpoint)
    for path in (folder / "blobs").iterdir():
        path.unlink()
    endpoint.agent = stepping()
    harness.resume_sync(folder, agent.agent, base_url=endpoint.base_url, progress=notes)
    assert only_rollout(folder).calls_kept is None
    assert any("begins anew: what was kept of it cannot be read" in text for text in notes.texts)


def test_a_kept_reply_that_somebody_changed_drives_no_tool(endpoint: FakeEndpoint, tmp_path: Path):
    agent, notes = NotingAgent(), Notes()
    endpoint.agent = stepping(cut_at=3)
    folder = cut_off(agent.agent, tmp_path, endpoint)
    (path,) = (folder / "checkpoints").iterdir()
    lines = list(read_lines(path))
    changed = [
        encode(
            line.members["kind"],
            json.dumps(without(line.members, {"crc", "schema_version", "kind"})).replace("step 2", "evil"),
        )
        for line in lines
    ]
    path.write_bytes(b"".join(changed))
    endpoint.agent = stepping()
    harness.resume_sync(folder, agent.agent, base_url=endpoint.base_url, progress=notes)
    assert agent.marks == ["step 1", "step 2", "step 1", "step 2", "step 3"]
    assert only_rollout(folder).calls_kept is None
    assert any("not of this machine" in text for text in notes.texts)


def test_without_this_machines_record_of_the_run_nothing_kept_counts(
    endpoint: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    agent = NotingAgent()
    endpoint.agent = stepping(cut_at=3)
    folder = cut_off(agent.agent, tmp_path, endpoint)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    endpoint.agent = stepping()
    harness.resume_sync(folder, agent.agent, base_url=endpoint.base_url)
    assert agent.marks == ["step 1", "step 2", "step 1", "step 2", "step 3"]
    assert only_rollout(folder).calls_kept is None


SHELL_FILE = """
from agents import Agent, LocalShellTool
from pathlib import Path

def shell(request):
    with (Path(__file__).parent / "marks.txt").open("a") as marks:
        print("ran", file=marks)
    return "out"

agent = Agent(name="noting", instructions="Note.", tools=[LocalShellTool(shell)])
"""


def test_a_rollout_that_used_a_shell_begins_anew(endpoint: FakeEndpoint, tmp_path: Path):
    (tmp_path / "shell.py").write_text(SHELL_FILE)
    action = {"type": "exec", "command": ["ls"], "env": {}}
    call = {"type": "local_shell_call", "id": "s", "call_id": "s1", "status": "completed", "action": action}
    is_cut = [True]

    def reply(seen: Seen) -> Reaction:
        has_run = any(item.get("type") == "local_shell_call_output" for item in seen.items)
        return (NO_QUOTA if is_cut[0] else Say("Done.")) if has_run else Say(items=(call,))

    endpoint.agent = reply
    folder = cut_off(str(tmp_path / "shell.py"), tmp_path / "runs", endpoint, api="responses")
    is_cut[0] = False
    harness.resume_sync(folder, base_url=endpoint.base_url)
    rollout = only_rollout(folder)
    assert (rollout.status, rollout.calls_kept, len(rollout.calls)) == ("ok", None, 2)


@pytest.mark.nightly
@pytest.mark.few(1)
@pytest.mark.parametrize(("writes", "kept"), [("open('own.txt', 'a').write('x')", 1), (NOTHING, 2)])
def test_an_isolated_rollout_goes_on_only_before_it_left_files(
    harness: Harness, endpoint: FakeEndpoint, tmp_path: Path, writes: str, kept: int
):
    file = noting_file(tmp_path / "agent", acts=writes)
    endpoint.agent = stepping(cut_at=3)
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    more = ["-n", "1", "--topology", "none", "--isolate", "process"]
    assert harness("run", "Go on?", "--agent", str(file), "--model", "m", *more, env=env).code == 4
    endpoint.agent = stepping()
    again = harness("resume", "--isolate", "process", "--json", env=env)
    assert again.code == 0, again.err
    (run,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    assert (only_rollout(run).status, only_rollout(run).calls_kept) == ("ok", kept)
