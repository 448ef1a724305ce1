"""What a fork refuses, what it runs again, and what a person may edit."""

import json
import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, set_tracing_disabled

import harness
from harness.core.errors import HarnessError, UsageError, from_python
from tests.fake_endpoint import FakeEndpoint, Reaction, Refuse, Say, Seen
from tests.pipeline.forked_agents import (
    STEPS,
    answers,
    endpoint,
    fork,
    keyed,
    note,
    paid_calls,
    plain,
    rollouts_of,
    run_once,
    stepping,
)

__all__ = ["endpoint", "keyed"]

TOOLS = """
from agents import Agent, RunContextWrapper, function_tool

@function_tool
def note(wrapper: RunContextWrapper, text: str) -> str:
    "Note a text."
    {acts}

def context(query):
    return {{"noted": 0}}

agent = Agent(name="tools", instructions="Note.", tools=[note])
"""
COUNTING = "wrapper.context['noted'] += 1; return 'noted'"
SAME, OTHER = "return 'noted'", "import secrets; return secrets.token_hex(4)"


@pytest.mark.parametrize(
    ("acts", "live", "refusal"),
    [
        (SAME, False, None),
        (SAME, True, None),
        (OTHER, False, None),
        (OTHER, True, "tool output changed: note"),
        (COUNTING, False, "changed its context, or files, after model call 1; live_tools=True runs its tools again"),
        (COUNTING, True, None),
    ],
)
def test_tools_give_what_they_gave_or_run_again_and_must_give_the_same(
    endpoint: FakeEndpoint, tmp_path: Path, acts: str, live: bool, refusal: str | None
):
    file = tmp_path / "tools.py"
    file.write_text(TOOLS.format(acts=acts))
    run = run_once(file, endpoint, tmp_path / "runs")
    endpoint.requests.clear()
    if refusal is None:
        made = fork(run, file, endpoint, at="2", live_tools=live)
        assert paid_calls(made) == [2]
        return
    with pytest.raises(UsageError, match=refusal):
        fork(run, file, endpoint, at="2", live_tools=live)
    assert not endpoint.requests
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [run.id]


def changed() -> Agent[Any]:
    return Agent(name="plain", instructions="Note less.", tools=[note])


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, user_folder: Path) -> Iterator[tuple[harness.Run, FakeEndpoint]]:
    """A run that its tests leave as it is, and its server."""
    with pytest.MonkeyPatch.context() as patch, FakeEndpoint(stepping()).serving() as endpoint:
        patch.setenv("OPENAI_API_KEY", "sk-" + "a" * 40)
        patch.setenv("XDG_STATE_HOME", str(user_folder / "state"))
        run = run_once(plain(), endpoint, tmp_path_factory.mktemp("runs"))
        endpoint.requests.clear()
        yield run, endpoint


@pytest.mark.parametrize(
    ("rules", "agent", "why"),
    [
        ({"at": "4"}, plain, "it has 4 model calls, and that is past its end"),
        ({"at": "1"}, changed, "at model call 1 prompt changed: -Note. .Note less."),
        ({"at": "1", "budget": 2}, plain, "budget=2: the first branch, .* is likely to make 3 new calls"),
        ({"at": "1", "rollouts": (7,)}, plain, "has no rollout 7; there are: 0"),
        ({"at": "1", "query": "q7"}, plain, "no query 'q7'"),
        ({"at": "-1"}, plain, "expected numbers of model calls with commas, or auto, parted, tools, all"),
        ({"at": "auto"}, plain, "rollout 0: the query has no at='auto': of its rollouts fewer"),
        ({"edit": {"call": 1, "message": "x"}}, plain, "is of one rollout"),
        ({"edit": {"call": 0, "output": "x"}, "rollouts": (0,)}, plain, "`call` is the number of a model call"),
        ({"edit": {"call": 1}, "rollouts": (0,)}, plain, "give `output` .* or `message`"),
        ({"edit": {"call": 1, "outputs": "x"}, "rollouts": (0,)}, plain, "'outputs' is no field of an edit"),
        ({"edit": {"call": 1, "message": "x"}, "rollouts": (0,)}, plain, "model call 1 of rollout 0 said nothing"),
        ({"edit": {"call": 4, "output": "x"}, "rollouts": (0,)}, plain, "called no function tool"),
        ({"edit": {"call": 4, "message": "x"}, "rollouts": (0,)}, plain, "is its answer: nothing comes after it"),
        ({"edit": {"call": 9, "message": "x"}, "rollouts": (0,)}, plain, "4 model calls, and that is past its end"),
        ({"edit": {"call": 1, "output": "x", "tool": "send"}, "rollouts": (0,)}, plain, "called note: `tool` names"),
    ],
)
def test_what_cannot_be_forked_is_refused_with_the_reason_and_nothing_is_bought(
    ran: tuple[harness.Run, FakeEndpoint], rules: dict[str, Any], agent: Callable[[], Agent[Any]], why: str
):
    run, endpoint = ran
    with pytest.raises(HarnessError, match=why):
        fork(run, agent(), endpoint, **rules)
    assert not endpoint.requests
    assert [path.name for path in run.path.parent.iterdir()] == [run.id]


DARK = "from agents import set_tracing_disabled; set_tracing_disabled(True); return 'noted'"
ENDS = "def before_rollout(query, context):\n    raise OSError('no disk')\n"


@pytest.mark.parametrize(
    ("source", "settings", "why"),
    [
        (TOOLS.format(acts=DARK), {}, "its record is not whole (3 model calls while tracing was off"),
        (TOOLS.format(acts=SAME) + ENDS, {}, "no model calls of it are recorded"),
        (TOOLS.format(acts=SAME), {"redact": ["Go on"]}, "was redacted, and its true text is not kept"),
    ],
)
def test_a_rollout_that_is_not_recorded_as_it_was_is_not_forked(
    endpoint: FakeEndpoint, tmp_path: Path, source: str, settings: dict[str, Any], why: str
):
    file = tmp_path / "tools.py"
    file.write_text(source)
    run = run_once(file, endpoint, tmp_path / "runs", **settings)
    set_tracing_disabled(False)
    endpoint.requests.clear()
    with pytest.raises(UsageError, match=re.escape(why)):
        fork(run, file, endpoint, at="1", rollouts=(0,))
    assert not endpoint.requests


@pytest.mark.parametrize(
    ("edit", "seen_as"),
    [({"call": 2, "output": "something else"}, "something else"), ({"call": 2, "message": "I think."}, "I think.")],
)
def test_an_edited_step_is_what_the_agent_goes_on_from_and_the_record_says_so(
    endpoint: FakeEndpoint, tmp_path: Path, edit: dict[str, Any], seen_as: str
):
    said = list[int]()

    def reply(seen: Seen) -> Reaction:
        done = len(seen.tool_outputs)
        return Say(answers(said)) if done == STEPS else Say("Next.", calls=(("note", {"text": f"step {done + 1}"}),))

    endpoint.agent = reply
    run = run_once(plain(), endpoint, tmp_path)
    endpoint.requests.clear()
    made = fork(run, plain(), endpoint, rollouts=(0,), edit=edit)
    _, branch = rollouts_of(made)
    assert paid_calls(made) == [2]
    assert seen_as in json.dumps(endpoint.requests[0].body)
    assert branch.branch
    assert branch.branch.edit
    assert seen_as in {branch.branch.edit.output, branch.branch.edit.message}
    for name, asked in (("without", frozenset[Any]()), ("with", frozenset[Any]({"edited"}))):
        rules = harness.ExportRules(format="atif", included=asked)
        assert harness.export_run(made, tmp_path / name, rules).lines == 1 + len(asked)


@pytest.mark.parametrize(
    ("longer_by", "budget", "ends", "bought"),
    [
        (0, 5, ["ok", "ok"], 5),
        (3, 9, ["ok"], 6),  # twice as long as expected: so may the next be, which then has no room
        (3, 5, ["budget"], 5),  # nobody knew that it would take more
    ],
)
def test_branches_are_begun_until_the_next_would_not_fit_and_resume_keeps_to_it(
    endpoint: FakeEndpoint, tmp_path: Path, longer_by: int, budget: int, ends: list[str], bought: int
):
    run = run_once(plain(), endpoint, tmp_path)
    endpoint.requests.clear()
    said = list[int]()

    def reply(seen: Seen) -> Reaction:
        done = len(seen.tool_outputs)
        return Say(answers(said)) if done == 3 + longer_by else Say(calls=(("note", {"text": f"step {done + 1}"}),))

    endpoint.agent = reply
    made = fork(run, plain(), endpoint, at="1,2,3", budget=budget)
    for _ in range(2):
        branches = [rollout for rollout in rollouts_of(made) if rollout.branch]
        assert [each.failure.kind if each.failure else each.status for each in branches] == ends
        assert [each.branch.call for each in branches if each.branch] == [*range(1, 1 + len(ends))]
        assert len(endpoint.requests) == bought
        harness.resume_sync(made, plain(), base_url=endpoint.base_url)
    if longer_by:
        with pytest.raises(UsageError, match="likely to make 2 new calls, for branches before made more"):
            fork(made, plain(), endpoint, at="3", rollouts=(0,), budget=1)
    again = fork(made, plain(), endpoint, at="3", rollouts=(0,), budget=1 + longer_by)
    assert len(endpoint.requests) == bought + 1 + longer_by
    assert [rollout.branch.call for rollout in rollouts_of(again) if rollout.branch] == [*range(1, 1 + len(ends)), 3]


def test_what_a_branch_bought_before_it_was_cut_off_counts_in_its_budget(endpoint: FakeEndpoint, tmp_path: Path):
    run = run_once(plain(), endpoint, tmp_path)
    endpoint.requests.clear()
    answer = endpoint.agent
    endpoint.agent = lambda seen: Refuse(500) if len(endpoint.requests) == 2 else answer(seen)
    made = fork(run, plain(), endpoint, at="1", budget=3)
    assert [rollout.status for rollout in rollouts_of(made)] == ["ok", "failed"]
    harness.resume_sync(made, plain(), base_url=endpoint.base_url)
    assert [rollout.status for rollout in rollouts_of(made)] == ["ok", "ok"]
    assert len(endpoint.requests) == 1 + 1 + 2


KEEPERS = "def snapshot(context, call):\n    return call\n\ndef restore(context, state):\n    assert state == 2\n"


def test_a_branch_whose_prefix_is_not_the_record_is_not_taken_up(endpoint: FakeEndpoint, tmp_path: Path):
    run = run_once(plain(), endpoint, tmp_path)
    whole = endpoint.agent
    endpoint.agent = lambda _: Refuse(500)
    made = fork(run, plain(), endpoint, at="2")
    endpoint.agent = whole
    endpoint.requests.clear()
    info = made.path / "run.json"
    told = json.loads(info.read_text())
    (branch,) = next(iter(told["branches"].values()))
    info.write_text(info.read_text().replace(branch["prefix"], "0" * 64))
    with pytest.raises(HarnessError, match="the first 2 calls of rollout 0 are not those it branches from"):
        harness.resume_sync(made, plain(), base_url=endpoint.base_url, trust_archive=True)
    assert not endpoint.requests


PROGRAM = {"type": "code_interpreter_call", "status": "completed", "code": "1", "container_id": "c", "outputs": None}
CONVERSATION = """
async def answer(query):
    from agents import Runner
    return await Runner.run(agent, query, auto_previous_response_id=True)
"""
CONTAINER = """
from agents import CodeInterpreterTool
agent.tools.append(CodeInterpreterTool(tool_config={"type": "code_interpreter", "container": {"type": "auto"}}))
answer = agent
"""
AT_SERVER = {
    "conversation": (CONVERSATION, (), "what the server keeps of the conversation"),
    "container": (CONTAINER, (PROGRAM,), "code ran in a container of the provider's, whose state nothing holds"),
}


@pytest.mark.parametrize("keepers", ["", KEEPERS])
@pytest.mark.parametrize("what", AT_SERVER)
def test_what_the_server_keeps_is_not_forked_unless_the_file_puts_its_state_back(
    endpoint: FakeEndpoint, tmp_path: Path, what: str, keepers: str
):
    source, items, why = AT_SERVER[what]
    file = tmp_path / "kept.py"
    file.write_text(TOOLS.format(acts=SAME) + source + keepers)
    replies = [Say(calls=(("note", {"text": "a"}),), items=items)] * 2 + [Say("Done.")]
    endpoint.agent = lambda _: replies[min(len(endpoint.requests), 3) - 1]
    run = run_once(f"{file}:answer", endpoint, tmp_path / "runs", api="responses")
    last = endpoint.requests[-1].body
    endpoint.requests.clear()
    if keepers:
        endpoint.agent = lambda _: replies[-1]
        assert paid_calls(fork(run, f"{file}:answer", endpoint, at="2")) == [1]
        (again,) = endpoint.requests
        assert (again.body.get("previous_response_id"), again.body["input"]) == (
            last.get("previous_response_id"),
            last["input"],
        )
        return
    for live in (False, True):
        with pytest.raises(UsageError, match=why):
            fork(run, f"{file}:answer", endpoint, at="2", live_tools=live)
    assert not endpoint.requests


def test_a_run_of_a_strangers_is_forked_only_where_its_user_trusts_it(
    endpoint: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = run_once(plain(), endpoint, tmp_path / "runs")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    endpoint.requests.clear()
    rules = harness.ForkRules(at="1")
    with pytest.raises(UsageError, match="of which this machine has no record, approves calls"):
        harness.fork_sync(run, rules, plain(), runs_dir=tmp_path / "runs")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [run.id]
    assert not endpoint.requests
    made = harness.fork_sync(run, rules, plain(), runs_dir=tmp_path / "runs", trust_archive=True, report=False)
    assert paid_calls(made) == [3]


@pytest.mark.parametrize("refuses", [False, True])
def test_a_branch_goes_to_another_server_with_all_that_it_was_given(
    endpoint: FakeEndpoint, tmp_path: Path, refuses: bool
):
    with FakeEndpoint(stepping()).serving() as other:
        other.ids = count(1000)
        run = harness.run_sync(
            plain(),
            ["Go on?"],
            n=1,
            model="m",
            topology="none",
            retries=0,
            runs_dir=tmp_path,
            base_url=[endpoint.base_url, other.base_url],
        )
        for server in (endpoint, other):
            server.requests.clear()
        if refuses:
            endpoint.agent = lambda _: Refuse(500)
        made = harness.fork_sync(run, harness.ForkRules(at="2", branches=2), plain(), runs_dir=tmp_path, report=False)
        assert paid_calls(made) == [2, 2]
        assert {len(seen.tool_outputs) for seen in (*endpoint.requests, *other.requests)} == {2, 3}


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"branches": 0}, "branches=0: give a whole number, at least 1"),
        ({"budget": 0}, "budget=0: give a whole number"),
        ({"at": (2,)}, "give a text"),
        ({"at": ""}, "expected numbers of model calls"),
        ({"at": "nope"}, "at='nope': expected"),
        ({"rollouts": 3}, "give a tuple of indices"),
        ({"at": "2", "edit": {"call": 1, "output": "x"}, "rollouts": (0,)}, "leave it out"),
    ],
)
def test_rules_that_cannot_be_are_refused_by_name(
    ran: tuple[harness.Run, FakeEndpoint], rules: dict[str, Any], words: str
):
    run, endpoint = ran
    with pytest.raises(harness.UsageError, match=re.escape(words)), from_python():
        fork(run, plain(), endpoint, **rules)
