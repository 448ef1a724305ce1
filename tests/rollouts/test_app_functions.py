"""An app's function as the agent: every run inside of it is one trajectory, under the settings of the rollout."""

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner
from pydantic import BaseModel

import harness
from harness import AgentEnv, Query
from harness.cli.app import app as cli
from harness.core.errors import UsageError
from harness.rollouts.app_functions import is_app_function
from harness.rollouts.loading import load_agent
from tests.conftest import ROOT
from tests.fake_endpoint import FakeEndpoint, Say, Seen, fair_judge
from tests.rollouts.test_capture import roll_out
from tests.rollouts.test_replay import archived, identical, replayed

pytestmark = pytest.mark.anyio
BOTH_APIS = pytest.mark.parametrize("api", ["chat", "responses"])

APP = ROOT / "tests" / "data" / "apps" / "airline.py"
QUERY = "Move me to 12A, and may I bring a bag?"
ANSWER = "It is done. [Triage Agent: faq_lookup_tool; Triage Agent to Seat Agent; Seat Agent: update_seat; seat 12A]"
BARE = """
import asyncio, runpy, sys
from agents import set_default_openai_api, set_default_openai_client
from openai import AsyncOpenAI

async def main(file, query, *servers):
    for api, url in zip(("chat_completions", "responses"), servers, strict=True):
        set_default_openai_api(api)
        set_default_openai_client(AsyncOpenAI(base_url=url, api_key="none"), use_for_tracing=False)
        for _ in range(2):
            print(await runpy.run_path(file)["answer"](query))

asyncio.run(main(*sys.argv[1:]))
"""


def scripted(seen: Seen) -> Say:
    """Look up, hand over, update the seat; else say that it is done."""
    last = str(seen.items[-1])
    if "'user'" in last and "once more" not in last:
        return Say(reasoning="I look.", calls=(("faq_lookup_tool", {"question": "May I bring a bag?"}),))
    if "One bag" in last:
        return Say(calls=(("transfer_to_seats", {}),))
    if "assistant" in last and "Seat Agent" in last:
        return Say(calls=(("update_seat", {"confirmation_number": "C0FFEE", "new_seat": "12A"}),))
    return Say("It is done.")


@pytest.fixture
def app() -> str:
    return f"{APP}:answer"


@BOTH_APIS
async def test_all_runs_of_an_app_are_one_trajectory_in_order_without_a_warning_of_its_traces(
    app: str, api: str, caplog: pytest.LogCaptureFixture
):
    rollouts, requests = await roll_out(app, scripted, api, n=2)
    assert sorted(seen.body["temperature"] for seen in requests) == [0.0] * 5 + [0.8] * 5
    assert {seen.body["model"] for seen in requests} == {"m"}
    for rollout in rollouts:
        assert (rollout.status, rollout.capture, rollout.capture_gaps) == ("ok", "full", ())
        assert rollout.trajectory.answer == ANSWER
        assert [(s.kind, s.agent, s.tool_output or s.reasoning) for s in rollout.trajectory.path] == [
            ("tool", "Triage Agent", "One bag, under 50 pounds and 22 × 14 × 9 inches."),
            ("handoff", "Triage Agent", "handed over to Seat Agent"),
            ("tool", "Seat Agent", "Ada Lovelace sits at 12A of FLT-417 (C0FFEE)"),
            ("message", "Seat Agent", "It is done."),
        ]
        assert [call.agent for call in rollout.calls] == ["Triage Agent"] * 2 + ["Seat Agent"] * 3
        assert rollout.effective.uniform
    assert "Trace already exists" not in caplog.text


def unsampled(seen: Seen) -> str:
    """Return a request's bytes without the sampling."""
    assert json.dumps(seen.body, ensure_ascii=False, separators=(",", ":")).encode() == seen.raw
    kept = {name: value for name, value in seen.body.items() if name not in {"temperature", "top_p", "seed"}}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.nightly
@pytest.mark.process
def test_the_command_sends_the_bytes_of_the_bare_app_but_for_the_sampling(app: str, tmp_path: Path):
    bare, run = [[FakeEndpoint(agent=scripted) for _ in range(2)] for _ in range(2)]
    with ExitStack() as serving:
        for endpoint in bare + run:
            serving.enter_context(endpoint.serving())
        command = [sys.executable, "-c", BARE, APP, QUERY, *(endpoint.base_url for endpoint in bare)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == [ANSWER] * 4
        for api, endpoint in zip(("chat", "responses"), run, strict=True):
            options = f"-n 2 --topology none --judge-model offline-features --api {api} --concurrency 1 -q".split()
            environ = {"OPENAI_BASE_URL": endpoint.base_url}
            argv = ["run", "--agent", app, QUERY, *options, "--runs-dir", str(tmp_path)]
            cli.main(argv, standalone_mode=False, obj=environ)
    for theirs, ours in zip(bare, run, strict=True):
        assert len(theirs.requests) == 10
        assert [*map(unsampled, ours.requests)] == [*map(unsampled, theirs.requests)]
        assert {seen.body["temperature"] for seen in ours.requests} == {0.0, 0.8}


@BOTH_APIS
async def test_it_is_replayed_with_its_tools_whose_marks_its_answer_reads(app: str, api: str, tmp_path: Path):
    run = await archived(app, QUERY, scripted, tmp_path / "runs", api)
    await identical(run, app, live_tools=True)
    without = [outcome.divergence for outcome in await replayed(run, app)]
    said = "--live-tools runs the tools, which may have set what this is made of"
    assert [d and (d.what, d.detail) for d in without] == [("answer changed", said)] * 2


async def test_it_is_judged_resumed_and_compared_as_an_agent_is(app: str, tmp_path: Path):
    with FakeEndpoint(agent=scripted, judge=fair_judge()).serving() as endpoint:
        at: dict[str, Any] = {"model": "m", "base_url": endpoint.base_url, "judge_model": "judge", "runs_dir": tmp_path}
        run = await harness.run(app, QUERY, n=2, **at)
        assert run.ranking().finished
        assert (await harness.resume(run)).path == run.path
        comparison = await harness.compare(app, app, queries=[QUERY], n=2, **at)
        assert comparison.results
        best = await harness.best_of(load_agent(app, Path.cwd()).source, QUERY, 2, **at)
    assert best.answer == ANSWER


class Verdict(BaseModel):
    text: str
    sure: bool


async def typed(query: Query) -> Verdict:
    return Verdict(text=query.text, sure=True)


async def result(query: Any) -> Any:
    return await Runner.run(Agent(name="a"), query)


@pytest.mark.parametrize(("function", "answer"), [(typed, '{"text":"Do it.","sure":true}'), (result, "Hi.")])
async def test_an_answer_may_be_a_model_or_the_result_of_a_run(function: Any, answer: str):
    ((rollout,), _) = await roll_out(function, lambda _: Say("Hi."))
    assert (rollout.status, rollout.trajectory.answer) == ("ok", answer)


def refunding(seen: Seen) -> Say:
    """Ask for a refund where there is the tool, twice; then tell of it."""
    if not seen.body.get("tools") or len(seen.tool_outputs) == 2:
        return Say(f"So {len(seen.tool_outputs)} are refunded.")
    return Say(calls=(("refund", {"order": f"order {len(seen.tool_outputs) + 1}"}),))


@pytest.mark.few(2)
@BOTH_APIS
@pytest.mark.parametrize("name", ["durable", "asked"])
async def test_the_docs_handler_and_durable_runner_are_one_trajectory_that_is_replayed(
    name: str, api: str, tmp_path: Path
):
    (tmp_path / "app.py").write_text((ROOT / "examples" / "durable_app.py").read_text("utf-8"))
    agent = f"{tmp_path / 'app.py'}:{name}"
    rollouts, requests = await roll_out(agent, refunding, api, n=2)
    for rollout in rollouts:
        assert (rollout.status, rollout.capture, rollout.trajectory.answer) == ("ok", "full", "So 0 are refunded.")
        assert [step.tool_output or step.reasoning for step in rollout.trajectory.path] == [
            "order 1 is refunded",
            "order 2 is refunded",
            "So 2 are refunded.",
        ]
        assert [call.agent for call in rollout.calls] == ["clerk"] * 3 + ["writer"]
    assert sorted(seen.body["temperature"] for seen in requests) == [0.0] * 4 + [0.8] * 4
    await identical(await archived(agent, "Go.", refunding, tmp_path / "runs", api), agent)


async def test_what_it_raises_or_returns_wrongly_fails_its_rollout_and_says_so():
    async def broken(query: str) -> str:
        raise LookupError("no such user")

    async def odd(query: Any) -> Any:
        return Agent(name="a")

    async def opaque(query: str) -> Any:
        return object()

    async def forgetful(query: str) -> None: ...

    said = ["no such user; raised in broken", "one that builds an agent is `async def build", "neither text nor JSON"]
    said += ["forgetful returned None: a function of the query returns its answer"]
    for function, words in zip((broken, odd, opaque, forgetful), said, strict=True):
        ((rollout,), _) = await roll_out(function, lambda _: Say("Hi."))
        assert rollout.failure
        assert rollout.failure.kind == "agent_code"
        assert words in rollout.failure.message


async def by_env(env: Any) -> Any: ...
async def by_type(anything: AgentEnv) -> Any: ...
async def by_what_it_returns(anything: int) -> Agent[Any]: ...
async def of_nothing() -> Any: ...
def not_async(query: str) -> Agent[Any]: ...  # pyright: ignore[reportReturnType]
async def by_name(query: Any) -> Any: ...
async def by_text(question: str) -> Any: ...
async def by_answer(question: Any) -> Verdict | str: ...
async def by_default(query: Any = "Hi.", user: str = "Ada") -> Any: ...


def test_functions_are_told_apart_by_what_they_take_and_return():
    assert [is_app_function(f) for f in (by_env, by_type, by_what_it_returns, of_nothing, not_async)] == [False] * 5
    assert [is_app_function(f) for f in (by_name, by_text, by_answer, by_default)] == [True] * 4


async def test_arguments_for_its_runs_are_refused():
    with pytest.raises(UsageError, match=r"hooks=: 'typed' is a function, which gives that to its runs itself"):
        await harness.rollout(typed, "Hi.", n=2, hooks=lambda: None, base_url="http://127.0.0.1:9/v1")
