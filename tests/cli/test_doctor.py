"""`harness doctor`: what a run would use, whether it would work, what to set; nothing spent without --live."""

import json
import shlex
import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from harness.doctor.checks import Check, fit_to_print
from tests.conftest import Done, Harness
from tests.fake_endpoint import Cut, FakeEndpoint, Hang, Refuse, Say, Seen, verdict

KEY = "sk-proj-4f9A77q2Zx81"
LIVE = ("reply", "temperature", "seed", "tool call", "judge reply")
NO_SCHEMA = Refuse(400, "response_format of type json_schema is not supported")
NO_JSON = Refuse(400, "response_format is not supported")


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


def refusing(field: str, refusal: Refuse, otherwise: Say | None = None):
    return lambda seen: refusal if field in seen.body else otherwise or Say("ok")


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


def test_a_refused_temperature_is_told_as_the_run_would_and_stops_nothing(harness: Harness):
    refusal = Refuse(400, "Unsupported value", "unsupported_value", "temperature")
    with FakeEndpoint(agent=refusing("temperature", refusal)).serving() as endpoint:
        done, checks = examine(harness, "--live", "--model", "m", env=at(endpoint))
        strict, stopped = examine(
            harness, "--live", "--model", "m", env=at(endpoint) | {"HARNESS_STRICT_TEMPERATURE": "1"}
        )
    assert (done.code, checks["temperature"]["status"]) == (0, "warn")
    assert "refuses the setting temperature" in checks["temperature"]["found"]
    assert "--model" in checks["temperature"]["do"]
    assert (strict.code, stopped["temperature"]["status"]) == (2, "fail")


def test_a_refused_seed_is_told(harness: Harness):
    with FakeEndpoint(agent=refusing("seed", Refuse(400, "unknown field seed"))).serving() as endpoint:
        done, checks = examine(harness, "--live", "--model", "m", env=at(endpoint))
    assert (done.code, checks["seed"]["status"]) == (0, "warn")


def test_an_endpoint_that_takes_no_limit_on_tokens_is_asked_without_one(harness: Harness):
    refusal = Refuse(400, "Unsupported parameter: 'max_tokens'", "unsupported_parameter", "max_tokens")
    with FakeEndpoint(agent=refusing("max_tokens", refusal)).serving() as endpoint:
        done, checks = examine(harness, "--live", "--model", "m", env=at(endpoint))
    assert (done.code, checks["reply"]["status"], checks["temperature"]["status"]) == (0, "ok", "ok")
    assert sum("max_tokens" in r.body for r in endpoint.of_agent) == 1


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_model_that_thinks_past_the_limit_has_replied_all_the_same(harness: Harness, api: str):
    with FakeEndpoint(agent=lambda _: Say("", finish="length")).serving() as endpoint:
        done, checks = examine(harness, "--live", "--model", "m", "--api", api, env=at(endpoint))
    assert done.code == 0, done.err
    assert (checks["reply"]["status"], checks["temperature"]["status"]) == ("ok", "ok")
    assert checks["tool call"]["status"] == "warn"


@pytest.mark.parametrize(
    ("taken", "refusals"),
    [("json_object", {"json_schema": NO_SCHEMA}), ("text", dict.fromkeys(("json_schema", "json_object"), NO_JSON))],
)
def test_the_first_form_of_reply_that_the_judge_accepts_is_named(harness: Harness, taken: str, refusals: dict):
    def judge(seen: Seen) -> Say | Refuse:
        return refusals.get(seen.body.get("response_format", {}).get("type"), Say(verdict(9, 1)))

    with FakeEndpoint(judge=judge).serving() as endpoint:
        done, checks = examine(harness, "--live", "--model", "m", env=at(endpoint))
    assert (done.code, checks["judge reply"]["status"]) == (0, "warn")
    assert f"{taken} is accepted" in checks["judge reply"]["found"]


def test_a_judge_whose_reply_fits_no_rubric_fails(harness: Harness):
    with FakeEndpoint(judge=lambda _: Say("A is nicer.")).serving() as endpoint:
        done, checks = examine(harness, "--live", "--model", "m", env=at(endpoint))
    assert (done.code, checks["judge reply"]["status"]) == (2, "fail")
    assert "writing" in checks["judge reply"]["found"]
    assert "--judge-model" in checks["judge reply"]["do"]


@pytest.mark.parametrize(
    ("refusal", "found", "do"),
    [
        (Refuse(401, "Incorrect API key provided"), "refused key (401", "OPENAI_API_KEY"),
        (Refuse(403, "Not for you"), "refused key (403", "OPENAI_API_KEY"),
        (Refuse(404, "The model `m` does not exist", "model_not_found"), "does not have model 'm'", "--model"),
        (Refuse(429, "You exceeded your current quota", "insufficient_quota"), "quota is used up", "another key"),
        (Refuse(429, "Slow down", headers={"retry-after": "30"}), "(429): Slow down", "in a while"),
        (Refuse(503, "Loading model"), "(503): Loading model", "in a while"),
    ],
)
def test_a_first_call_that_is_refused_is_the_only_one(harness: Harness, refusal: Refuse, found: str, do: str):
    with FakeEndpoint(agent=lambda _: refusal).serving() as endpoint:
        done, checks = examine(harness, "--live", "--model", "m", env=at(endpoint))
    assert (done.code, checks["reply"]["status"]) == (2, "fail")
    assert found in checks["reply"]["found"]
    assert do in checks["reply"]["do"]
    assert {checks[name]["status"] for name in LIVE[1:]} == {"skipped"}
    assert len(endpoint.requests) == 1


def test_an_address_where_nothing_listens_is_told(harness: Harness):
    port = unused_port()
    url = f"http://127.0.0.1:{port}/v1"
    done, checks = examine(harness, "--live", "--model", "m", "--base-url", url, ports=str(port))
    assert (done.code, checks["reply"]["status"]) == (2, "fail")
    assert f"cannot reach 127.0.0.1:{port}" in checks["reply"]["found"]
    assert "--base-url" in checks["reply"]["do"]
    assert f"none at 127.0.0.1, ports {port}" in checks["local server"]["found"]


@pytest.mark.parametrize("reaction", [Cut(), Hang(30), Refuse(500, "boom"), Say(None), Say(calls=(("rm", {}),))])
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_whatever_an_endpoint_does_is_a_finding(harness: Harness, reaction: Say | Refuse | Cut | Hang, api: str):
    hasty = {"HARNESS_TIMEOUT": "0.5", "HARNESS_JUDGE_TIMEOUT": "0.5"}
    with FakeEndpoint(agent=lambda _: reaction, judge=lambda _: reaction).serving() as endpoint:
        args = ("--live", "--model", "m", "--judge-model", "j", "--api", api)
        done, checks = examine(harness, *args, env=at(endpoint) | hasty)
    assert done.code == 2
    assert set(LIVE) <= set(checks)
    assert checks["judge reply"]["status"] == "fail"


class _WebPage(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.do_GET()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html>Welcome</html>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def test_a_web_page_is_no_model_and_no_model_server(harness: Harness):
    with HTTPServer(("127.0.0.1", 0), _WebPage) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        args = ("--live", "--model", "m", "--judge-model", "j", "--base-url", url)
        done, checks = examine(harness, *args, ports=str(server.server_port))
        server.shutdown()
    assert done.code == 2
    assert (checks["reply"]["status"], checks["judge reply"]["status"]) == ("fail", "fail")
    assert (checks["endpoint"]["status"], checks["endpoint"]["do"]) == ("warn", f"most servers want {url}/v1")
    assert checks["local server"]["found"].startswith("none")


@pytest.mark.parametrize(
    ("agent", "status"),
    [
        (lambda _: Say("<tool_call>search</tool_call>"), "warn"),
        (refusing("tools", Refuse(400, '"auto" tool choice requires --enable-auto-tool-choice')), "fail"),
    ],
)
def test_a_server_that_does_not_pass_tool_calls_on_is_told_how(harness: Harness, agent, status: str):
    with FakeEndpoint(agent=agent).serving() as endpoint:
        done, checks = examine(harness, "--live", "--model", "m", env=at(endpoint))
    assert (done.code, checks["tool call"]["status"]) == (2 if status == "fail" else 0, status)
    assert "--enable-auto-tool-choice" in checks["tool call"]["do"]


def test_refused_functions_stop_no_agent_that_has_none(harness: Harness, tmp_path: Path):
    (tmp_path / "mine.py").write_text("from agents import Agent\nagent = Agent(name='mine')")
    with FakeEndpoint(agent=refusing("tools", Refuse(400, "no tools here"))).serving() as endpoint:
        done, checks = examine(harness, "--live", "--agent", "mine.py:agent", "--model", "m", env=at(endpoint))
    assert (done.code, checks["tool call"]["status"]) == (0, "warn")


def test_with_no_key_at_all_the_self_test_is_announced_with_the_ways_out_of_it(harness: Harness):
    done = harness("doctor", "--ports", "", "--live")
    assert done.code == 0, done.err
    assert "SELF-TEST" in done.out
    assert "OPENAI_API_KEY=sk-..." in done.out
    assert "-m harness run --agent search\n" in done.out
    assert "-m harness run --agent search --base-url http://localhost:8000/v1 --model NAME\n" in done.out
    assert "there is no model to ask" in done.out


def test_a_local_server_is_shown_with_a_command_that_works_and_never_switched_to(
    harness: Harness, endpoint: FakeEndpoint
):
    endpoint.models = ["nomic-embed-text", "qwen 3; true"]
    done, checks = examine(harness, ports=port_of(endpoint))
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
    assert harness(*words, "-n", "2").code == 0
    assert {r.body["model"] for r in endpoint.requests} == {"qwen 3; true"}


def test_a_server_in_use_that_does_not_list_the_model_is_told_which_ones_it_has(
    harness: Harness, endpoint: FakeEndpoint
):
    endpoint.models = ["qwen3:latest"]
    env, port = at(endpoint), port_of(endpoint)
    _, checks = examine(harness, "--model", "qwen3", env=env, ports=port)
    assert checks["local server"]["status"] == "ok"
    _, checks = examine(harness, "--model", "qwen2", env=env, ports=port)
    assert (checks["local server"]["status"], checks["local server"]["do"]) == ("warn", "--model qwen3:latest")


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Bearer sk-proj-4f9A77q2Zx81 is wrong", "Bearer [key] is wrong"),
        ("you sent sk-pr******Zx81.", "you sent [key]"),
        ("you sent sk-proj-4f9A", "you sent [key]"),
        ("wait ... and see **this**", "wait ... and see **this**"),
        ("\x1b[2Jboo \ud800", "[2Jboo \ufffd"),
    ],
)
def test_what_gives_a_key_away_is_hidden_and_nothing_else(text: str, shown: str):
    assert fit_to_print(Check("reply", "fail", text, text), [KEY]) == Check("reply", "fail", shown, shown)


def test_each_setting_is_shown_with_what_set_it(harness: Harness, endpoint: FakeEndpoint, tmp_path: Path):
    (tmp_path / "c.yaml").write_text("model: from-config\napi: responses\njudge-model: from-config")
    env = at(endpoint) | {"HARNESS_MODEL": "from-environment", "HARNESS_JUDGE_MODEL": "j"}
    args = ("--config", "c.yaml", "--judge-model", "from-flag")
    _, checks = examine(harness, *args, env=env)
    assert checks["model"]["found"] == "from-environment, by HARNESS_MODEL"
    assert "by OPENAI_BASE_URL" in checks["endpoint"]["found"]
    assert "responses (by --config c.yaml)" in checks["endpoint"]["found"]
    assert "from-flag" in checks["judge"]["found"]
    assert "by --judge-model" in checks["judge"]["found"]


def test_a_judge_that_is_the_agents_own_model_is_said_to_favour_its_own(harness: Harness, endpoint: FakeEndpoint):
    _, checks = examine(harness, "--model", "m", env=at(endpoint))
    assert checks["judge"]["status"] == "warn"
    assert "favour their own" in checks["judge"]["found"]


def test_a_judge_elsewhere_is_said_to_get_no_key(harness: Harness, endpoint: FakeEndpoint):
    elsewhere = ("--judge-base-url", "https://judge.example/v1", "--judge-model", "j")
    _, checks = examine(harness, *elsewhere, env=at(endpoint))
    assert (checks["judge key"]["status"], checks["judge key"]["do"]) == ("warn", "set HARNESS_JUDGE_API_KEY")


def test_hosted_tools_on_the_chat_api_would_stop_a_run(harness: Harness, tmp_path: Path, endpoint: FakeEndpoint):
    source = "from agents import Agent, WebSearchTool\nagent = Agent(name='mine', tools=[WebSearchTool()])"
    (tmp_path / "mine.py").write_text(source)
    done, checks = examine(harness, "--agent", "mine.py:agent", "--model", "m", env=at(endpoint))
    assert (done.code, checks["tools"]["status"]) == (2, "fail")
    assert "web_search" in checks["tools"]["found"]
    assert checks["run"]["found"] == "would stop: see tools"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("from agents import Agent\nagent = Agent(name='mine')", "OPENAI_API_KEY"),
        ("agent = 5", "int"),
        ("raise KeyError('MY_TOKEN')", "MY_TOKEN"),
        ("from contextlib import asynccontextmanager as c\n@c\nasync def build():\n    1 / 0\n    yield", "zero"),
    ],
)
def test_an_agent_that_would_not_run_fails_with_its_reason(harness: Harness, tmp_path: Path, source: str, said: str):
    (tmp_path / "mine.py").write_text(source)
    done, checks = examine(harness, "--agent", "mine.py")
    assert (done.code, checks["agent"]["status"]) == (2, "fail")
    assert said in checks["agent"]["found"]
    assert "OPENAI_API_KEY=sk-..." in checks["run"]["do"]


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


def test_an_address_that_is_none_is_a_failed_check(harness: Harness):
    done, checks = examine(harness, "--base-url", "localhost:8000")
    assert (done.code, checks["endpoint"]["status"]) == (2, "fail")
    assert "http://localhost:8000/v1" in checks["endpoint"]["do"]


def test_the_list_for_people_is_aligned_and_says_the_same(harness: Harness, endpoint: FakeEndpoint):
    env = at(endpoint)
    shown = harness("doctor", "--ports", "", "--live", "--model", "m", env=env).out
    checks = json.loads(harness("doctor", "--ports", "", "--live", "--model", "m", "--json", env=env).out)
    heads = [(line[:8].strip(), line[8:23].strip()) for line in shown.splitlines() if not line.startswith(" ")]
    assert heads == [(c["status"], c["name"]) for c in checks]
