"""State outside of the record is kept by the agent's file before each model call, and put back for a branch."""

import json
import re
from pathlib import Path

import pytest

import harness
from harness.core.errors import UsageError
from tests.fake_endpoint import FakeEndpoint, Refuse
from tests.pipeline.forked_agents import STEPS, endpoint, fork, keyed, paid_calls, rollouts_of, run_once

__all__ = ["endpoint", "keyed"]

AGENT = """
import json
import re
from pathlib import Path
from agents import Agent, function_tool

DATABASE = Path(__file__).with_suffix(".db")
NOTES = Path(__file__).with_suffix(".restored")
CONTEXT = {context}

@function_tool(needs_approval=False)
def note(text: str) -> str:
    "Note a text."
    held = json.loads(DATABASE.read_text())
    DATABASE.write_text(json.dumps([*held, text]))
    return f"{{len(held)}} before"

def context(query):
    return CONTEXT

def before_rollout(query, context):
    DATABASE.write_text("[]")

{keepers}

agent = Agent(name="keeping", instructions="Note.", tools=[note])
"""
AS_JSON = """
def snapshot(context, call):
    held = json.loads(DATABASE.read_text())
    assert len(held) == call, (held, call)
    return held

def restore(context, state):
    NOTES.write_text(json.dumps(state))
    DATABASE.write_text(json.dumps(state))
"""
AS_BYTES = """
async def snapshot(context, call):
    return DATABASE.read_bytes()

async def restore(context, state):
    NOTES.write_bytes(state)
    DATABASE.write_bytes(state)
"""


def file_of(folder: Path, keepers: str, context: str = "{}") -> Path:
    file = folder / "keeping.py"
    file.write_text(AGENT.format(keepers=keepers, context=context))
    return file


def restored(file: Path) -> list[str]:
    return json.loads(file.with_suffix(".restored").read_text())


@pytest.mark.parametrize("keepers", [AS_JSON, AS_BYTES])
@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.few(2)
def test_a_branch_finds_the_state_outside_as_the_rollout_did_at_its_call(
    endpoint: FakeEndpoint, tmp_path: Path, keepers: str, at: int
):
    file = file_of(tmp_path, keepers)
    run = run_once(file, endpoint, tmp_path / "runs")
    made = fork(run, file, endpoint, at=str(at))
    parent, branch = rollouts_of(made)
    steps = [f"step {number}" for number in range(1, 4)]
    assert restored(file) == steps[:at]
    assert json.loads(file.with_suffix(".db").read_text()) == steps
    assert [step.tool_output for step in branch.trajectory.path] == [s.tool_output for s in parent.trajectory.path]
    assert branch.branch
    assert branch.branch.restored
    assert [call.snapshot is None for call in branch.calls] == [True, False, False, False]
    assert harness.validate_sync(made).findings == ()
    again = fork(made, file, endpoint, at="1", rollouts=(1,))
    assert restored(file) == steps[:1], "a branch has the snapshots of its prefix"
    assert paid_calls(again)[-1] == 3


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("raise KeyError('gone')", "snapshot(context, 1) raised KeyError: 'gone'"),
        ("return {1, 2}", "snapshot(context, 1) raised TypeError: it gave neither JSON nor bytes"),
        ("return b'the key ' + b'sk-' + 40 * b'a'", "it holds a key, or what is redacted"),
    ],
)
def test_a_snapshot_that_fails_is_said_and_costs_the_rollout_nothing(
    endpoint: FakeEndpoint, tmp_path: Path, body: str, why: str
):
    keepers = f"def snapshot(context, call):\n    {body}\n\ndef restore(context, state):\n    raise AssertionError\n"
    file = file_of(tmp_path, keepers, "{'noted': []}")
    file.write_text(file.read_text().replace("    held =", "    CONTEXT['noted'].append(text)\n    held ="))
    run = run_once(file, endpoint, tmp_path / "runs")
    (rollout,) = rollouts_of(run)
    assert rollout.status == "ok"
    assert why in str(rollout.snapshot_error)
    assert {call.snapshot for call in rollout.calls} == {None}
    with pytest.raises(UsageError, match=re.escape(why)):
        fork(run, file, endpoint, at="2")


def test_a_context_that_tools_change_is_forked_where_the_file_puts_it_back(endpoint: FakeEndpoint, tmp_path: Path):
    keepers = "def snapshot(context, call):\n    return context\n\ndef restore(context, state):\n    context += state\n"
    file = file_of(tmp_path, keepers, "[]")
    changes = {
        "(text: str)": "(wrapper: RunContextWrapper, text: str)",
        "held = json.loads(DATABASE.read_text())": "held = [*wrapper.context]",
        "DATABASE.write_text(json.dumps([*held, text]))": "wrapper.context.append(text)",
        "return CONTEXT": "return []",
        "import Agent,": "import Agent, RunContextWrapper,",
    }
    for before, after in changes.items():
        file.write_text(file.read_text().replace(before, after))
    run = run_once(file, endpoint, tmp_path / "runs")
    (parent,) = rollouts_of(run)
    assert parent.state_changed == 1
    whole = endpoint.agent
    endpoint.agent = lambda seen: Refuse(500) if len(seen.tool_outputs) == STEPS else whole(seen)
    made = fork(run, file, endpoint, at="1,2")
    assert [each.status for each in rollouts_of(made)] == ["ok", "failed", "failed"]
    endpoint.agent = whole
    harness.resume_sync(made, file, base_url=endpoint.base_url)
    outputs = [step.tool_output for step in parent.trajectory.path]
    for branch in rollouts_of(made)[1:]:
        assert [step.tool_output for step in branch.trajectory.path] == outputs, "also where it was cut off"
    without = tmp_path / "without.py"
    without.write_text(file.read_text().replace("def restore", "def restored").replace("def snapshot", "def kept"))
    with pytest.raises(UsageError, match=r"in the agent's file would keep it"):
        fork(run, without, endpoint, at="2")


def test_what_cannot_be_put_back_is_refused_and_nothing_is_bought(
    endpoint: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = file_of(tmp_path, AS_JSON)
    run = run_once(file, endpoint, tmp_path / "runs")
    endpoint.requests.clear()
    file.write_text(file.read_text().replace("    NOTES.write_text", "    raise OSError('full')\n    NOTES.write_text"))
    with pytest.raises(UsageError, match=r"restore raised OSError: full"):
        fork(run, file, endpoint, at="2")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    with pytest.raises(UsageError, match=r"what is in it to `restore` of the agent's file, or to its sandbox: trust_"):
        fork(run, file, endpoint, at="2")
    assert not endpoint.requests


@pytest.mark.parametrize(
    ("keepers", "wrong"),
    [
        (
            "def snapshot(context): ...\n\ndef restore(context, state): ...",
            "'snapshot' must be a function of (context, call)",
        ),
        ("def snapshot(context, call): ...\n\nrestore = 3", "'restore' must be a function of (context, state)"),
        ("def snapshot(): ...", None),
        ("def restore(context, order): ...", None),
        ("def snapshot(context, call): ...", "restore(context, state), too: write it beside 'snapshot'"),
        ("async def restore(context, state): ...", "snapshot(context, call), too: write it beside 'restore'"),
    ],
)
def test_keepers_of_another_signature_are_refused_and_one_alone_is_the_agents_own(
    endpoint: FakeEndpoint, tmp_path: Path, keepers: str, wrong: str | None
):
    file = file_of(tmp_path, keepers)
    if wrong is None:
        assert run_once(file, endpoint, tmp_path / "runs").rollouts()
        return
    with pytest.raises(UsageError, match=re.escape(wrong)):
        run_once(file, endpoint, tmp_path / "runs")
