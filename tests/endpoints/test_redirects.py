"""Prompts and keys go to the origin that was named, and follow no redirect to another."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import openai
import pytest
from pydantic import SecretStr

from harness.doctor.local_servers import find_servers
from harness.endpoints.address import Endpoint
from harness.endpoints.client import openai_client
from harness.endpoints.retries import as_refusal, read_failure
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Refuse, Say, Script, Seen, fair_judge

pytestmark = pytest.mark.anyio
REDIRECTS = (301, 302, 303, 307, 308)


@pytest.fixture
def evil() -> Iterator[FakeEndpoint]:
    """The address that nobody named. It would answer."""
    with FakeEndpoint().serving() as served:
        yield served


def to(url: str, status: int = 307, after: int = 0) -> Script:
    """A server that answers so many calls, and sends the others on to `url`."""
    answered: list[Seen] = []

    def reply(seen: Seen) -> Say | Refuse:
        answered.append(seen)
        return Say("Fine.") if len(answered) <= after else Refuse(status, headers={"location": url})

    return reply


async def ask(url: str) -> Any:
    endpoint = Endpoint(base_url=url, api="chat", key=SecretStr("sk-very-secret"))
    async with openai_client(endpoint) as client:
        return await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Why?"}])


@pytest.mark.parametrize("status", REDIRECTS)
async def test_no_redirect_to_another_port_is_followed(status: int, evil: FakeEndpoint) -> None:
    server = FakeEndpoint(to(f"{evil.base_url}/chat/completions", status))
    with server.serving() as endpoint, pytest.raises(openai.OpenAIError) as caught:
        await ask(endpoint.base_url)
    assert evil.requests == []
    failure, refusal = read_failure(caught.value), as_refusal(caught.value, "m", endpoint.host)
    assert (failure.kind, failure.type) == ("api", "RedirectRefused")
    assert f"http://{evil.host}" in failure.message
    assert refusal
    assert str(refusal) == (
        f"{endpoint.host} redirects to http://{evil.host}; if you trust it, name that address with --base-url"
    )


@pytest.mark.parametrize(
    "location",
    [
        "https://127.0.0.1:{port}/v1/chat/completions",
        "http://localhost:{port}/v1/chat/completions",
        "//localhost:{port}/v1",
        "http://user:pass@localhost:{port}/v1",
        "HTTP://LOCALHOST:{port}/v1",
        "http://127.0.0.1.:{port}/v1",
    ],
)
async def test_another_scheme_or_host_is_another_origin(location: str) -> None:
    requests: list[Seen] = []
    with FakeEndpoint().serving() as endpoint:
        port = endpoint.host.rpartition(":")[2]
        endpoint.agent = to(location.format(port=port))
        with pytest.raises(openai.OpenAIError) as caught:
            await ask(endpoint.base_url)
        requests += endpoint.requests
    assert len(requests) == 1
    message = read_failure(caught.value).message
    assert "RedirectRefused" in read_failure(caught.value).type
    assert "pass" not in message


@pytest.mark.parametrize("location", ["/v2/chat/completions", "//{host}/v2/chat/completions", "{url}/v2"])
async def test_a_redirect_within_the_origin_is_followed(location: str) -> None:
    def reply(seen: Seen) -> Say | Refuse:
        moved = location.format(host=endpoint.host, url=f"http://{endpoint.host}")
        return Refuse(307, headers={"location": moved}) if seen.path.startswith("/v1/") else Say("Moved.")

    with FakeEndpoint(reply).serving() as endpoint:
        answer = await ask(endpoint.base_url)
    assert answer.choices[0].message.content == "Moved."
    assert [seen.path[:3] for seen in endpoint.requests] == ["/v1", "/v2"]


async def test_a_redirect_after_one_within_the_origin_is_refused_too(evil: FakeEndpoint) -> None:
    def reply(seen: Seen) -> Refuse:
        first = seen.path.startswith("/v1/")
        return Refuse(308, headers={"location": "/v2/chat/completions" if first else f"{evil.base_url}/x"})

    with FakeEndpoint(reply).serving() as endpoint, pytest.raises(openai.OpenAIError):
        await ask(endpoint.base_url)
    assert (len(endpoint.requests), evil.requests) == (2, [])


async def test_doctor_follows_no_redirect_of_a_server_on_this_machine() -> None:
    asked: list[str] = []

    class Moving(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("location", f"http://localhost:{port}/elsewhere")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    with ExitStack() as stack:
        server = stack.enter_context(HTTPServer(("127.0.0.1", 0), Moving))
        port = server.server_port
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        stack.callback(server.shutdown)
        assert await find_servers([port]) == []
    assert asked == ["/v1/models"]


# ---- Commands

RUN = ("run", "Why?", "--model", "m", "-n", "3", "--concurrency", "1")


def test_a_redirected_first_call_ends_the_run_before_the_prompt_goes_anywhere(
    harness: Harness, evil: FakeEndpoint
) -> None:
    with FakeEndpoint(to(f"{evil.base_url}/chat/completions")).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "sk-very-secret"}
        done = harness(*RUN, env=env)
        doctor = harness("doctor", "--model", "m", "--live", "--ports", "", env=env)
    assert (done.code, done.out) == (2, "")
    assert f"redirects to http://{evil.host}; if you trust it, name that address with --base-url" in done.err
    assert doctor.code == 2
    assert f"redirects to http://{evil.host}" in doctor.out
    assert evil.requests == []
    assert len([seen for seen in endpoint.requests if seen.system or seen.items]) <= 4  # no retries


def test_a_later_redirect_is_a_failed_rollout(harness: Harness, evil: FakeEndpoint) -> None:
    with FakeEndpoint(to(f"{evil.base_url}/chat/completions", after=2)).serving() as endpoint:
        done = harness(*RUN, "--topology", "none", "--json", env={"OPENAI_BASE_URL": endpoint.base_url})
    assert done.code == 1
    failures = [rollout["failure"] for rollout in done.json["groups"][0]["rollouts"]]
    assert [failure and (failure["kind"], failure["type"]) for failure in failures].count(
        ("api", "RedirectRefused")
    ) == len([failure for failure in failures if failure])
    assert any(failures)
    assert evil.requests == []


def first_fair(url: str) -> Script:
    fair, asked = fair_judge(), list[Seen]()

    def reply(seen: Seen) -> Any:
        asked.append(seen)
        return fair(seen) if len(asked) == 1 else Refuse(307, headers={"location": url})

    return reply


@pytest.mark.parametrize("judge", [to, first_fair], ids=["first", "later"])
def test_a_judge_that_redirects_gets_no_transcript_judged_elsewhere(
    judge: Callable[[str], Script], harness: Harness, evil: FakeEndpoint
) -> None:
    with FakeEndpoint(judge=judge(f"{evil.base_url}/chat/completions")).serving() as endpoint:
        done = harness(*RUN, "--judge-base-url", endpoint.base_url, env={"OPENAI_BASE_URL": endpoint.base_url})
    assert done.code in {2, 3}
    assert f"redirects to http://{evil.host}" in done.err + done.out
    assert evil.requests == []
