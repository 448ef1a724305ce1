"""A rollout driven again on its recording is identical, and a changed agent is told at the step where it shows."""

import json
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

from harness.archive.reader import RunReader
from harness.core.errors import UsageError
from harness.core.settings_sources import environment, load
from harness.formats.queries import query_from
from harness.pipeline.plan import prepare
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import run_queries
from harness.pipeline.validation import _chosen, replay_run
from harness.rollouts.loading import load_agent
from harness.rollouts.replay import Replayed
from tests.agents_config.exchanges import marked, tools_in
from tests.conftest import ROOT
from tests.fake_endpoint import FakeEndpoint, Refuse, Say, Script, Seen, fair_judge

pytestmark = pytest.mark.anyio
BOTH_APIS = pytest.mark.parametrize("api", ["chat", "responses"])


async def archived(agent: str, query: str, script: Script, runs: Path, api: str = "chat", **more: Any) -> Path:
    """Run an agent twice on a server that is gone afterwards, and return the run's folder."""
    with FakeEndpoint(agent=script).serving() as endpoint:
        at = {"base_url": endpoint.base_url, "api": api, "model": "m", "n": 2, "topology": "none", "runs_dir": runs}
        prepared = await prepare(load_agent(agent, Path.cwd()), load(at | more), environment())
        return (await run_queries(prepared, [query_from(query)], RunEnvironment(environment()))).path


async def replayed(run: Path, agent: str | None = None, **more: Any) -> list[Replayed]:
    loaded = load_agent(agent, Path.cwd()) if agent else None
    return [one async for one in replay_run(run, loaded, environment(), **more)]


async def identical(run: Path, agent: str | None = None, **more: Any) -> None:
    outcomes = await replayed(run, agent, **more)
    assert [o.divergence for o in outcomes] == [None, None]
    assert all(o.calls == o.replayed for o in outcomes)


def changed(name: str, folder: Path, before: str, after: str) -> str:
    """Return a copy of a packaged agent's file in which one text is another."""
    for file in (ROOT / "agents_config").glob("*.py"):
        text = file.read_text("utf-8")
        if file.stem == name:
            assert before in text
            text = text.replace(before, after)
        (folder / file.name).write_text(text, "utf-8")
    return str(folder / f"{name}.py")


def numbered(script: Callable[[Seen, Any], Say]) -> Script:
    numbers = count(1)
    return lambda seen: script(seen, numbers)


def searching(seen: Seen, numbers: Any) -> Say:
    hosted = any(t["type"] == "web_search" for t in seen.body["tools"])
    if not hosted and len(seen.tool_outputs) < 2:
        return Say(
            reasoning="I search.", calls=tuple(("search", {"query": q}) for q in ("lisp", f"cobol {next(numbers)}"))
        )
    return Say(f"Answer {next(numbers)}.", searched="lisp" if hosted else None)


def triaging(seen: Seen, numbers: Any) -> Say:
    if "transfer_to_support" in tools_in(seen):
        return Say(reasoning="A fault.", calls=(("transfer_to_support", {}),))
    return (
        Say(f"Answer {next(numbers)}.") if len(seen.tool_outputs) > 1 else Say(calls=(("find_fault", {"code": "E07"}),))
    )


def managing(seen: Seen, numbers: Any) -> Say:
    """Ask two researchers side by side, who search for two things each; then the critic."""
    names, done = tools_in(seen), len(seen.tool_outputs)
    if "research" in names:
        if not done:
            return Say(calls=tuple(("research", {"input": f"Facts on {next(numbers)}."}) for _ in range(2)))
        return Say(calls=(("criticise", {"input": "Draft."}),)) if done == 2 else Say(f"Text {next(numbers)}.")
    if "search" in names and not done:
        return Say(calls=tuple(("search", {"query": q}) for q in ("garbage collection", f"lisp {next(numbers)}")))
    return Say(f"Found or objected: {next(numbers)}.")


def noting(seen: Seen, numbers: Any) -> Say:
    moves = ("add_note", {"text": f"Zebra {next(numbers)}."}), ("search_notes", {"words": "zebra"})
    done = len(seen.tool_outputs)
    return Say(calls=(moves[done],)) if done < 2 else Say(f"Answer {next(numbers)}.")


ORDER = {"items": [{"name": "Boskoop", "amount": 12, "unit": None}], "recipient": None, "deliver_by": None}
EXAMPLES: dict[str, tuple[str, Callable[[Seen, Any], Say]]] = {
    "search": ("Why?", searching),
    "triage": ("It shows E07.", triaging),
    "manager": ("Why?", managing),
    "mcp_notes": ("Note this.", noting),
    "extractor": ("12 crates of Boskoop", lambda seen, numbers: Say(json.dumps(ORDER))),
}


@pytest.mark.few(2)
@BOTH_APIS
@pytest.mark.parametrize("name", marked(EXAMPLES))
async def test_every_example_is_identical(name: str, api: str, tmp_path: Path):
    query, script = EXAMPLES[name]
    await identical(await archived(name, query, numbered(script), tmp_path, api))


NESTED = """
from agents import Agent
agent = Agent(name="outer", tools=[Agent(name="inner").as_tool("ask", "Ask it.")])
"""


@BOTH_APIS
async def test_a_nested_call_that_failed_for_good_is_no_divergence(api: str, tmp_path: Path):
    (tmp_path / "nested.py").write_text(NESTED)

    def failing(seen: Seen) -> Any:
        if not seen.body.get("tools"):
            return Refuse(400, "Too odd.")
        return Say("All done.") if seen.tool_outputs else Say(calls=(("ask", {"input": "go"}),))

    own = str(tmp_path / "nested.py")
    run = await archived(own, "Do it.", failing, tmp_path / "runs", api)
    await identical(run, own)
    assert all("failed" in note for one in await replayed(run, own) for note in one.notes)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", marked(["search", "triage", "manager", "mcp_notes"]))
async def test_with_the_tools_run_again_every_example_is_identical_too(name: str, tmp_path: Path):
    query, script = EXAMPLES[name]
    await identical(await archived(name, query, numbered(script), tmp_path), live_tools=True)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", marked(EXAMPLES))
async def test_every_example_on_the_embedded_model_is_identical(name: str, tmp_path: Path):
    loaded = load_agent(name, Path.cwd())
    settings = load({"offline": True, "n": 2, "runs_dir": tmp_path})
    prepared = await prepare(loaded, settings, environment())
    around = RunEnvironment(environment())
    ran = await run_queries(prepared, [query_from(loaded.examples[0])], around)
    await identical(ran.path)


CHANGES = [
    # agent, in its file, becomes: what changed, at which model call, made by whom, showing at which step, in the diff
    ("search", "Deliver the summary alone", "Give the summary", "prompt changed", 1, "search", "1", "Give the summary"),
    ("triage", "give the steps in order", "be brief", "prompt changed", 2, "support", "2", "be brief"),
    ("triage", "find_fault", "look_up", "tool schema changed", 2, "support", "2", "look_up"),
    ("triage", 'name="billing"', 'name="money"', "handoffs changed", 1, "triage", "1", "transfer_to_money"),
    ("manager", "list what you found", "write up what you found", "prompt changed", 2, "researcher", "1.1", "write up"),
    ("manager", "You read a draft", "You tear up a draft", "prompt changed", 7, "critic", None, "tear up"),
    ("manager", '"criticise"', '"object"', "tool schema changed", 1, "manager", "1", "object"),
    ("extractor", "amount: int", "amount: float", "output schema changed", 1, "extractor", None, "number"),
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("name", "before", "after", "what", "call", "agent", "step", "shown"), CHANGES)
async def test_a_change_is_told_where_it_first_shows(
    name: str, before: str, after: str, what: str, call: int, agent: str, step: str | None, shown: str, tmp_path: Path
):
    query, script = EXAMPLES[name]
    run = await archived(name, query, numbered(script), tmp_path / "runs")
    for outcome in await replayed(run, changed(name, tmp_path, before, after)):
        found = outcome.divergence
        assert found
        assert (found.what, found.call, found.agent, found.step) == (what, call, agent, step)
        assert shown in found.diff
        assert outcome.replayed == call - 1


LIVE = {
    "triage": ("is replaced under warranty", "is not replaced", "find_fault", "2"),
    "mcp_notes": ("SERVER = Path(__file__)", "SERVER = Path(__file__).parent.joinpath('other', 'x')", "add_note", "1"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", marked(LIVE))
async def test_a_changed_tool_output_is_told_with_the_tools_run_again_and_only_then(name: str, tmp_path: Path):
    before, after, tool, step = LIVE[name]
    query, script = EXAMPLES[name]
    run = await archived(name, query, numbered(script), tmp_path / "runs")
    agent = changed(name, tmp_path, before, after)
    (tmp_path / "other").mkdir()
    server = (tmp_path / "_notes_server.py").read_text("utf-8").replace("Noted; there are", "Written down:")
    (tmp_path / "other" / "_notes_server.py").write_text(server, "utf-8")
    await identical(run, agent)
    for outcome in await replayed(run, agent, live_tools=True):
        found = outcome.divergence
        assert found
        assert (found.what, found.tool, found.step) == ("tool output changed", tool, step)
        assert "\n-" in found.diff
        assert "\n+" in found.diff


@pytest.mark.nightly
@pytest.mark.process
async def test_without_live_tools_no_tool_runs_and_no_server_starts(tmp_path: Path):
    run = await archived("mcp_notes", "Note this.", numbered(noting), tmp_path / "runs")
    await identical(run, changed("mcp_notes", tmp_path, "sys.executable", '"/no/such/command"'))
    run = await archived("triage", "It shows E07.", numbered(triaging), tmp_path / "runs")
    broken = "raise SystemExit('a tool ran')"
    await identical(run, changed("triage", tmp_path, "return FAULTS", f"{broken}\n    return FAULTS"))


TOOLS = """
import json
import shutil
from agents import Agent, ToolOutputText, function_tool

@function_tool
def parts(word: str) -> list[ToolOutputText]:
    "Give parts."
    return [ToolOutputText(text=word), ToolOutputText(text="more")]

@function_tool
def mapping(word: str) -> dict:
    "Give an object."
    return {"k": [1, 2], "s": word}

@function_tool
def raising(word: str) -> str:
    "Raise."
    raise ValueError(word)

@function_tool(failure_error_function=None)
def fatal(word: str) -> str:
    "Raise, and end the run."
    raise ValueError(word)

def build():
    return Agent(name="a", instructions="Go.", model="m", tools=[parts, mapping, raising, fatal])
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(TOOLS)
    return str(tmp_path / "own.py")


def calling(*turns: tuple[str, ...]) -> Script:
    """Call tools, turn by turn, then answer."""

    def script(seen: Seen) -> Say:
        done = len(seen.tool_outputs)
        for names in turns:
            if done < len(names):
                return Say(calls=tuple((name, {"word": f"w{i}"}) for i, name in enumerate(names)))
            done -= len(names)
        return Say("Done.")

    return script


@BOTH_APIS
async def test_outputs_of_every_shape_come_back_as_the_model_saw_them(api: str, own: str, tmp_path: Path):
    run = await archived(own, "Go.", calling(("parts", "mapping", "raising"), ("mapping",)), tmp_path, api)
    await identical(run, own)
    await identical(run, own, live_tools=True)


async def test_rollouts_that_failed_fail_again_in_the_same_way(own: str, tmp_path: Path):
    endless = lambda seen: Say(calls=(("mapping", {"word": "x"}), ("raising", {"word": "x"})))  # noqa: E731
    for script, more, kind in (
        (endless, {"max_turns": 2}, "max_turns"),
        (calling(("fatal",)), {}, "tool"),
        (calling(("no_such_tool",)), {}, "output"),
        (lambda seen: Say("cut", finish="length"), {}, "truncated"),
        (
            lambda seen: (
                Refuse(400, "too long", code="context_length_exceeded")
                if seen.tool_outputs
                else Say(calls=(("mapping", {"word": "x"}),))
            ),
            {},
            "context_length",
        ),
    ):
        run = await archived(own, "Go.", script, tmp_path, **more)  # type: ignore[arg-type]
        with RunReader(run) as reader:
            kinds = [r.failure and r.failure.kind for _, r in _chosen(reader, None, None)]
        assert kinds == [kind, kind]
        await identical(run, own)


async def test_an_agent_that_asks_more_or_less_often_than_recorded_diverges(own: str, tmp_path: Path):
    run = await archived(own, "Go.", calling(("mapping",), ("mapping",)), tmp_path / "runs")
    stops = TOOLS.replace("tools=[", "tool_use_behavior='stop_on_first_tool', tools=[")
    (tmp_path / "stops.py").write_text(stops)
    for outcome in await replayed(run, str(tmp_path / "stops.py")):
        assert outcome.divergence
        assert (outcome.divergence.what, outcome.divergence.call) == ("fewer calls", 2)
    run = await archived(str(tmp_path / "stops.py"), "Go.", calling(("mapping",)), tmp_path / "runs")
    for outcome in await replayed(run, own):
        assert outcome.divergence
        assert (outcome.divergence.what, outcome.divergence.call) == ("more calls", 2)


async def test_what_is_not_there_is_refused(own: str, tmp_path: Path):
    run = await archived(own, "Go.", calling(("mapping",)), tmp_path)
    for asked, said in (({"query": "nope"}, "no query 'nope'"), ({"rollout": 7}, "no rollout 7")):
        with pytest.raises(UsageError, match=said):
            await replayed(run, own, **asked)
    shutil.move(own, tmp_path / "elsewhere.py")
    with anyio.CancelScope(), pytest.raises(UsageError, match="--agent"):
        await replayed(run)


ASKING = """
from agents import Agent, GuardrailFunctionOutput, Runner, input_guardrail

critic = Agent(name="critic", instructions="Object.", model="m")

@input_guardrail(run_in_parallel=False)
async def asking(context, agent, message):
    result = await Runner.run(critic, "Well?")
    return GuardrailFunctionOutput(result.final_output, tripwire_triggered=False)

def build():
    return Agent(name="a", instructions="Go.", model="m", input_guardrails=[asking])
"""


async def test_a_guardrail_that_asks_a_model_is_replayed_and_asks_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "asking.py").write_text(ASKING)
    agent = str(tmp_path / "asking.py")
    with FakeEndpoint(agent=lambda _: Say("Fine."), judge=fair_judge()).serving() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
        settings = load({"model": "m", "n": 2, "runs_dir": tmp_path / "runs"})
        prepared = await prepare(load_agent(agent, tmp_path), settings, environment())
        around = RunEnvironment(environment())
        run = (await run_queries(prepared, [query_from("Q")], around)).path
        asked = len(endpoint.requests)
        await identical(run, agent)
        (tmp_path / "asking.py").write_text(ASKING.replace("Well?", "Is it so?"))
        for outcome in await replayed(run, agent):
            assert outcome.divergence
            assert (outcome.divergence.what, outcome.divergence.agent) == ("input changed", "critic")
        assert len(endpoint.requests) == asked


PICTURE = "data:image/png;base64,AA=="
LOOKING = """
from agents import Agent, Runner, ToolOutputImage, ToolOutputText, function_tool

@function_tool
def look():
    "Look."
    return {}

async def answer(query: str) -> str:
    result = await Runner.run(Agent(name="a", tools=[look]), query)
    return repr(next(item.output for item in result.new_items if item.type == "tool_call_output_item"))
"""


@pytest.mark.parametrize(
    "returned",
    [
        f"ToolOutputImage(image_url={PICTURE!r})",
        f"[ToolOutputText(text='seen'), ToolOutputImage(image_url={PICTURE!r})]",
        f"{{'type': 'image', 'image_url': {PICTURE!r}}}",
        f"[{{'type': 'image', 'image_url': {PICTURE!r}}}]",
        "ToolOutputText(text='seen')",
        "'seen'",
    ],
)
async def test_an_app_gets_the_recorded_outputs_of_tools_as_its_tools_gave_them(returned: str, tmp_path: Path):
    (tmp_path / "app.py").write_text(LOOKING.format(returned))
    script: Script = lambda seen: Say("Done.") if len(seen.items) > 1 else Say(calls=(("look", {}),))  # noqa: E731
    run = await archived(f"{tmp_path / 'app.py'}:answer", "Look.", script, tmp_path / "runs", "responses")
    await identical(run, f"{tmp_path / 'app.py'}:answer")
