"""The SDK's own examples of local sandboxes, unchanged, four rollouts of each at once: nothing shared, nothing left."""

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from harness.archive.reader import RunReader
from harness.core.settings_sources import environment, load
from harness.core.workspace_files import bytes_of
from harness.formats.queries import query_from
from harness.pipeline.plan import prepare
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import run_queries
from harness.rollouts.loading import load_agent
from harness.rollouts.sandbox_watcher import processes_in
from harness.rollouts.sandboxes import _folder
from tests.agents_config.test_sdk_examples import at_the_sdk, sdist
from tests.fake_endpoint import FakeEndpoint, Say, Script, Seen
from tests.nursery import Nursery
from tests.rollouts.test_replay import replayed

__all__ = ["at_the_sdk", "sdist"]
pytestmark = [pytest.mark.anyio, pytest.mark.process, pytest.mark.nightly]

APP = """
from importlib import import_module
from pathlib import Path
from agents import Runner

SKILLS = Path(__file__).with_name("skills")
GIVEN = {"unix_local_runner": {"question": "Go.", "stream": False}, "docs.coding_task": {"prompt": "Go."}}
GIVEN |= dict.fromkeys(("memory", "memory_multi_agent_multiturn", "shared_session_workdirs"), {})

async def answer(query: str) -> str:
    example = import_module(f"examples.sandbox.{query}")
    if query == "sandbox_agent_capabilities":  # its `main` holds the answer against what a model of OpenAI's says
        example._write_local_skill(SKILLS)
        return (await Runner.run(example._build_agent(None, SKILLS), query)).final_output
    await example.main(model=None, **GIVEN.get(query, {"question": query}))
    return "done"
"""
"""Runs an example by its name: its `main`, some of which make sandboxes of their own."""
ALONE = "touch $$.seen; sleep 0.5; ls *.seen | wc -l; rm *.seen; printf x > made.txt; (sleep 600 >&- 2>&- &)"
FIXED = b"""#!/bin/sh

customer="$1"
amount="${2#-}"

printf 'Credit note for %s: $%s credit.\\n' "$customer" "$amount"
"""
PATCH = """*** Begin Patch
*** Update File: repo/credit_note.sh
@@
-amount="$2"
+amount="${2#-}"
-
-printf 'Credit note for %s: -$%s debit.\\n' "$customer" "$amount"
+
+printf 'Credit note for %s: $%s credit.\\n' "$customer" "$amount"
*** End Patch
"""
IN_TASK = "cp reference.png page.png && cat brief.md"
TASK_PATCH = """*** Begin Patch
*** Update File: notes.md
@@
-status=pending-TASK
+status=complete-TASK
*** End Patch
"""
REVIEW = {
    "Pricing": '{"requested_discount_percent": 15, "requested_term_months": 24, "pricing_risk": "low", "summary": "s", '
    '"recommended_next_step": "n", "evidence_files": ["pricing_summary.md"]}',
    "Rollout": '{"rollout_risk": "low", "summary": "s", "blockers": [], "recommended_next_step": "n", '
    '"evidence_files": ["rollout_plan.md"]}',
}
Move = tuple[str, Any]
SHELL: Move = ("shell", None)
EXEC: Move = ("exec_command", None)
MOVES: dict[str, list[Move]] = {
    "You review renewal packets": [SHELL],
    "You triage internal requests": [("transfer_to_onboarding_packet_reviewer", {})],
    "You inspect onboarding documents": [SHELL, ("transfer_to_account_executive_assistant", {})],
    "You write concise internal updates": [],
    "You review renewal requests": [
        SHELL,
        ("get_discount_approval_path", {"discount_percent": 14}),
        ("get_policy_reference", {"topic": "discount"}),
    ],
    "You coordinate renewal reviews": [
        ("review_pricing_packet", {"input": "Go."}),
        ("review_rollout_risk", {"input": "Go."}),
        ("get_discount_approval_rule", {"discount_percent": 15}),
    ],
    "You inspect renewal pricing": [SHELL],
    "You inspect rollout plans": [SHELL],
    "Complete the task by inspecting": [
        ("exec_command", {"cmd": "cat", "tty": True, "yield_time_ms": 250}),
        ("write_stdin", {"chars": "again\n", "yield_time_ms": 250}),
        EXEC,
    ],
    "Inspect the repo": [
        ("load_skill", {"skill_name": "credit-note-fixer"}),
        ("apply_patch", PATCH),
        ("exec_command", {"cmd": "sh tests/test_credit_note.sh", "workdir": "repo"}),
        EXEC,
    ],
    "Run the sandbox capability": [
        EXEC,
        ("view_image", {"path": "examples/image.png"}),
        ("load_skill", {"skill_name": "capability-proof"}),
    ],
    "Answer questions about the sandbox": [EXEC],
    "You are a GTM analyst": [EXEC],
    "You are an engineer": [EXEC],
    "Follow the requested tool sequence": [EXEC, ("view_image", {"path": "page.png"}), ("apply_patch", TASK_PATCH)],
}
TRIAGE = MOVES["You triage internal requests"]
MADE = (0, "made.txt", "added")
CHANGED: dict[str, list[tuple[int, str, str]]] = {
    "unix_local_runner": [MADE],
    "handoffs": [MADE],
    "sandbox_agent_with_tools": [MADE],
    "sandbox_agents_as_tools": [MADE, (1, "made.txt", "added")],
    "unix_local_pty": [MADE],
    "docs.coding_task": [
        (0, ".agents/credit-note-fixer/SKILL.md", "added"),
        MADE,
        (0, "repo/credit_note.sh", "changed"),
    ],
    "sandbox_agent_capabilities": [(0, ".agents/capability-proof/SKILL.md", "added"), MADE],
    "memory": [MADE],
    "memory_multi_agent_multiturn": [MADE],
    "shared_session_workdirs": [
        (0, f"tasks/task-{task}/{file}", change)
        for task in "ab"
        for file, change in (("notes.md", "changed"), ("page.png", "added"))
    ],
}
"""By example, which is the query's text: what becomes of the files in each rollout."""
IN_FLIGHT = 32


def working(command: str) -> Script:
    """Let each agent work as its instructions say, with a command in its workspace."""

    def script(seen: Seen) -> Say:
        (moves,) = (moves for begins, moves in MOVES.items() if begins in seen.system)
        done = sum(str(item.get("type")).endswith("_output") for item in seen.items)
        done -= sum("transfer" in str(item.get("name")) for item in seen.items if moves[:1] != TRIAGE)
        if done >= len(moves):
            return Say(next((text for word, text in REVIEW.items() if word in str(seen.body.get("text"))), "Done."))
        name, given = moves[done]
        task = "".join(re.findall(r"Complete (task-.) in", str(seen.items[0])))
        called = {"id": f"i{done}", "call_id": f"c{done}", "status": "completed"}
        if name == "shell":
            return Say(items=({"type": "shell_call", "action": {"commands": [command]}} | called,))
        if name == "apply_patch":
            patch = given.replace("TASK", task)
            return Say(items=({"type": "custom_tool_call", "name": name, "input": patch} | called,))
        if name == "write_stdin":
            given = given | {"session_id": int(re.findall(r"session ID (\d+)", seen.tool_outputs[0])[0])}
        asked = IN_TASK if task and command == ALONE else command
        return Say(calls=((name, {"cmd": asked} if given is None else given),))

    return script


@pytest.fixture
def app(at_the_sdk: Path) -> Path:
    (at_the_sdk / "app.py").write_text(APP)
    return at_the_sdk / "app.py"


async def test_no_rollout_sees_a_file_of_another_and_each_diff_is_exact_and_replays(app: Path, tmp_path: Path):
    agent, queries = f"{app}:answer", [query_from(name) for name in CHANGED]
    with FakeEndpoint(working(ALONE)).serving() as endpoint:
        at = {"base_url": endpoint.base_url, "api": "responses", "n": 4, "concurrency": IN_FLIGHT, "topology": "none"}
        settings = load(at | {"model": "m", "judge_model": "j", "runs_dir": tmp_path})
        prepared = await prepare(load_agent(agent, Path.cwd()), settings, environment(), queries)
        run = (await run_queries(prepared, queries, RunEnvironment(environment()))).path
    with RunReader(run) as reader:
        rollouts = {query.text: reader.group(query).rollouts for query in reader.queries()}
        for query, rollout in ((query, rollout) for query, group in rollouts.items() for rollout in group):
            assert (rollout.failure, rollout.capture_gaps) == (None, ()), query
            path = [each for step in rollout.trajectory.path for each in (step, *step.inner)]
            said = {str(step.tool_output).split()[-1] for step in path if ALONE in str(step.tool_input)}
            assert said == ({"1"} if MADE in CHANGED[query] else set()), "each saw its own mark alone"
            files = rollout.trajectory.files
            assert [(f.workspace, f.path, f.change) for f in files] == CHANGED[query]
            assert {bytes_of(f, reader.blobs.get) for f in files if f.path == "made.txt"} <= {b"x"}
            fixed = [bytes_of(f, reader.blobs.get) for f in files if f.path == "repo/credit_note.sh"]
            assert fixed == [FIXED] * (query == "docs.coding_task")
    assert not [*_folder().iterdir()]
    assert not [*processes_in(str(_folder()))]
    names = {query.id: query.text for query in queries}
    assert [(names[o.query], o.divergence) for o in await replayed(run, agent) if o.divergence] == []


def test_a_kill_of_the_command_leaves_no_process_of_any_and_no_folder(nursery: Nursery, app: Path, tmp_path: Path):
    (tmp_path / "q.txt").write_text("\n".join(CHANGED))
    before = {*processes_in(str(app.parent))}
    with FakeEndpoint(working("touch begun; sleep 600")).serving() as endpoint:
        at = f"-n 4 --concurrency {IN_FLIGHT} --model m --api responses --topology none -q --runs-dir {tmp_path}"
        argv = f"run --agent app.py:answer --queries {tmp_path / 'q.txt'} {at}".split()
        born = nursery.start(argv, app.parent, {"OPENAI_BASE_URL": endpoint.base_url, "TMPDIR": str(tmp_path)})
        while len(begun := [*tmp_path.glob("harness-sandboxes-*/*/begun")]) < IN_FLIGHT:
            time.sleep(0.1)
        folder = begun[0].parents[1]

        def left() -> set[int]:
            """The sandboxes' processes, and the watcher and the MCP servers, which work where the command does."""
            return {*processes_in(str(folder)), *processes_in(str(app.parent))} - before

        assert len(left()) > IN_FLIGHT
        os.kill(born.pid, signal.SIGKILL)
        nursery.wait(born)
        until = time.monotonic() + 10
        while time.monotonic() < until and left():
            time.sleep(0.1)
        assert not left()
        assert not folder.exists()
