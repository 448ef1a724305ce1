"""What a rollout runs in: inputs beyond text, contexts, set-up and clean-up."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunContextWrapper, function_tool

import harness
from harness.archive.store import MemoryStore
from harness.core.records import Query
from harness.formats.queries import read_queries
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Say, Seen
from tests.rollouts.test_capture import roll_out

pytestmark = pytest.mark.anyio

HISTORY = [
    {"role": "user", "content": "My name is Ada."},
    {"role": "assistant", "content": "Hello Ada."},
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "What is on this?"},
            {"type": "input_image", "image_url": "http://example/cat.png", "detail": "auto"},
        ],
    },
]


async def test_a_query_of_input_items_reaches_the_model_whole_and_reads_as_text(tmp_path: Path):
    (tmp_path / "q.jsonl").write_text(json.dumps({"id": "one", "query": HISTORY, "tag": "cats", "expected": "A cat."}))
    (query,) = read_queries(str(tmp_path / "q.jsonl"))
    with FakeEndpoint(agent=lambda _: Say("A cat.")).serving() as endpoint:
        await harness.rollout(Agent(name="a"), query, n=2, model="m", base_url=endpoint.base_url)
    for seen in endpoint.requests:
        assert [m["role"] for m in seen.items] == ["user", "assistant", "user"]
        assert "http://example/cat.png" in json.dumps(seen.body)
    assert query.text.startswith("user: My name is Ada.\n\nassistant: Hello Ada.")
    assert "[input_image http://example/cat.png]" in query.text
    assert (query.reference, query.metadata) == ("A cat.", {"tag": "cats"})


async def test_a_query_given_from_python_may_be_a_list_of_items():
    query = Query(id="q", text="said", items=({"role": "user", "content": "Hello."},))
    with FakeEndpoint(agent=lambda _: Say("Hi.")).serving() as endpoint:
        await harness.rollout(Agent(name="a"), query, n=1, model="m", base_url=endpoint.base_url)
    assert endpoint.requests[0].user == "Hello."


SOURCE = '''
from agents import Agent, RunContextWrapper, function_tool
EVENTS = []
COUNT = [0]

def context(query):
    COUNT[0] += 1
    return {"query": query.text, "number": COUNT[0]}

async def before_rollout(query, context):
    EVENTS.append(("before", context["number"]))

def after_rollout(query, context):
    EVENTS.append(("after", context["number"]))
    if query.text == "Break.":
        raise OSError("disk gone")

@function_tool
async def number(ctx: RunContextWrapper) -> str:
    """Tell the number."""
    if ctx.context["query"] == "Fail.":
        raise SystemError("inside")
    return str(ctx.context["number"])

agent = Agent(name="numbered", tools=[number])
'''


def script(seen: Seen) -> Say:
    return Say(seen.tool_outputs[0]) if seen.tool_outputs else Say(calls=(("number", {}),))


async def run(query: str, folder: Path, monkeypatch: pytest.MonkeyPatch, n: int = 4) -> Any:
    monkeypatch.chdir(folder)
    with FakeEndpoint(agent=script).serving() as endpoint:
        return await harness.rollout("numbered.py", query, n=n, model="m", base_url=endpoint.base_url)


async def test_each_rollout_has_a_context_of_its_own_and_is_set_up_and_cleaned_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "numbered.py").write_text(SOURCE)
    group = await run("Go.", tmp_path, monkeypatch)
    events = next(m for m in sys.modules.values() if getattr(m, "COUNT", None) == [4]).EVENTS
    assert sorted(r.trajectory.answer for r in group.rollouts) == ["1", "2", "3", "4"]
    assert sorted(events) == sorted((when, i) for i in range(1, 5) for when in ("before", "after"))


async def test_a_clean_up_that_raises_is_told_beside_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "numbered.py").write_text(SOURCE)
    group = await run("Break.", tmp_path, monkeypatch, n=2)
    assert [r.status for r in group.rollouts] == ["ok", "ok"]
    assert [r.clean_up_error for r in group.rollouts] == ["after_rollout raised OSError: disk gone"] * 2


async def test_a_set_up_that_raises_fails_its_rollout_and_still_cleans_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source = SOURCE.replace('EVENTS.append(("before", context["number"]))', 'raise OSError("no disk")')
    (tmp_path / "numbered.py").write_text(source + "\nMARK = 'set-up fails'\n")
    group = await run("Go.", tmp_path, monkeypatch, n=2)
    module = next(m for m in sys.modules.values() if getattr(m, "MARK", None) == "set-up fails")
    assert [r.failure.kind for r in group.rollouts if r.failure] == ["agent_code"] * 2
    assert all("no disk; raised in before_rollout (" in r.failure.message for r in group.rollouts if r.failure)
    assert len(module.EVENTS) == 2


@pytest.mark.parametrize(
    ("body", "verified", "error"),
    [
        ("return float(rollout.trajectory.answer == query.reference)", 1.0, None),
        ("return True", 1.0, None),
        ("return None", None, None),
        ("raise KeyError('gone')", None, "reward raised KeyError: 'gone'"),
        ("return float('nan')", None, "reward raised ValueError: it gave nan, which ranks nowhere"),
        ("return 'good'", None, "reward raised ValueError: could not convert string to float: 'good'"),
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_the_agent_s_own_reward_is_recorded_or_why_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, verified: float | None, error: str | None, kind: str
):
    (tmp_path / "numbered.py").write_text(f"{SOURCE}\n{kind} reward(rollout, query):\n    {body}\n")
    monkeypatch.chdir(tmp_path)
    store = MemoryStore()
    with FakeEndpoint(agent=script).serving() as endpoint:
        query = Query(id="q", text="Go.", reference="1")
        group = await harness.rollout("numbered.py", query, n=1, model="m", base_url=endpoint.base_url, store=store)
    (rollout,) = group.rollouts
    assert (rollout.status, rollout.verified, rollout.verify_error) == ("ok", verified, error)
    assert store.rollouts == [rollout]


async def test_a_failed_rollout_is_not_asked_for_a_reward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = SOURCE.replace("function_tool\nasync", "function_tool(failure_error_function=None)\nasync")
    (tmp_path / "numbered.py").write_text(f"{source}\ndef reward(rollout, query):\n    return 1.0\n")
    group = await run("Fail.", tmp_path, monkeypatch, n=2)
    assert [(r.status, r.verified) for r in group.rollouts] == [("failed", None)] * 2


async def test_the_context_reaches_tools(monkeypatch: pytest.MonkeyPatch):
    @function_tool
    async def tell(ctx: RunContextWrapper[Any]) -> str:
        """Tell."""
        return str(ctx.context)

    (rollout,), _ = await roll_out(
        Agent(name="a", tools=[tell]),
        lambda seen: Say("Done.") if seen.tool_outputs else Say(calls=(("tell", {}),)),
    )
    assert rollout.trajectory.path[0].tool_output == "None"


def test_a_history_is_shown_to_the_judge_as_text(harness: Harness, endpoint: FakeEndpoint, tmp_path: Path):
    (tmp_path / "q.jsonl").write_text(json.dumps({"query": HISTORY}))
    done = harness("run", "--queries", "q.jsonl", "--model", "m", "-n", "2", env={"OPENAI_BASE_URL": endpoint.base_url})
    assert done.code == 0, done.err
    assert all("assistant: Hello Ada." in r.user for r in endpoint.of_judge)
