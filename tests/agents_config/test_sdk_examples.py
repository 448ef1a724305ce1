"""The SDK's own example agents, from its source distribution and unchanged, run by `path.py:attr`.

Their code is not ours to keep: the distribution is downloaded at test time into pytest's cache, and where it cannot be
had these tests skip.
"""

import json
import subprocess
import sys
import tarfile
from importlib.metadata import version
from itertools import count
from pathlib import Path

import pytest
from agents.models import get_default_model
from filelock import FileLock

from harness.core.settings import Api
from tests.agents_config.exchanges import N, by_rollout, rolled_out, tools_in
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Say, Script, Seen

pytestmark = pytest.mark.anyio

BOTH_APIS = pytest.mark.parametrize("api", ["chat", "responses"])
SDK = f"openai-agents=={version('openai-agents')}"


def download(folder: Path) -> None:
    """Have pip put the source distribution into a folder, or skip."""
    options = "--no-deps --no-binary openai-agents --retries 1 --timeout 15".split()
    fetch = [sys.executable, "-m", "pip", "download", SDK, *options, "-d", str(folder)]
    try:
        done = subprocess.run(fetch, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"the source distribution of {SDK} did not arrive within a minute")
    if done.returncode:
        reason = (done.stderr.strip() or "pip gave no reason").splitlines()[-1]
        pytest.skip(f"the source distribution of {SDK} cannot be had here: {reason}")


@pytest.fixture(scope="session")
def sdist(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that holds the SDK's `examples`, or skip."""
    cache = request.config.cache
    kept = cache.mkdir(SDK.replace("==", "-")) if cache else tmp_path_factory.mktemp("sdist")
    with FileLock(kept / "download.lock"):  # test workers share the cache
        if not list(kept.glob("*.tar.gz")):
            download(kept)
    unpacked = tmp_path_factory.mktemp("sdk")
    with tarfile.open(next(kept.glob("*.tar.gz"))) as tar:
        tar.extractall(unpacked, filter="data")
    (folder,) = unpacked.iterdir()
    return folder


@pytest.fixture
def at_the_sdk(sdist: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in the SDK's folder, as its README tells people to: `python -m` finds the `examples` package there."""
    monkeypatch.chdir(sdist)
    monkeypatch.syspath_prepend(sdist)
    return sdist


def once(name: str, arguments: dict[str, str]) -> Script:
    """Call a tool wherever it is offered and unanswered; else say something that was never said before."""
    numbers = count(1)

    def script(seen: Seen) -> Say:
        answered = sum(name in str(i) for i in seen.items)
        if name in tools_in(seen) and not answered:
            return Say(reasoning=f"I need {name}.", calls=((name, arguments),))
        return Say(f"Answer {next(numbers)}.")

    return script


@BOTH_APIS
@pytest.mark.usefixtures("at_the_sdk")
async def test_tools(api: Api):
    script = once("get_weather", {"city": "Tokyo"})
    rollouts, logged = await rolled_out("examples/basic/tools.py:agent", "Weather?", script, api, model=None)
    for done in rollouts:
        (step,) = done.trajectory.path
        assert (step.tool_name, step.tool_type, step.agent) == ("get_weather", "function", "Hello world")
        assert "Sunny with wind." in (step.tool_output or "")
    assert {seen.body["model"] for seen, _ in logged.exchanges} == {get_default_model()}


@BOTH_APIS
@pytest.mark.usefixtures("at_the_sdk")
async def test_routing(api: Api):
    script = once("transfer_to_french_agent", {})
    agent = "examples/agent_patterns/routing.py:triage_agent"
    rollouts, logged = await rolled_out(agent, "Good evening in French?", script, api, model=None)
    for done in rollouts:
        (step,) = done.trajectory.path
        assert (step.kind, step.agent, step.tool_output) == ("handoff", "triage_agent", "handed over to french_agent")
    for exchanges in by_rollout(logged, rollouts):
        assert [seen.system[:20] for seen, _ in exchanges] == ["Handoff to the appro", "You only speak Frenc"]


TRANSLATORS = ("translate_to_spanish", "translate_to_french")


def two_tools() -> Script:
    """Ask each translator, each of which says another text every time, then answer."""
    numbers = count(1)

    def script(seen: Seen) -> Say:
        if not tools_in(seen):
            return Say(f"{seen.system[-7:]} {next(numbers)}")
        done = len(seen.tool_outputs)
        return Say(calls=((TRANSLATORS[done], {"input": "Hello"}),)) if done < 2 else Say(f"Both, {next(numbers)}.")

    return script


@BOTH_APIS
@pytest.mark.usefixtures("at_the_sdk")
async def test_agents_as_tools(api: Api):
    agent = "examples/agent_patterns/agents_as_tools.py:orchestrator_agent"
    rollouts, logged = await rolled_out(agent, "Hello in Spanish and French?", two_tools(), api, model=None)
    for done, exchanges in zip(rollouts, by_rollout(logged, rollouts), strict=True):
        assert [(s.tool_name, s.tool_type) for s in done.trajectory.path] == [(w, "agent") for w in TRANSLATORS]
        assert [s.tool_output for s in done.trajectory.path] == [exchanges[1][1].text, exchanges[3][1].text]


@BOTH_APIS
@pytest.mark.parametrize(("said", "kind"), [("Sacramento", None), ("Call 650-123-4567", "guardrail")])
@pytest.mark.usefixtures("at_the_sdk")
async def test_output_guardrails(api: Api, said: str, kind: str | None):
    reply = {"reasoning": "I know it.", "response": said, "user_name": None}
    agent = "examples/agent_patterns/output_guardrails.py:agent"
    rollouts, _ = await rolled_out(agent, "The capital?", lambda _: Say(json.dumps(reply)), api, model=None)
    for done in rollouts:
        assert (done.failure.kind if done.failure else None) == kind
        last = done.trajectory.path[-1]
        assert (last.kind, last.tool_output) == ("guardrail", "tripped" if kind else "passed")
        assert kind or json.loads(done.trajectory.answer) == reply


@pytest.mark.few(1)
@BOTH_APIS
@pytest.mark.usefixtures("at_the_sdk")
async def test_customer_service_answers_questions_and_passes_the_customer_to_and_fro(api: Api):
    moves = [
        ("transfer_to_faq_agent", {}),
        ("faq_lookup_tool", {"question": "Is there wifi?"}),
        ("transfer_to_triage_agent", {}),
    ]
    numbers = count(1)

    def script(seen: Seen) -> Say:
        done = len(seen.tool_outputs)
        return Say(calls=(moves[done],)) if done < len(moves) else Say(f"Answer {next(numbers)}.")

    agent = "examples/customer_service/main.py:triage_agent"
    rollouts, _ = await rolled_out(agent, "Is there wifi?", script, api, model=None)
    for done in rollouts:
        assert [(s.kind, s.agent) for s in done.trajectory.path] == [
            ("handoff", "Triage Agent"),
            ("tool", "FAQ Agent"),
            ("handoff", "FAQ Agent"),
        ]
        assert done.trajectory.path[1].tool_output == "We have free wifi on the plane, join Airline-Wifi"


def test_the_command_line_takes_them_with_nothing_set_but_the_server(harness: Harness, sdist: Path, tmp_path: Path):
    with FakeEndpoint(agent=once("transfer_to_spanish_agent", {})).serving() as endpoint:
        done = harness(
            *"run Hola --agent examples/agent_patterns/routing.py:triage_agent -n".split(),
            str(N),
            "--json",
            "--runs-dir",
            str(tmp_path),
            cwd=sdist,
            env={"OPENAI_BASE_URL": endpoint.base_url},
        )
    assert done.code == 0, done.err
    assert [(r["status"], r["steps"]) for r in done.json["groups"][0]["rollouts"]] == [("ok", 1)] * N
    assert sorted({r.body["temperature"] for r in endpoint.of_agent}) == [0.0, 0.8]
