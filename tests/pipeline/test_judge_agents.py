"""An agent judges: it finds what no transcript shows, and a run of it that goes wrong is a failed verdict."""

import json
import random
import re
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents import Agent, CodeInterpreterTool, ModelBehaviorError, RunContextWrapper, SQLiteSession, function_tool

import harness
from harness.archive.store import MemoryStore
from harness.core.errors import UsageError
from harness.core.rankings import Judged, Unjudged
from harness.core.records import Group, Query, Rollout, Step, Trajectory
from harness.core.workspace_files import ChangedFile
from harness.judging.citations import opening_words
from harness.judging.judges import LOOKED_AT
from harness.judging.prompt import Task, make_pair_prompt
from harness.judging.reply import remark_names
from harness.judging.transcript_form import TranscriptForm
from harness.pipeline.judge_agents import dressed
from harness.rollouts.loading import AgentEnv, from_object
from harness.rollouts.raw import unpack
from harness.rollouts.replay import ReplayOptions, replay_rollout
from harness.transcripts.tokens import ESTIMATE, transcript_budget
from harness.transcripts.transcript import Transcript
from tests.builders import a_group, a_rollout
from tests.fake_endpoint import FakeEndpoint, Refuse
from tests.judging.replies import WRITING, text_of
from tests.pipeline.judging_agents import Noted, Says, ScriptedModel, seated

pytestmark = pytest.mark.anyio

TASK = Task("q", "When was the bridge closed?")
FORM = TranscriptForm(transcript_budget(300, ESTIMATE), records=True)
SIDES = "A", "B"


def shown(output: str = "", answer: str = "In 1987.", files: tuple[ChangedFile, ...] = ()) -> Transcript:
    step = Step(kind="tool", tool_name="search", tool_input="{}", tool_output=output, call_id="c")
    return FORM(Trajectory(query="?", path=(step,), answer=answer, files=files))


ONE, TWO = shown("one"), shown("two")


def judging(says: Says, **more: Any) -> Agent[Any]:
    return Agent(name="checker", instructions="Check.", model=ScriptedModel(says), **more)


def looks_for(mark: str) -> Says:
    """Search both sides for a mark, and prefer the one that has it."""

    def says(_: str, outputs: list[str]) -> Any:
        if not outputs:
            return [("search_path", {"side": side, "text": mark}) for side in SIDES]
        has = [mark in output for output in outputs]
        return text_of(*(9 if found else 4 for found in has))

    return says


@pytest.mark.parametrize("pairs", [20, pytest.param(100, marks=pytest.mark.nightly)])
async def test_a_fact_beyond_the_budget_decides_for_the_agent_always_and_for_a_plain_judge_never(pairs: int):
    rng, found, plain, mark = random.Random(1), 0, 0, "closed since 1987-03-02"
    async with seated(judging(looks_for(mark))) as judge:
        for number in range(pairs):
            lines = [f"{n} {rng.random()}" for n in range(150)]
            with_it = [*lines]
            with_it.insert(rng.randrange(50, 100), mark)
            good, other = shown("\n".join(with_it)), shown("\n".join(lines))
            pair = (good, other) if number % 2 else (other, good)
            verdict = await judge(TASK, *pair)
            assert isinstance(verdict, Judged)
            found += verdict.winner == ("A" if number % 2 else "B")
            plain += mark in make_pair_prompt(WRITING, TASK, *pair).user
    assert (found, plain) == (pairs, 0)


async def test_verdicts_asked_for_at_once_look_each_into_its_own_sides():
    sides = [(shown("the mark"), shown(f"none {n}")) for n in range(4)]
    pairs, found = [pair[:: 1 if n % 2 else -1] for n, pair in enumerate(sides)], dict[int, str]()

    async def ask(number: int) -> None:
        verdict = await judge(TASK, *pairs[number])
        found[number] = verdict.winner if isinstance(verdict, Judged) else verdict.failure.message

    async with seated(judging(looks_for("mark"))) as judge, anyio.create_task_group() as tasks:
        for number in range(len(pairs)):
            tasks.start_soon(ask, number)
    assert found == {0: "B", 1: "A", 2: "B", 3: "A"}


async def test_what_the_agent_did_stands_behind_its_verdict_whole_and_in_short():
    store = MemoryStore()
    async with seated(judging(looks_for("one")), store) as judge:
        verdict = await judge(TASK, ONE, TWO)
    assert isinstance(verdict, Judged)
    assert verdict.analysis[LOOKED_AT].splitlines()[0] == '1. search_path {"side": "A", "text": "one"}'
    (name,) = verdict.raw_replies
    kept = json.loads(store.blobs[name])
    assert [step["tool_name"] for step in kept["rollout"]["trajectory"]["path"]] == ["search_path"] * 2
    assert kept["rollout"]["raw_calls"] in kept["texts"]
    assert (verdict.usage.requests, verdict.form) == (2, "agent")
    assert store.rollouts == []


async def test_the_agents_run_replays_from_the_raw_reply_without_a_call():
    store, model = MemoryStore(), ScriptedModel(looks_for("one"))
    agent, question = (
        Agent(name="checker", instructions="Check.", model=model),
        make_pair_prompt(WRITING, TASK, ONE, TWO),
    )
    async with seated(agent, store) as judge:
        verdict = await judge(TASK, ONE, TWO)
    kept, made = json.loads(store.blobs[verdict.raw_replies[0]]), model.calls
    rollout, texts = Rollout.model_validate(kept["rollout"]), kept["texts"]
    assert rollout.raw_calls
    calls = unpack(texts[rollout.raw_calls], texts.__getitem__, "raw reply")
    env = AgentEnv(api="chat", offline=False, corpus=None, model=None, rng=random.Random(0))
    options = ReplayOptions(max_turns=20, timeout_s=60, scrub=str, get_text=texts.__getitem__)
    loaded = dressed(from_object(agent), question, store.get_blob, pytest.fail)
    query = Query(id=rollout.query, text=rollout.trajectory.query)
    again = await replay_rollout(loaded, env, query, rollout, calls, options)
    assert (again.divergence, again.replayed, model.calls - made) == (None, 2, 0)


async def test_equal_transcripts_with_other_records_are_judged_each_for_itself_by_agents_alone():
    lines = "\n".join(str(n) for n in range(2000))
    one, two = shown(lines), shown(lines.replace("\n900\n", "\n9oo\n"))
    assert (one.path, one.answer) == (two.path, two.answer)
    of_file = shown(files=(ChangedFile(path="a.md", change="added", blob="1"),))
    other_file = shown(files=(ChangedFile(path="a.md", change="added", blob="2"),))
    async with seated(judging(looks_for("9oo"))) as judge:
        keys = {
            judge.key(TASK, a, b) for a, b in ((one, two), (two, one), (one, one), (of_file, ONE), (other_file, ONE))
        }
    assert len(keys) == 5


@pytest.mark.parametrize("change", ["instructions", "tools", "model"])
async def test_another_agent_has_other_keys_and_the_same_agent_has_the_same(change: str):
    @function_tool
    def run_test() -> str:
        """Run it."""
        return "passed"

    def made(**more: Any) -> Agent[Any]:
        return judging(looks_for("x")).clone(**more)

    another = ScriptedModel(looks_for("x"))
    another.model = "another"
    other: dict[str, Any] = {"instructions": "Look.", "tools": [run_test], "model": another}
    keys = list[str]()
    for agent in (made(), made(), made(**{change: other[change]})):
        async with seated(agent) as judge:
            keys.append(judge.key(TASK, ONE, TWO))
    assert keys[0] == keys[1] != keys[2]


async def test_an_output_type_of_the_agents_own_gives_way_and_that_is_said_once():
    noted, agent = Noted(), judging(lambda _, __: text_of(8, 2), output_type=list[int])
    async with seated(agent, progress=noted) as judge:
        verdicts = [await judge(TASK, ONE, TWO), await judge(TASK, TWO, ONE)]
    assert [verdict.status for verdict in verdicts] == ["ok", "ok"]
    assert noted.notes == ["judge agent 'checker': its output type 'list' gives way to the rubric's verdict"]
    assert agent.output_type == list[int]


async def test_the_agent_keeps_its_own_tools_and_gets_six_for_the_records():
    model = ScriptedModel(lambda _, __: text_of())
    mine = function_tool(lambda: "ok", name_override="run_test", description_override="Run a test.")
    async with seated(Agent(name="checker", model=model, tools=[mine])) as judge:
        await judge(TASK, ONE, TWO)
    assert model.tools == ["run_test", "read_step", "search_path", "list_files", "read_file", "diff", "task"]


def crashes(_: str, outputs: list[str]) -> Any:
    if outputs:
        raise ModelBehaviorError("it broke")
    return [("task", {})]


def hangs(_: str, outputs: list[str]) -> Any:
    return text_of() if outputs else [("wait", {})]


def exits(_: str, outputs: list[str]) -> Any:
    return text_of() if outputs else [("leave", {})]


def wait() -> str:
    """Wait."""
    time.sleep(1.2)
    return "done"


def leave() -> str:
    """Leave."""
    sys.exit(3)


@pytest.mark.parametrize(
    ("says", "cause"),
    [
        (crashes, "it broke"),
        (lambda _, __: [("task", {})], "Max turns"),
        (hangs, "0.5 s"),
        (exits, "SystemExit"),
        (lambda _, outputs: "A is better." if outputs else [("task", {})], "no JSON object with the scores"),
        (lambda _, outputs: text_of(11, 5) if outputs else [("task", {})], "must be an integer from 0 to 10"),
    ],
    ids=["crash", "loop", "hang", "exit", "off-schema", "marks out of range"],
)
async def test_a_run_that_goes_wrong_is_a_failed_verdict_with_its_cause_and_cost(says: Says, cause: str):
    store = MemoryStore()
    tools = [function_tool(wait), function_tool(leave)]
    async with seated(judging(says, tools=tools), store, judge_max_turns=3, judge_timeout=0.5) as judge:
        verdict = await judge(TASK, ONE, TWO)
    assert isinstance(verdict, Unjudged)
    assert cause in f"{verdict.failure.type}: {verdict.failure.message}"
    assert verdict.usage.requests >= 1
    assert verdict.usage.input
    assert len(verdict.raw_replies) == 1


@pytest.mark.parametrize("mends", [True, False])
async def test_an_agent_that_cites_nothing_where_it_must_has_one_more_run(mends: bool):
    def says(question: str, outputs: list[str]) -> Any:
        cited = mends and "That reply cannot be used: no citation of" in question
        names = remark_names(WRITING)
        citations = opening_words(names, ONE, TWO) if cited else []
        return text_of(analysis=dict.fromkeys(names, "Good."), citations=citations) if outputs else [("task", {})]

    async with seated(judging(says), require_citations=True) as judge:
        verdict = await judge(TASK, ONE, TWO)
    assert (verdict.status, len(verdict.raw_replies), verdict.usage.requests) == ("ok" if mends else "failed", 2, 4)


def hosted() -> Agent[Any]:
    code = CodeInterpreterTool({"type": "code_interpreter", "container": {"type": "auto"}})
    return Agent(name="checker", model="m", tools=[code])


def needs_approval() -> Agent[Any]:
    return Agent(name="checker", model="m", tools=[function_tool(wait, needs_approval=True)])


def same_name() -> Agent[Any]:
    return Agent(name="checker", model="m", tools=[function_tool(wait, name_override="read_file")])


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (hosted, ("--judge-agent", "code_interpreter", "--judge-api responses")),
        (needs_approval, ("--judge-agent", "needs approval", "approve(item, context)")),
        (same_name, ("--judge-agent", "'read_file'", "rename it")),
    ],
)
async def test_an_agent_that_cannot_judge_is_refused_before_anything_is_asked(
    made: Callable[[], Agent[Any]], told: tuple[str, ...]
):
    with pytest.raises(UsageError) as refused:
        async with seated(made(), judge_base_url="http://127.0.0.1:9/v1"):
            pass
    assert all(word in str(refused.value) for word in told), refused.value


def test_nothing_of_it_is_imported_before_an_agent_judges():
    files = {path.name: path.read_text("utf-8") for path in Path(harness.__file__).parent.rglob("*.py")}
    modules = r"^(from|import) harness\.(pipeline\.judge_agents|judging\.record_tools)"
    assert {name for name, text in files.items() if re.search(modules, text, re.MULTILINE)} == {"judge_agents.py"}


def numbered() -> Any:
    """Return an app's function each of whose answers is another."""
    numbers = count()

    async def answer(query: str) -> str:
        return f"{query} Answer {next(numbers)}."

    return answer


async def test_groups_are_ranked_and_runs_compared_by_an_agent_that_is_an_object(tmp_path: Path):
    model = ScriptedModel(lambda _, outputs: text_of(8, 5) if outputs else [("task", {})])
    agent = Agent[Any](name="checker", instructions="Check.", model=model)
    group = await harness.rollout("search", "Why is the sky blue?", n=3, offline=True)
    ranking = await harness.rank(group, judge_agent=agent)
    assert (ranking.status, ranking.judged > 0) == ("complete", True)
    runs_dir = tmp_path / "runs"
    run = await harness.run("search", ["Why is the sky blue?"], n=2, offline=True, topology="none", runs_dir=runs_dir)
    new: Any = {"queries": ["Why is the sky blue?"], "offline": True, "runs_dir": runs_dir, "pairs": 1, "n": 2}
    rolled_out = await harness.compare(run, "search", judge_agent=agent, **new)
    assert (rolled_out.status, rolled_out.judge.startswith("checker-")) == ("complete", True)
    calls = model.calls
    both = [run.path.name, rolled_out.sides[1].run]
    again = await harness.compare(*both, judge_agent=agent, allow_offline=True, pairs=1, runs_dir=runs_dir)
    assert (again.comparison, model.calls) == (rolled_out.comparison, calls)
    assert (await harness.best_of(numbered(), "Why?", 2, judge_agent=agent)).judged


@function_tool
def whose(context: RunContextWrapper[Any]) -> str:
    """Tell who asks."""
    return str(context.context)


class CountingModel(ScriptedModel):
    """Notes how many items it is sent at first."""

    begun: list[int]

    async def get_response(self, system: Any, input: Any, *args: Any, **more: Any) -> Any:  # noqa: A002
        self.begun.append(1 if isinstance(input, str) else len(input))
        return await super().get_response(system, input, *args, **more)


async def test_an_app_agent_judges_in_every_door_with_its_context_and_no_verdict_hears_of_another(tmp_path: Path):
    told = list[str]()

    def says(_: str, outputs: list[str]) -> Any:
        told.extend(outputs)
        return text_of(8, 5) if outputs else [("whose", {})]

    model, runs = CountingModel(says), tmp_path / "runs"
    model.begun = []
    agent = Agent[Any](name="checker", model=model, tools=[whose])
    judge = harness.AppAgent(agent, context="Ada", session=SQLiteSession("one"))
    run = await harness.run("search", "Why?", n=3, offline=True, runs_dir=runs, judge_agent=judge)
    again = await harness.rescore(run, judge_agent=[judge], rubric="task")
    assert [each.head.judge["label"] for each in again.rankings]
    assert (await harness.best_of(numbered(), "Why?", 3, judge_agent=judge)).judged
    assert (await harness.check_judge(judge_agent=judge))["judged"] == 40
    checks = await harness.check_setup("search", offline=True, judge_agent=judge)
    assert [check.found for check in checks if check.name == "judge"] == ["checker, on models of its own"]
    assert {*told} == {"Ada"}
    assert {*model.begun} == {1, 3}


NEW = "search", "Why?"


@pytest.mark.parametrize("given", [3, {"a": 1}])
@pytest.mark.parametrize(
    ("door", "asked"),
    [
        *((door, NEW) for door in (harness.run, harness.plan, harness.best_of)),
        (harness.rank, [Group(query=Query(id="q", text="Why?"), rollouts=())]),
        *((door, ()) for door in (harness.rescore, harness.check_judge)),
    ],
)
async def test_what_is_no_agent_is_refused_alike_in_every_door(door: Any, asked: Any, given: Any):
    with pytest.raises(UsageError, match=r"^judge_agent: expected an openai-agents Agent.*found a (int|dict)"):
        await door(*asked, judge_agent=given)


async def test_a_key_that_is_refused_is_the_judges():
    agent, group, refusal = Agent[Any](name="checker", model="m"), a_group([a_rollout(0), a_rollout(1)]), Refuse(401)
    with (
        FakeEndpoint(agent=lambda _: refusal, judge=lambda _: refusal).serving() as server,
        pytest.raises(harness.Refused, match=r"asks for the judge's key .*HARNESS_JUDGE_API_KEY"),
    ):
        await harness.rank(group, judge_agent=agent, judge_base_url=server.base_url)
