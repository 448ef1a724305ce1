"""What the calls to an endpoint show: each fault of an endpoint is a check that says what to do."""

from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from harness.doctor.free_checks import Findings, run_free_checks
from harness.doctor.live_checks import count_live_calls, offer_live_checks, run_live_checks
from tests.doctor.examined import LIVE, a_request, at, failed, found_live, refusing
from tests.fake_endpoint import Cut, FakeEndpoint, Hang, Refuse, Say, Script, Seen, verdict

pytestmark = pytest.mark.anyio

NO_SCHEMA = Refuse(400, "response_format of type json_schema is not supported")
NO_JSON = Refuse(400, "response_format is not supported")
BOTH_APIS = pytest.mark.parametrize("api", ["chat", "responses"])


@BOTH_APIS
async def test_the_calls_are_counted_before_they_are_made(endpoint: FakeEndpoint, api: str):
    request = a_request(environ=at(endpoint), model="m", judge_model="j", api=api)
    findings = await run_free_checks(request, ())
    models = 4 if api == "chat" else 3
    assert count_live_calls(findings) == (models, 1)
    assert endpoint.requests == []
    checks = [check async for check in run_live_checks(request, findings)]
    assert tuple(check.name for check in checks) == LIVE
    assert (len(endpoint.of_agent), len(endpoint.of_judge)) == (models, 1)


async def test_the_calls_are_offered_with_the_command_that_makes_them(endpoint: FakeEndpoint):
    request = a_request(environ=at(endpoint), model="m")
    offered = offer_live_checks(request, await run_free_checks(request, ()))
    assert (offered.name, offered.status) == ("live", "skipped")
    assert "4 small calls to the agent's model and 1 to the judge" in offered.found
    assert offered.do == "python -m harness doctor --agent search --model m --live"


async def test_where_there_is_nobody_to_ask_the_reason_is_given():
    request = a_request()
    findings = await run_free_checks(request, ())
    for check in (offer_live_checks(request, findings), *[c async for c in run_live_checks(request, findings)]):
        assert (check.status, check.found) == ("skipped", "there is no model to ask")
    broken = await run_free_checks(a_request("no-such-agent"), ())
    assert offer_live_checks(request, broken).found == "what failed above has to be mended first"
    assert count_live_calls(Findings(())) == (0, 0)


async def test_a_key_that_failed_is_not_sent(endpoint: FakeEndpoint):
    findings = await run_free_checks(a_request(environ=at(endpoint, OPENAI_API_KEY="'quoted'"), model="m"), ())
    assert count_live_calls(findings) == (0, 0)


async def test_a_refused_temperature_stops_only_a_run_that_is_strict_about_it():
    refusal = Refuse(400, "Unsupported value", "unsupported_value", "temperature")
    with FakeEndpoint(agent=refusing("temperature", refusal)).serving() as endpoint:
        checks = await found_live(a_request(environ=at(endpoint), model="m"))
        strict = await found_live(a_request(environ=at(endpoint, HARNESS_STRICT_TEMPERATURE="1"), model="m"))
    assert (failed(checks), checks["temperature"].status) == (False, "warn")
    assert "refuses the setting temperature" in checks["temperature"].found
    assert "--model" in (checks["temperature"].do or "")
    assert (failed(strict), strict["temperature"].status) == (True, "fail")


@BOTH_APIS
async def test_a_model_that_takes_a_temperature_only_without_reasoning_is_asked_so(api: str):
    def reasons(seen: Seen) -> Say | Refuse:
        effort = seen.body.get("reasoning_effort", seen.body.get("reasoning", {}).get("effort"))
        refused = "temperature" in seen.body and effort != "none"
        return Refuse(400, "not with this model", "unsupported_value", "temperature") if refused else Say("ok")

    with FakeEndpoint(agent=reasons).serving() as endpoint:
        checks = await found_live(a_request(environ=at(endpoint), model="m", api=api))
    said = "0 is accepted; model 'm' takes no temperature beside reasoning: trying it without reasoning"
    assert (checks["temperature"].status, checks["temperature"].found) == ("ok", said)
    asked_to_reason = [("reasoning_effort" in r.body or "reasoning" in r.body) for r in endpoint.of_agent]
    assert asked_to_reason == [False, False, True, *[False] * (len(asked_to_reason) - 3)]


async def test_a_refused_seed_is_a_warning():
    with FakeEndpoint(agent=refusing("seed", Refuse(400, "unknown field seed"))).serving() as endpoint:
        checks = await found_live(a_request(environ=at(endpoint), model="m"))
    assert (failed(checks), checks["seed"].status) == (False, "warn")


async def test_an_endpoint_that_takes_no_limit_on_tokens_is_asked_without_a_limit():
    refusal = Refuse(400, "Unsupported parameter: 'max_tokens'", "unsupported_parameter", "max_tokens")
    with FakeEndpoint(agent=refusing("max_tokens", refusal)).serving() as endpoint:
        checks = await found_live(a_request(environ=at(endpoint), model="m"))
    assert (failed(checks), checks["reply"].status, checks["temperature"].status) == (False, "ok", "ok")
    assert sum("max_tokens" in r.body for r in endpoint.of_agent) == 1


@BOTH_APIS
async def test_a_model_that_thinks_past_the_limit_has_replied_all_the_same(api: str):
    with FakeEndpoint(agent=lambda _: Say("", finish="length")).serving() as endpoint:
        checks = await found_live(a_request(environ=at(endpoint), model="m", api=api))
    assert not failed(checks)
    assert (checks["reply"].status, checks["temperature"].status) == ("ok", "ok")
    assert checks["tool call"].status == "warn"


@pytest.mark.parametrize(
    ("taken", "refusals"),
    [("json_object", {"json_schema": NO_SCHEMA}), ("text", dict.fromkeys(("json_schema", "json_object"), NO_JSON))],
)
async def test_the_first_form_of_reply_that_the_judge_accepts_is_named(taken: str, refusals: dict[str, Refuse]):
    def judge(seen: Seen) -> Say | Refuse:
        return refusals.get(seen.body.get("response_format", {}).get("type"), Say(verdict(9, 1)))

    with FakeEndpoint(judge=judge).serving() as endpoint:
        checks = await found_live(a_request(environ=at(endpoint), model="m"))
    assert (failed(checks), checks["judge reply"].status) == (False, "warn")
    assert f"{taken} is accepted" in checks["judge reply"].found


async def test_a_judge_whose_reply_fits_no_rubric_fails():
    with FakeEndpoint(judge=lambda _: Say("A is nicer.")).serving() as endpoint:
        checks = await found_live(a_request(environ=at(endpoint), model="m"))
    assert checks["judge reply"].status == "fail"
    assert "writing" in checks["judge reply"].found
    assert "--judge-model" in (checks["judge reply"].do or "")


@pytest.mark.parametrize(
    ("refusal", "found", "do"),
    [
        (Refuse(401, "Incorrect API key provided"), "refused the key (401", "OPENAI_API_KEY"),
        (Refuse(403, "Not for you"), "refused the key (403", "OPENAI_API_KEY"),
        (Refuse(404, "The model `m` does not exist", "model_not_found"), "does not have the model 'm'", "--model"),
        (Refuse(429, "You exceeded your current quota", "insufficient_quota"), "quota is used up", "another key"),
        (Refuse(429, "Slow down", headers={"retry-after": "30"}), "(429): Slow down", "in a while"),
        (Refuse(503, "Loading model"), "(503): Loading model", "in a while"),
    ],
)
async def test_a_first_call_that_is_refused_is_the_only_one(refusal: Refuse, found: str, do: str):
    with FakeEndpoint(agent=lambda _: refusal).serving() as endpoint:
        checks = await found_live(a_request(environ=at(endpoint), model="m"))
    assert checks["reply"].status == "fail"
    assert found in checks["reply"].found
    assert do in (checks["reply"].do or "")
    assert {checks[name].status for name in LIVE[1:]} == {"skipped"}
    assert len(endpoint.requests) == 1


@pytest.mark.few(4)
@pytest.mark.parametrize("reaction", [Cut(), Hang(30), Refuse(500, "boom"), Say(None), Say(calls=(("rm", {}),))])
@BOTH_APIS
async def test_whatever_an_endpoint_does_is_a_check(reaction: Say | Refuse | Cut | Hang, api: str):
    hasty = {"HARNESS_TIMEOUT": "0.5", "HARNESS_JUDGE_TIMEOUT": "0.5"}
    with FakeEndpoint(agent=lambda _: reaction, judge=lambda _: reaction).serving() as endpoint:
        request = a_request(environ=at(endpoint, **hasty), model="m", judge_model="j", api=api)
        checks = await found_live(request)
    assert set(LIVE) <= set(checks)
    assert checks["judge reply"].status == "fail"


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


@contextmanager
def web_server() -> Generator[int]:
    with HTTPServer(("127.0.0.1", 0), _WebPage) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_port
        server.shutdown()


async def test_a_web_page_is_no_model_and_no_model_server():
    with web_server() as port:
        request = a_request(model="m", judge_model="j", base_url=f"http://127.0.0.1:{port}")
        findings = await run_free_checks(request, [port])
        checks = {c.name: c for c in [*findings.checks, *[c async for c in run_live_checks(request, findings)]]}
    assert (checks["reply"].status, checks["judge reply"].status) == ("fail", "fail")
    advice = f"most servers want http://127.0.0.1:{port}/v1"
    assert (checks["endpoint"].status, checks["endpoint"].do) == ("warn", advice)
    assert checks["local server"].found.startswith("none")


@pytest.mark.parametrize(
    ("agent", "status"),
    [
        (lambda _: Say("<tool_call>search</tool_call>"), "warn"),
        (refusing("tools", Refuse(400, '"auto" tool choice requires --enable-auto-tool-choice')), "fail"),
    ],
)
async def test_a_server_that_does_not_pass_tool_calls_on_gets_the_option_that_it_needs(agent: Script, status: str):
    with FakeEndpoint(agent=agent).serving() as endpoint:
        checks = await found_live(a_request(environ=at(endpoint), model="m"))
    assert (failed(checks), checks["tool call"].status) == (status == "fail", status)
    assert "--enable-auto-tool-choice" in (checks["tool call"].do or "")


async def test_refused_functions_stop_no_agent_that_has_none(tmp_path: Path):
    (tmp_path / "mine.py").write_text("from agents import Agent\nagent = Agent(name='mine')")
    with FakeEndpoint(agent=refusing("tools", Refuse(400, "no tools here"))).serving() as endpoint:
        checks = await found_live(a_request(f"{tmp_path / 'mine.py'}:agent", environ=at(endpoint), model="m"))
    assert (failed(checks), checks["tool call"].status) == (False, "warn")


async def test_each_of_several_servers_is_looked_at_and_asked_once(endpoint: FakeEndpoint):
    with web_server() as port:
        urls = (endpoint.base_url, f"http://127.0.0.1:{port}")
        request = a_request(model="m", judge_model="j", base_url=urls)
        findings = await run_free_checks(request, [])
        counted, _ = count_live_calls(findings)
        checks = [*findings.checks, *[check async for check in run_live_checks(request, findings)]]
    there = [(check.name, check.status) for check in checks if check.name in {"endpoint", "reply", "server reply"}]
    assert there == [("endpoint", "ok"), ("endpoint", "warn"), ("reply", "ok"), ("server reply", "fail")]
    assert len([seen for seen in endpoint.requests if not seen.is_judge]) == counted - 1


async def test_an_agent_whose_tool_words_its_timeouts_is_asked_like_any_other(endpoint: FakeEndpoint, tmp_path: Path):
    (tmp_path / "mine.py").write_text(
        "from agents import Agent, function_tool\n"
        "@function_tool(timeout=1, timeout_error_function=lambda *_: 'late')\nasync def wait() -> str:\n    return ''\n"
        "agent = Agent(name='mine', tools=[wait])"
    )
    checks = await found_live(a_request(f"{tmp_path / 'mine.py'}:agent", environ=at(endpoint), model="m"))
    assert (checks["reply"].status, failed(checks)) == ("ok", False)
