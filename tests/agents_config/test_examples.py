"""Each packaged example: its archive holds what the server and the tools saw, and every call had its temperature."""

import json
import random
import shutil
from itertools import count, cycle
from pathlib import Path
from typing import Any

import pytest
from agents import Agent

from harness import AgentEnv, rollout
from harness.core.records import Rollout
from harness.core.settings import Api
from harness.endpoints.refused_settings import leaves_reasoning
from harness.rollouts.examples import AGENT_MODEL
from harness.rollouts.loading import load_agent
from tests.agents_config.exchanges import N, by_rollout, flatten, marked, rolled_out, tools_in
from tests.conftest import ROOT, Harness
from tests.fake_endpoint import FakeEndpoint, Say, Script, Seen

pytestmark = pytest.mark.anyio

FILES = sorted(p for p in (ROOT / "agents_config").glob("*.py") if not p.name.startswith("_"))
BOTH_APIS = pytest.mark.parametrize("api", ["chat", "responses"])


def kinds(done: Rollout) -> list[tuple[Any, ...]]:
    return [(s.kind, s.tool_name, s.tool_type, s.agent) for s in done.trajectory.path]


@BOTH_APIS
async def test_triage_hands_over_and_the_specialist_looks_the_fault_up(api: Api):
    codes, numbers = cycle(["E07", "e03 ", "E99"]), count(1)

    def script(seen: Seen) -> Say:
        if "transfer_to_support" in tools_in(seen):
            return Say(reasoning="A fault: I hand over.", calls=(("transfer_to_support", {}),))
        if len(seen.tool_outputs) < 2:
            return Say(reasoning="I look it up.", calls=(("find_fault", {"code": next(codes)}),))
        return Say(f"Answer {next(numbers)}.")

    rollouts, logged = await rolled_out("triage", "It shows E07.", script, api)
    offered = [["transfer_to_billing", "transfer_to_support"], ["find_fault"], ["find_fault"]]
    for done, exchanges in zip(rollouts, by_rollout(logged, rollouts), strict=True):
        assert [tools_in(seen) for seen, _ in exchanges] == offered
        assert kinds(done) == [
            ("handoff", "transfer_to_support", None, "triage"),
            ("tool", "find_fault", "function", "support"),
        ]
        assert done.trajectory.path[0].tool_output == "handed over to support"
    found = {str(r.trajectory.path[1].tool_output)[:24] for r in rollouts}
    assert found == {"The wind vane does not r", "Battery low. Two AA cell", "There is no fault code E"}


@BOTH_APIS
async def test_the_managers_helpers_are_asked_and_what_they_did_stands_inside(api: Api):
    numbers = count(1)

    def manager(done: int) -> Say:
        calls = (("research", {"input": f"Facts on {next(numbers)}."}), ("criticise", {"input": f"Draft {done}."}))
        return Say(reasoning=f"Move {done}.", calls=(calls[done],)) if done < 2 else Say(f"Text {next(numbers)}.")

    def script(seen: Seen) -> Say:
        names, done = tools_in(seen), len(seen.tool_outputs)
        if "research" in names:
            return manager(done)
        if "search" in names and not done:
            queries = ("garbage collection", f"lisp {next(numbers)}")
            return Say(reasoning="Two at once.", calls=tuple(("search", {"query": q}) for q in queries))
        return Say(f"Found or objected: {next(numbers)}.")

    rollouts, logged = await rolled_out("manager", "Why?", script, api)
    for done, exchanges in zip(rollouts, by_rollout(logged, rollouts), strict=True):
        assert kinds(done) == [("tool", "research", "agent", "manager"), ("tool", "criticise", "agent", "manager")]
        research, criticise = done.trajectory.path
        assert [(s.tool_name, s.agent) for s in research.inner] == [("search", "researcher")] * 2
        assert criticise.inner == ()
        nested = [said.text for seen, said in exchanges if "research" not in tools_in(seen) and said.text]
        assert [research.tool_output, criticise.tool_output] == nested


@pytest.mark.nightly
@pytest.mark.few(1)
@pytest.mark.process
@BOTH_APIS
async def test_each_rollout_has_a_notes_server_of_its_own(api: Api):
    numbers = count(1)

    def script(seen: Seen) -> Say:
        moves = ("add_note", {"text": f"Zebra {next(numbers)}."}), ("search_notes", {"words": "zebra"})
        done = len(seen.tool_outputs)
        return Say(reasoning="I note.", calls=(moves[done],)) if done < 2 else Say(f"Answer {next(numbers)}.")

    rollouts, _ = await rolled_out("mcp_notes", "Note this.", script, api)
    for done in rollouts:
        added, searched = done.trajectory.path
        assert [(s.tool_type, s.server) for s in (added, searched)] == [("mcp", "notes")] * 2
        assert added.tool_output == "Noted; there are 9 notes now."
        assert searched.tool_output == json.loads(added.tool_input or "")["text"]


def order_of(name: str) -> dict[str, Any]:
    return {"items": [{"name": name, "amount": 12, "unit": "crates"}], "recipient": None, "deliver_by": "Friday"}


@BOTH_APIS
async def test_the_extractor_asks_for_a_schema_and_its_answer_is_json(api: Api):
    order = order_of("Boskoop")
    script: Script = lambda _: Say(json.dumps(order))  # noqa: E731
    rollouts, logged = await rolled_out("extractor", "12 crates of boskoop by Friday", script, api)
    for seen, _ in logged.exchanges:
        asked = seen.body["response_format"]["json_schema"] if api == "chat" else seen.body["text"]["format"]
        assert asked["schema"]["properties"].keys() == order.keys()
    for done in rollouts:
        assert (done.status, done.trajectory.answer_type, json.loads(done.trajectory.answer)) == ("ok", "json", order)
        assert [(s.kind, s.tool_name, s.tool_output) for s in done.trajectory.path] == [
            ("guardrail", "has_an_amount", "passed"),
            ("guardrail", "only_what_was_asked_for", "passed"),
        ]


async def test_an_order_that_lists_what_nobody_asked_for_trips_the_output_guardrail():
    rollouts, logged = await rolled_out(
        "extractor", "12 crates of boskoop", lambda _: Say(json.dumps(order_of("Gala"))), "chat"
    )
    assert len(logged.exchanges) == N
    for done in rollouts:
        assert done.failure
        assert (done.failure.kind, done.failure.type) == ("guardrail", "OutputGuardrailTripwireTriggered")
        assert [s.tool_output for s in done.trajectory.path if s.kind == "guardrail"] == ["passed", "tripped"]


async def test_a_message_without_an_amount_is_stopped_before_anything_is_asked():
    with FakeEndpoint(agent=lambda _: Say("x")).serving() as endpoint:
        group = await rollout("extractor", "Hello there!", N, model="m", base_url=endpoint.base_url)
    assert not endpoint.requests
    assert {r.failure.type for r in group.rollouts if r.failure} == {"InputGuardrailTripwireTriggered"}
    assert [[s.tool_output for s in r.trajectory.path] for r in group.rollouts] == [["tripped"]] * N


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_an_example_says_how_to_run_it_and_has_a_query_of_its_own(file: Path, tmp_path: Path):
    assert f"python -m harness run --agent {file.stem} " in file.read_text("utf-8")
    loaded = load_agent(file.stem, tmp_path)
    assert loaded.packaged
    assert loaded.examples


@pytest.mark.few(2)
@pytest.mark.parametrize("file", marked(FILES), ids=lambda f: f.stem)
async def test_every_agent_of_an_example_takes_the_model_asked_for(file: Path, tmp_path: Path):
    loaded = load_agent(file.stem, tmp_path)
    for model in (None, "llama3"):
        env = AgentEnv(api="chat", offline=False, corpus=None, model=model, rng=random.Random(0))
        async with loaded.open(env) as agent:
            for one in (agent, *agent.handoffs):
                assert isinstance(one, Agent)
                assert one.model == (model or AGENT_MODEL)
                assert leaves_reasoning(one.model_settings)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["triage", "manager", "mcp_notes"])
def test_without_a_key_an_example_runs_on_the_embedded_model(name: str, harness: Harness):
    done = harness("run", "--agent", name, "-n", "2", "--json")
    assert done.code == 0, done.err
    assert [r["status"] for r in done.json["groups"][0]["rollouts"]] == ["ok", "ok"]
    shown = Rollout.model_validate_json(harness("show", "--rollout", "0", "--json").out)
    used = {(s.tool_name, s.tool_type) for s in flatten(shown.trajectory.path) if s.kind == "tool"}
    assert (
        used
        == {
            "triage": set(),
            "manager": {("research", "agent"), ("search", "function")},
            "mcp_notes": {("search_notes", "mcp")},
        }[name]
    )


def test_without_a_model_the_extractor_fails_with_its_cause(harness: Harness):
    done = harness("run", "--agent", "extractor", "-n", "2", "--json")
    assert done.code == 3, done.err
    assert [r["failure"]["kind"] for r in done.json["groups"][0]["rollouts"]] == ["output", "output"]


@pytest.mark.nightly
def test_an_example_with_a_file_beside_it_runs_from_an_installed_package(harness: Harness, tmp_path: Path):
    site = tmp_path / "site"
    shutil.copytree(ROOT / "harness", site / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "agents_config", site / "harness" / "_agents")
    done = harness("run", "--agent", "mcp_notes", "-n", "2", "--json", env={"PYTHONPATH": str(site)})
    assert done.code == 0, done.err
    assert done.json["offline"] is True
