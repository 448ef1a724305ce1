"""What a run would use, and what would stop it, as far as that shows without asking a model."""

from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.doctor.free_checks import run_free_checks
from tests.doctor.examined import a_request, at, failed, found_for_free
from tests.fake_endpoint import FakeEndpoint

pytestmark = pytest.mark.anyio


async def test_each_setting_is_shown_with_what_set_it(endpoint: FakeEndpoint, tmp_path: Path):
    config = tmp_path / "c.yaml"
    config.write_text("model: from-config\napi: responses\njudge-model: from-config")
    environ = at(endpoint, HARNESS_MODEL="from-environment", HARNESS_JUDGE_MODEL="j")
    checks = await found_for_free(a_request(environ=environ, config=config, judge_model="from-flag"))
    assert checks["model"].found == "from-environment, by HARNESS_MODEL"
    assert "by OPENAI_BASE_URL" in checks["endpoint"].found
    assert f"responses (by --config {config})" in checks["endpoint"].found
    assert "from-flag" in checks["judge"].found
    assert "by --judge-model" in checks["judge"].found


async def test_a_judge_that_is_the_agents_own_model_is_said_to_favour_its_own(endpoint: FakeEndpoint):
    checks = await found_for_free(a_request(environ=at(endpoint), model="m"))
    assert checks["judge"].status == "warn"
    assert "favour their own" in checks["judge"].found


async def test_a_judge_elsewhere_gets_no_key_of_the_agents(endpoint: FakeEndpoint):
    elsewhere = ["http://0.0.0.0:9/v1"]  # where nobody listens
    checks = await found_for_free(a_request(environ=at(endpoint), judge_base_url=elsewhere, judge_model=["j"]))
    assert (checks["judge key"].status, checks["judge key"].do) == ("warn", "set HARNESS_JUDGE_API_KEY")


async def test_each_juror_has_its_checks(endpoint: FakeEndpoint):
    findings = await run_free_checks(a_request(environ=at(endpoint), model="m", judge_model=["j", "k"]), ())
    assert [c.found.split()[0] for c in findings.checks if c.name == "judge"] == ["j", "k"]


async def test_hosted_tools_on_the_chat_api_would_stop_a_run(tmp_path: Path, endpoint: FakeEndpoint):
    source = "from agents import Agent, WebSearchTool\nagent = Agent(name='mine', tools=[WebSearchTool()])"
    (tmp_path / "mine.py").write_text(source)
    checks = await found_for_free(a_request(f"{tmp_path / 'mine.py'}:agent", environ=at(endpoint), model="m"))
    assert checks["tools"].status == "fail"
    assert "web_search" in checks["tools"].found
    assert checks["run"].found == "would stop: see tools"
    other = a_request(f"{tmp_path / 'mine.py'}:agent", environ=at(endpoint), model="m", api="responses")
    assert (await found_for_free(other))["tools"].status == "warn"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("from agents import Agent\nagent = Agent(name='mine')", "OPENAI_API_KEY"),
        ("agent = 5", "int"),
        ("raise KeyError('MY_TOKEN')", "MY_TOKEN"),
        ("from contextlib import asynccontextmanager as c\n@c\nasync def build():\n    1 / 0\n    yield", "zero"),
    ],
)
async def test_an_agent_that_would_not_run_fails_with_its_reason(tmp_path: Path, source: str, reason: str):
    (tmp_path / "mine.py").write_text(source)
    checks = await found_for_free(a_request(str(tmp_path / "mine.py")))
    assert (failed(checks), checks["agent"].status) == (True, "fail")
    assert reason in checks["agent"].found
    assert (checks["judge"].status, checks["judge"].found) == ("skipped", "it depends on the agent")
    assert "OPENAI_API_KEY=sk-..." in (checks["run"].do or "")


async def test_a_tool_that_needs_approval_fails_until_somebody_decides_on_it(tmp_path: Path, endpoint: FakeEndpoint):
    source = (
        "from agents import Agent, function_tool\n@function_tool(needs_approval=True)\ndef send():\n    'Send it.'\n"
    )
    (tmp_path / "mine.py").write_text(source + "agent = Agent(name='mine', tools=[send])")
    word, environ = f"{tmp_path / 'mine.py'}:agent", at(endpoint)
    checks = await found_for_free(a_request(word, environ=environ, model="m"))
    assert checks["agent"].status == "fail"
    assert "needs approval" in checks["agent"].found
    decided = await found_for_free(a_request(word, environ=environ, model="m", approve=("send",)))
    assert decided["agent"].status == "ok"


@pytest.mark.parametrize(
    ("session", "found"),
    [("SQLiteSession", "gives each rollout its session"), ("SQLiteSession('me')", "-n 8: the 8 rollouts of a query")],
)
async def test_what_an_app_gives_its_runs_is_made_as_a_run_makes_it(
    tmp_path: Path, endpoint: FakeEndpoint, session: str, found: str
):
    file = tmp_path / "app.py"
    file.write_text(f"from agents import Agent, SQLiteSession\nsession = {session}\nagent = Agent(name='a')\n")
    checks = await found_for_free(a_request(str(file), environ=at(endpoint)))
    assert checks["app"].found.startswith(found)
    assert failed(checks) == (checks["app"].status == "fail") == ("-n 8" in found)


async def test_an_address_that_is_none_is_a_failed_check():
    checks = await found_for_free(a_request(base_url="localhost:8000"))
    assert checks["endpoint"].status == "fail"
    assert "http://localhost:8000/v1" in (checks["endpoint"].do or "")


async def test_a_rubric_that_is_none_is_a_failed_check():
    checks = await found_for_free(a_request(rubric="no-such-rubric"))
    assert (checks["rubric"].status, checks["run"].status) == ("fail", "fail")
    assert "no-such-rubric" in checks["rubric"].found


async def test_settings_that_cannot_be_read_are_an_error_and_no_check():
    with pytest.raises(UsageError, match="--api"):
        await run_free_checks(a_request(api="soap"), ())


async def test_offline_is_a_self_test_and_says_what_made_it_so():
    checks = await found_for_free(a_request(environ={"HARNESS_OFFLINE": "1"}))
    assert (checks["run"].status, checks["run"].do) == ("warn", "take HARNESS_OFFLINE away for a real run")
    assert checks["endpoint"].found == "none: by HARNESS_OFFLINE"


async def test_an_embedded_judge_makes_a_self_test_of_a_real_run(endpoint: FakeEndpoint):
    checks = await found_for_free(a_request(environ=at(endpoint), model="m", judge_model="offline-features"))
    assert (checks["run"].status, checks["run"].do) == ("warn", "name a model with --judge-model")


@pytest.mark.parametrize(
    ("key", "status"), [("sk-proj-1234", "ok"), ("sk-proj-1234\n", "ok"), ('"sk-proj-1234"', "fail"), ("", "ok")]
)
async def test_a_key_is_looked_at_and_never_shown(endpoint: FakeEndpoint, key: str, status: str):
    checks = await found_for_free(a_request(environ=at(endpoint, OPENAI_API_KEY=key), model="m"))
    assert checks["key"].status == status
    assert "1234" not in checks["key"].found


async def test_openai_s_own_server_needs_a_key():
    checks = await found_for_free(a_request(base_url="https://api.openai.com/v1", model="m"))
    assert (checks["key"].status, checks["key"].do) == ("fail", "set OPENAI_API_KEY")
