"""A rollout that was captured in part is said aloud, flagged, and counted against --max-failures."""

from pathlib import Path

from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Say, Seen

AGENT = """
from agents import Agent, function_tool, set_tracing_disabled

@function_tool
def dark() -> str:
    "Switch tracing off."
    set_tracing_disabled(True)
    return "dark"

def build():
    set_tracing_disabled(False)
    return Agent(name="a", tools=[dark])
"""


def darkening(seen: Seen) -> Say:
    return Say(f"Answer {seen.body['seed']}.") if seen.tool_outputs else Say(calls=(("dark", {}),))


def test_the_end_of_a_run_says_that_rollouts_were_captured_in_part(harness: Harness, tmp_path: Path):
    (tmp_path / "dark.py").write_text(AGENT)
    with FakeEndpoint(agent=darkening).serving() as endpoint:
        known = ("--agent", "dark.py", "--model", "m", "--base-url", endpoint.base_url, "-n", "2", "--concurrency", "1")
        done = harness("run", "Why?", *known, "--json")
        assert done.code == 1, done.err
        assert "2 rollouts were captured in part" in done.err
        assert [r["capture"] for r in done.json["groups"][0]["rollouts"]] == ["partial", "partial"]
        assert [r["status"] for r in done.json["groups"][0]["rollouts"]] == ["ok", "ok"]
        assert all(r["rank"] is not None for r in done.json["groups"][0]["rollouts"])
        assert harness("run", "Why?", *known, "--max-failures", "2").code == 0
    page = (tmp_path / done.json["path"] / "report.html").read_text("utf-8")
    assert "was captured in part" in page
    assert "rollout 0 was captured in part: 1 model call while tracing was off" in harness("show").out
    assert "captured in part: 1 model call while tracing was off" in harness("show", "--rollout", "0").out
