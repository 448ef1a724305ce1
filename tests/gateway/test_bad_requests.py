"""What the gateway cannot do is answered in OpenAI's shape of errors, with the value and what to do."""

import shutil
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from harness.cli.app import app
from harness.core.errors import UsageError
from harness.gateway import app as rim
from harness.gateway.serve import listen
from tests.fake_endpoint import Cut, FakeEndpoint, Refuse, Say
from tests.gateway.serving import CHAT, gateway, rollouts_in
from tests.token_server import TokenServer

GOOD = {"answer": "A", "query": "Q"}
BAD: dict[str, tuple[str, Any, int, str]] = {
    "no such page": ("/v1/chat/completions", CHAT, 404, "'/v1/chat/completions' is not served"),
    "another API": ("/s/a/v1/embeddings", CHAT, 404, "POST '/s/a/v1/embeddings' is not served: there are POST"),
    "a page in the name": ("/s/a/../close", GOOD, 404, "GET /s/SESSION/v1/models, POST /s/SESSION/close"),
    "a dot": ("/s/..%2f..%2fetc/v1/chat/completions", CHAT, 404, "is not served"),
    "a hostile name": ("/s/.hidden/v1/chat/completions", CHAT, 400, "'.hidden'"),
    "a name with a line": ("/s/a%0Ab/v1/chat/completions", CHAT, 400, "letters, digits or"),
    "a long name": (f"/s/{'a' * 201}/v1/chat/completions", CHAT, 400, "1 to 200"),
    "no UTF-8": ("/s/a/v1/chat/completions", b'{"\xff":1}', 400, "no JSON in UTF-8"),
    "half a body": ("/s/a/v1/chat/completions", '{"model":', 400, "no JSON in UTF-8"),
    "a list": ("/s/a/v1/chat/completions", "[]", 400, "a JSON list: send a JSON object"),
    "a deep body": ("/s/a/v1/chat/completions", "[" * 100_000, 400, "no JSON in UTF-8"),
    "never begun": ("/s/nobody/close", GOOD, 404, "there is no session 'nobody'"),
    "no answer": ("/s/open/close", {"query": "Q"}, 400, "`answer`: Field required; send"),
    "no query": ("/s/open/close", {"answer": "A"}, 400, "`query`: Field required"),
    "an empty query": ("/s/open/close", {"answer": "A", "query": " "}, 400, "the query is empty"),
    "a query of another kind": ("/s/open/close", {"answer": "A", "query": ["x"]}, 400, "`query` (['x'])"),
    "a word for a reward": ("/s/open/close", GOOD | {"reward": "high"}, 400, "`reward` ('high')"),
    "a reward that is true": ("/s/open/close", GOOD | {"reward": True}, 400, "`reward` (True)"),
    "no number": ("/s/open/close", '{"answer": "A", "query": "Q", "reward": NaN}', 400, "no JSON in UTF-8"),
    "beyond all numbers": ("/s/open/close", '{"answer": "A", "query": "Q", "reward": 1e999}', 400, "reward"),
    "a misspelt member": ("/s/open/close", GOOD | {"rewrad": 1}, 400, "`rewrad` (1)"),
    "a group with a line": ("/s/open/close", GOOD | {"group": "a\nb"}, 400, "breaks the line"),
    "a long group": ("/s/open/close", GOOD | {"group": "g" * 201}, 400, "at most 200"),
    "no version": ("/policy", {"version": "new"}, 400, "`version` ('new')"),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory):
    endpoint = FakeEndpoint(lambda _: Say("Yes."))
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path_factory.mktemp("runs")) as opened:
        opened.chat("open")
        yield opened


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_are_named(name: str, served: Any):
    path, body, status, words = BAD[name]
    response = served.post(path, body)
    assert (response.status_code, response.headers["x-should-retry"]) == (status, "false")
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert words in error["message"]
    assert len(error["message"]) < 1000


def test_a_page_in_a_browser_may_not_call(served: Any):
    assert served.post("/s/a/v1/chat/completions", dict(CHAT), origin="http://evil.example").status_code == 403


@pytest.mark.parametrize("told", [True, False])
def test_a_body_too_large_is_refused_before_it_is_read(told: bool, served: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rim, "MOST_BODY_BYTES", 1000)
    body = b"x" * 2000
    content: Any = body if told else iter([body[:999], body[999:]])
    response = httpx2.post(f"{served.url}/s/big/v1/chat/completions", content=content)
    assert (response.status_code, response.json()["error"]["code"]) == (413, "body_too_large")
    assert "at most 1,000" in response.json()["error"]["message"]


def test_every_request_bears_the_token(tmp_path: Path):
    endpoint = FakeEndpoint(lambda _: Say("Yes."))
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path, token="let-me-in") as served:
        for path in ("/s/a/v1/chat/completions", "/s/a/close", "/policy"):
            for headers in ({}, {"authorization": "Bearer other"}):
                assert served.post(path, dict(CHAT), **headers).status_code == 401
        client = openai.OpenAI(api_key="let-me-in", base_url=f"{served.url}/s/a/v1")
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Why?"}])
        with pytest.raises(openai.AuthenticationError, match="--token"):
            served.client("a").chat.completions.create(model="m", messages=[{"role": "user", "content": "Why?"}])
    assert "let-me-in" not in "".join(seen.key or "" for seen in endpoint.requests)


@pytest.mark.parametrize("kind", ["ignoring", "refusing", "refusing-without-a-word"])
@pytest.mark.parametrize("stream", [False, True])
def test_required_tokens_that_a_server_does_not_tell_are_an_error(kind: Any, stream: bool, tmp_path: Path):
    endpoint = FakeEndpoint(TokenServer(lambda _: Say("Yes."), kind))
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path, tokens="require") as served:
        with pytest.raises(openai.APIError, match="--tokens auto"):
            list(served.client("a").chat.completions.create(stream=stream, **dict(CHAT)))  # pyright: ignore[reportCallIssue]
        assert "--tokens auto" in served.post("/s/a/v1/responses", {"model": "m", "input": "Q"}).text
    (kept,) = rollouts_in(served.folder)
    assert all(call.error for call in kept.calls)


def test_an_upstream_that_does_not_answer_is_named(tmp_path: Path):
    endpoint = FakeEndpoint(lambda _: Cut())
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path) as served:
        cut = served.chat("a")
        moved = Refuse(307, headers={"location": "http://127.0.0.2:1/v1/chat/completions"})
        endpoint.agent = lambda _: moved
        redirected = served.chat("a")
    with gateway("http://127.0.0.1:9/v1", tmp_path) as served:
        down = served.chat("a")
    for response, code in (
        (cut, "upstream_unreachable"),
        (down, "upstream_unreachable"),
        (redirected, "upstream_redirects"),
    ):
        assert (response.status_code, response.json()["error"]["code"]) == (502, code)
    assert endpoint.host in cut.json()["error"]["message"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gateway", "--upstream URL"),
        ("gateway --upstream nonsense", "--upstream 'nonsense' is not an http(s)"),
        ("gateway --agent search", "no server is named"),
        ("gateway --upstream http://127.0.0.1:9/v1 --host 0.0.0.0", "--token"),
        ("gateway --upstream http://127.0.0.1:9/v1 --host nowhere.invalid --token t", "cannot listen on"),
        ("gateway --upstream http://127.0.0.1:9/v1 --token é", "no HTTP header can carry"),
        ("gateway last --upstream http://127.0.0.1:9/v1", "no run in"),
    ],
)
def test_bad_command_lines_are_named(line: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as error:
        app.main(line.split(), standalone_mode=False, obj={})
    assert words in str(error.value)
    assert not Path("runs").exists()


def test_a_port_in_use_and_another_programs_run_are_named(tmp_path: Path):
    with listen("127.0.0.1", 0, None) as taken, pytest.raises(UsageError, match=r"choose another with --port"):
        listen("127.0.0.1", taken.getsockname()[1], None)
    other = tmp_path / "other"
    shutil.copytree(Path(__file__).parents[1] / "data" / "golden" / "imported", other)
    with (
        pytest.raises(UsageError, match="was not made by the gateway"),
        gateway("http://127.0.0.1:9/v1", tmp_path, folder=next(other.rglob("run.json")).parent),
    ):
        pass
