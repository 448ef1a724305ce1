"""The packaged agents, and the SDK's own with handoffs and agents as tools, are forked at every model call."""

from pathlib import Path

import pytest

import harness
from tests.agents_config.test_sdk_examples import at_the_sdk, once, sdist, two_tools
from tests.fake_endpoint import FakeEndpoint, Script
from tests.pipeline.forked_agents import paid_calls, rollouts_of, run_once

pytestmark = [pytest.mark.nightly, pytest.mark.process]
__all__ = ["at_the_sdk", "sdist"]


def check_forks(run: harness.Run, agent: str) -> None:
    (parent,) = rollouts_of(run)
    calls = len(parent.calls)
    rules = harness.ForkRules(at=",".join(map(str, range(calls))))
    made = harness.fork_sync(run, rules, agent, runs_dir=run.path.parent, report=False)
    _, *branches = rollouts_of(made)
    assert [branch.status for branch in branches] == ["ok"] * calls, [branch.failure for branch in branches]
    assert paid_calls(made) == [len(branch.calls) - at for at, branch in enumerate(branches)]
    assert all(replayed.divergence is None for replayed in harness.replay_sync(made, agent=agent))


@pytest.mark.parametrize("agent", ["manager", "mcp_notes", "search", "triage"])  # extractor makes one call
def test_a_packaged_agent_is_forked_at_every_call(agent: str, tmp_path: Path):
    run = harness.run_sync(agent, n=1, offline=True, topology="none", runs_dir=tmp_path, report=False)
    check_forks(run, agent)


@pytest.mark.usefixtures("at_the_sdk")
@pytest.mark.parametrize(
    ("agent", "script"),
    [
        ("routing.py:triage_agent", once("transfer_to_french_agent", {})),
        ("agents_as_tools.py:orchestrator_agent", two_tools()),
    ],
)
def test_an_example_of_the_sdks_is_forked_at_every_call(
    agent: str, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "a" * 40)
    named = f"examples/agent_patterns/{agent}"
    with FakeEndpoint(script).serving() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        check_forks(run_once(named, endpoint, tmp_path), named)
