"""A branch of a sandbox agent finds the workspace as its rollout had it at that call, by a snapshot or by its tools."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest
from agents.sandbox import Manifest
from agents.sandbox.entries import File
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient

import harness
from harness.core.errors import UsageError
from harness.core.records import Rollout
from harness.rollouts.sandboxes import Workspaces
from harness.rollouts.workspace_scan import pack_changes
from tests.agents_config.exchanges import tools_in
from tests.fake_endpoint import FakeEndpoint, Reaction, Refuse, Say, Seen
from tests.pipeline.forked_agents import answers, endpoint, fork, keyed, paid_calls, rollouts_of, run_once
from tests.rollouts.test_sandboxes import nothing_left, written

__all__ = ["endpoint", "keyed"]
pytestmark = pytest.mark.process

SHOW = "; cat *.txt 2>&1; ls -l run.sh 2>&1 | cut -c1-10; date +%N"
FIRST = "echo more >> a.txt; printf 'exit 7' > run.sh; chmod +x run.sh; ln -s a.txt link; mkdir -p d; echo x > d/x.txt"
STEPS = [FIRST + SHOW, f"rm a.txt link; chmod -x run.sh{SHOW}", f"echo last > b.txt; rm -r d{SHOW}"]


def working(steps: list[str]) -> Callable[[Seen], Reaction]:
    """Do the steps in the sandbox, then answer; pass on to the agent that has the sandbox before."""
    said = list[int]()

    def reply(seen: Seen) -> Reaction:
        done, names = len(seen.tool_outputs), tools_in(seen)
        if "exec_command" in names:
            return Say(calls=(("exec_command", {"cmd": steps[done]}),)) if done < len(steps) else Say(answers(said))
        return Say("Done.") if done else Say(calls=(("ask", {"input": "go"}),))

    return reply


def outputs(rollout: Rollout) -> list[str]:
    """Return what commands gave, but for the time."""
    path = [each for step in rollout.trajectory.path for each in (step, *step.inner)]
    said = [str(step.tool_output).rpartition("Output:\n")[2] for step in path if step.tool_name == "exec_command"]
    return [re.sub(r"\d{9}\n", "", each) for each in said]


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["itself", "as_tool", "with folders", "removed while open"])
def test_a_branch_finds_the_workspace_as_its_rollout_did_at_its_call(endpoint: FakeEndpoint, tmp_path: Path, kind: str):
    endpoint.agent, app = working(STEPS), written(tmp_path, kind)
    run = run_once(app, endpoint, tmp_path / "runs")
    (rollout,) = rollouts_of(run)
    places = range(1, len(rollout.calls))
    assert all(rollout.calls[at].snapshot for at in places)
    made = fork(run, app, endpoint, at=",".join(map(str, places)))
    parent, *branches = rollouts_of(made)
    for at, branch in zip(places, branches, strict=True):
        assert (branch.failure, outputs(branch)) == (None, outputs(parent))
        assert branch.branch
        assert branch.branch.sandboxes
        assert not branch.branch.live_tools
        held = [(f.path, f.change, f.size) for f in branch.trajectory.files]
        assert held == [(f.path, f.change, f.size) for f in parent.trajectory.files], at
    again = fork(made, app, endpoint, at=str(places[-1]), rollouts=(1,))
    assert outputs(rollouts_of(again)[-1]) == outputs(parent), "a branch has snapshots of its own"
    assert all(each.divergence is None for each in harness.replay_sync(made, agent=app))
    assert harness.validate_sync(made).findings == ()
    assert nothing_left()


@pytest.mark.anyio
async def test_what_is_put_back_is_kept_again_though_within_a_tick_of_the_clock_its_times_are_as_before(tmp_path: Path):
    (tmp_path / "a.txt").write_text("one")
    packed = pack_changes(tmp_path, (), {})
    client, workspaces = UnixLocalSandboxClient(), Workspaces(begin_with=[packed])
    manifest = Manifest(root=str(tmp_path / "root"), entries={"a.txt": File(content=b"one")})
    session = workspaces.add(await client.create(manifest=manifest), client)
    in_a_tick: Any = lambda _: anyio.lowlevel.checkpoint()  # noqa: E731
    session.hydrate_workspace = in_a_tick
    await session.start()
    assert [kept.names for kept in await workspaces.packed()] == [packed.names]
    await workspaces.close()


def test_where_no_snapshot_is_kept_the_refusal_says_why_and_live_tools_make_the_workspace_anew(
    endpoint: FakeEndpoint, tmp_path: Path
):
    steps = ["head -c 2000000 /dev/zero > big; ls; pwd", "wc -c big; echo x > b.txt"]
    endpoint.agent, app = working(steps), written(tmp_path, "itself")
    run = run_once(app, endpoint, tmp_path / "runs")
    endpoint.requests.clear()
    with pytest.raises(UsageError, match=r"live_tools=True runs .*; no snapshot of its sandbox .* more than 1 MB"):
        fork(run, app, endpoint, at="1")
    assert not endpoint.requests
    made = fork(run, app, endpoint, at="1,2", live_tools=True)
    parent, *branches = rollouts_of(made)
    assert [outputs(branch)[1:] for branch in branches] == [outputs(parent)[1:]] * 2
    assert paid_calls(made) == [2, 1]


KEPT = {
    "a key": ("echo sk-$(printf %040d 0 | tr 0 a) > a.txt", "it holds a key"),
    "a process": ("(sleep 60 >&- 2>&- &) ; echo x > a.txt", "a process ran on in it"),
    "a link": ("ln -s ../.. out; echo x > a.txt", "its link out leads out of it"),
    "of another client": ("echo x > a.txt", "it is not of this machine"),
}


@pytest.mark.parametrize("what", KEPT)
def test_what_no_snapshot_should_or_can_hold_is_not_kept(endpoint: FakeEndpoint, tmp_path: Path, what: str):
    command, why = KEPT[what]
    endpoint.agent = working([command])
    app = written(tmp_path, what if "client" in what else "itself")
    run = run_once(app, endpoint, tmp_path / "runs")
    (rollout,) = rollouts_of(run)
    assert (rollout.status, {call.snapshot for call in rollout.calls}) == ("ok", {None})
    with pytest.raises(UsageError, match=why):
        fork(run, app, endpoint, at="1")


@pytest.mark.few(1)
@pytest.mark.parametrize("live_tools", [False, True])
def test_a_branch_that_is_cut_off_begins_in_its_workspace_anew(
    endpoint: FakeEndpoint, tmp_path: Path, live_tools: bool
):
    whole, app = working([step.removesuffix("; date +%N") for step in STEPS]), written(tmp_path, "itself")
    endpoint.agent = whole
    run = run_once(app, endpoint, tmp_path / "runs")
    endpoint.agent = lambda seen: Refuse(500) if len(seen.tool_outputs) == 2 else whole(seen)
    made = fork(run, app, endpoint, at="1", live_tools=live_tools)
    assert [each.status for each in rollouts_of(made)] == ["ok", "failed"]
    endpoint.agent = whole
    harness.resume_sync(made, app, base_url=endpoint.base_url)
    parent, branch = rollouts_of(made)
    assert (branch.failure, outputs(branch)) == (None, outputs(parent))


def test_a_strangers_workspace_is_handed_to_a_sandbox_only_where_its_user_trusts_it(
    endpoint: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    endpoint.agent, app = working(STEPS), written(tmp_path, "itself")
    run = run_once(app, endpoint, tmp_path / "runs")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    with pytest.raises(UsageError, match=r"would hand what is in it to .*, or to its sandbox: trust_archive"):
        harness.fork_sync(run, harness.ForkRules(at="1"), app, runs_dir=tmp_path / "runs")


def test_rollouts_in_workspaces_of_their_own_share_states(endpoint: FakeEndpoint, tmp_path: Path):
    endpoint.agent, app = working(["pwd", "echo x > a.txt"]), written(tmp_path, "with folders")
    judged: dict[str, Any] = {"n": 3, "topology": "round_robin", "judge_model": "judge"}
    run = run_once(app, endpoint, tmp_path / "runs", **judged)
    shared = [[step["shared"] for step in rollout["steps"]] for rollout in run.credit()["rollouts"]]
    assert shared == [[2, 2, 2]] * 3
