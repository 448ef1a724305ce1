"""`harness doctor`: what a run would use, whether it would work, what to set; nothing spent without --live."""

import json
import shlex
import socket
from pathlib import Path

import pytest

from tests.conftest import Done, Harness
from tests.fake_endpoint import FakeEndpoint, Refuse, Say, Seen

KEY = "sk-proj-4f9A77q2Zx81"
LIVE = ("reply", "temperature", "seed", "tool call", "judge reply")


def examine(harness: Harness, *args: str, ports: str = "", **how) -> tuple[Done, dict[str, dict]]:
    """Return the command's end and its checks by name, looking for local servers at `ports` only."""
    done = harness("doctor", "--json", "--ports", ports, *args, **how)
    assert "Traceback" not in done.err, done.err
    return done, {check["name"]: check for check in done.json}


def at(endpoint: FakeEndpoint, key: str | None = KEY) -> dict[str, str]:
    return {"OPENAI_BASE_URL": endpoint.base_url} | ({"OPENAI_API_KEY": key} if key else {})


def port_of(endpoint: FakeEndpoint) -> str:
    return endpoint.host.split(":")[1]


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_where_everything_is_fine_each_live_check_costs_one_call(harness: Harness, endpoint: FakeEndpoint, api: str):
    args = ("--live", "--model", "m", "--judge-model", "j", "--api", api)
    done, checks = examine(harness, *args, env=at(endpoint))
    assert done.code == 0, done.err
    seed = "ok" if api == "chat" else "skipped"
    assert {name: checks[name]["status"] for name in LIVE} == dict.fromkeys(LIVE, "ok") | {"seed": seed}
    assert {c["status"] for c in checks.values()} <= {"ok", "skipped"} | ({"warn"} if api == "responses" else set())
    models = 4 if api == "chat" else 3
    assert f"{models} small calls to the agent's model and 1 to the judge" in done.err
    assert (len(endpoint.of_agent), len(endpoint.of_judge)) == (models, 1)
    assert all(r.path.endswith("/responses" if api == "responses" else "/chat/completions") for r in endpoint.requests)
    limit = "max_tokens" if api == "chat" else "max_output_tokens"
    assert all(r.body[limit] <= 1024 for r in endpoint.of_agent)
    assert [r.body["temperature"] for r in endpoint.of_agent if "temperature" in r.body] == [0.0]


def test_without_live_nothing_is_posted_and_the_calls_are_offered(harness: Harness, endpoint: FakeEndpoint):
    done, checks = examine(harness, "--model", "m", env=at(endpoint), ports=port_of(endpoint))
    assert done.code == 0, done.err
    assert endpoint.requests == []
    assert checks["live"]["status"] == "skipped"
    assert "4 small calls to the agent's model and 1 to the judge" in checks["live"]["found"]
    assert checks["live"]["do"].endswith("doctor --agent search --model m --live")
    assert not set(LIVE) & set(checks)


def test_an_address_where_nothing_listens_is_told(harness: Harness):
    port = unused_port()
    url = f"http://127.0.0.1:{port}/v1"
    done, checks = examine(harness, "--live", "--model", "m", "--base-url", url, ports=str(port))
    assert (done.code, checks["reply"]["status"]) == (2, "fail")
    assert f"cannot reach 127.0.0.1:{port}" in checks["reply"]["found"]
    assert "--base-url" in checks["reply"]["do"]
    assert f"none at 127.0.0.1, ports {port}" in checks["local server"]["found"]


def test_with_no_key_at_all_the_self_test_is_announced_with_the_ways_out_of_it(program: Harness):
    done = program("doctor", "--ports", "", "--live")
    assert done.code == 0, done.err
    assert "SELF-TEST" in done.out
    assert "OPENAI_API_KEY=sk-..." in done.out
    assert "-m harness run --agent search\n" in done.out
    assert "-m harness run --agent search --base-url http://localhost:8000/v1 --model NAME\n" in done.out
    assert "there is no model to ask" in done.out


def test_a_local_server_is_shown_with_a_command_that_works_and_never_switched_to(
    program: Harness, endpoint: FakeEndpoint
):
    endpoint.models = ["nomic-embed-text", "qwen 3; true"]
    done, checks = examine(program, ports=port_of(endpoint))
    assert done.code == 0, done.err
    assert "qwen 3; true" in checks["local server"]["found"]
    assert (checks["endpoint"]["status"], checks["model"]["found"]) == (
        "skipped",
        "offline-extractive, the embedded one",
    )
    assert "SELF-TEST" in checks["run"]["found"]
    assert endpoint.requests == []
    _, dash_m, package, *words = shlex.split(checks["local server"]["do"])
    assert (dash_m, package) == ("-m", "harness")
    assert program(*words, "-n", "2").code == 0
    assert {r.body["model"] for r in endpoint.requests} == {"qwen 3; true"}


@pytest.mark.few(4)
@pytest.mark.parametrize("live", [(), ("--live",)])
@pytest.mark.parametrize("key", [KEY, f"{KEY}\n", f" {KEY}", f'"{KEY}"', f"{KEY}é"])
def test_a_key_never_appears_not_even_in_part(harness: Harness, key: str, live: tuple[str, ...]):
    def telling(seen: Seen) -> Refuse:
        return Refuse(
            401, f"Invalid key {seen.key}, or {KEY[:12]}; received sk-pr*****{KEY[-4:]}. Or: sk-...{KEY[-4:]}"
        )

    with FakeEndpoint(agent=telling, judge=telling).serving() as endpoint:
        env = at(endpoint, key) | {"HARNESS_JUDGE_API_KEY": "judge-88c1e0b7f2", "HARNESS_JUDGE_MODEL": "j"}
        outputs = [harness("doctor", "--ports", "", *live, *more, env=env) for more in ((), ("--json",))]
    for done in outputs:
        assert done.code == (2 if live or key.strip() != KEY else 0)
        for part in (KEY[:9], KEY[-4:], "judge-88"):
            assert part not in done.out + done.err


def test_a_key_that_cannot_be_one_is_never_sent(harness: Harness, endpoint: FakeEndpoint):
    broken = f"{KEY[:9]}\n{KEY[9:]}"
    done, checks = examine(harness, "--live", "--model", "m", env=at(endpoint, broken))
    assert (done.code, checks["endpoint"]["status"], checks["run"]["status"]) == (2, "fail", "fail")
    assert "OPENAI_API_KEY holds a character that no key has" in checks["endpoint"]["found"]
    assert endpoint.requests == []
    fine, checks = examine(harness, "--model", "m", env=at(endpoint, f"{KEY}\n"))
    assert (fine.code, checks["key"]["status"]) == (0, "ok")


def test_passwords_in_addresses_are_kept_back(harness: Harness):
    done, checks = examine(harness, "--base-url", "http://me:hunter2-hunter2@127.0.0.1:9/v1", "--judge-model", "j")
    assert "hunter2" not in done.out
    assert checks["endpoint"]["found"].startswith("http://127.0.0.1:9/v1 (by --base-url)")


def test_tracing_switched_off_would_stop_a_run(harness: Harness):
    done, checks = examine(harness, env={"OPENAI_AGENTS_DISABLE_TRACING": "1"})
    assert (done.code, checks["tracing"]["status"]) == (2, "fail")
    assert "unset OPENAI_AGENTS_DISABLE_TRACING" in checks["tracing"]["do"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--ports", "80x"), "--ports"),
        (("--ports", "70000"), "--ports"),
        (("--config", "gone.yaml"), "gone.yaml"),
        (("--api", "soap"), "--api"),
    ],
)
def test_options_that_cannot_be_read_are_refused_in_one_line(harness: Harness, args: tuple[str, ...], said: str):
    done = harness("doctor", *args)
    assert done.code == 2
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("error: ")
    assert said in line


def test_the_list_for_people_is_aligned_and_says_the_same(harness: Harness, endpoint: FakeEndpoint):
    env = at(endpoint)
    shown = harness("doctor", "--ports", "", "--live", "--model", "m", env=env).out
    checks = json.loads(harness("doctor", "--ports", "", "--live", "--model", "m", "--json", env=env).out)
    heads = [(line[:8].strip(), line[8:23].strip()) for line in shown.splitlines() if not line.startswith(" ")]
    assert heads == [(c["status"], c["name"]) for c in checks]


@pytest.mark.parametrize(
    ("field", "name", "code", "status"),
    [("model", "reply", 2, "fail"), ("temperature", "temperature", 0, "warn"), ("tools", "tool call", 2, "fail")],
)
def test_only_what_would_stop_a_run_makes_exit_code_2(harness: Harness, field: str, name: str, code: int, status: str):
    def agent(seen: Seen) -> Say | Refuse:
        return Refuse(400, "no", None, field) if field in seen.body else Say("ok")

    with FakeEndpoint(agent=agent).serving() as endpoint:
        done, checks = examine(harness, "--live", "--model", "m", env=at(endpoint))
    assert (done.code, checks[name]["status"]) == (code, status)


@pytest.mark.parametrize("source", ["agent = 5", "raise KeyError('MY_TOKEN')"])
def test_an_agent_that_would_not_run_makes_exit_code_2(harness: Harness, tmp_path: Path, source: str):
    (tmp_path / "mine.py").write_text(source)
    done, checks = examine(harness, "--agent", "mine.py")
    assert (done.code, checks["agent"]["status"], checks["run"]["status"]) == (2, "fail", "fail")
