"""What comes back through the gateway is what the upstream sent, but for the fields that the gateway asked for."""

import json
import socket
from itertools import repeat
from pathlib import Path
from typing import Any

import httpx2
import pytest

from harness.gateway.serve import listen
from tests.fake_endpoint import FakeEndpoint, Page, Raw, Reaction, Refuse, Say, Seen
from tests.gateway.serving import CHAT, KEY, Served, gateway
from tests.token_server import Kind, TokenServer

CALL = Say(calls=(("search", {"q": "sky"}),), reasoning="I should look.")
RESPONSES = {"model": "m", "input": "Why?", "temperature": 1.0}
ASKED = {"logprobs": True, "return_token_ids": True}


def both(endpoint: FakeEndpoint, served: Served, path: str, body: Any) -> tuple[httpx2.Response, httpx2.Response]:
    """Return what the upstream answers, asked at first hand and through the gateway; each reply has the number 1."""
    raw = json.dumps(body)
    endpoint.ids = repeat(1)  # pyright: ignore[reportAttributeAccessIssue] - in the place of a counter
    direct, through = (
        httpx2.post(f"{url}/{path}", content=raw, headers={"content-type": "application/json"})
        for url in (endpoint.base_url, f"{served.url}/s/a/v1")
    )
    return direct, through


def events(text: str, asked: Any) -> list[Any]:
    """Return the events of a stream without what nobody asked for: this server tells its usage unasked."""
    told = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    for event in told:
        for choice in event["choices"]:
            None if asked.get("logprobs") else choice.pop("logprobs", None)
    assert text.endswith("\n\ndata: [DONE]\n\n")
    return [event for event in told if "usage" not in event or "stream_options" in asked]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "body"), [("chat/completions", CHAT), ("responses", RESPONSES)])
@pytest.mark.parametrize("say", [Say("It scatters."), CALL, Say("It sc", finish="length")])
def test_plain_servers_replies_come_back_byte_for_byte(path: str, body: Any, say: Say, stream: bool, tmp_path: Path):
    endpoint = FakeEndpoint(lambda _: say)
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path, tokens="off") as served:
        direct, through = both(endpoint, served, path, body | ({"stream": True} if stream else {}))
    assert through.content == direct.content
    assert through.headers["content-type"] == direct.headers["content-type"]
    assert [seen.raw for seen in endpoint.requests[:1]] == [seen.raw for seen in endpoint.requests[1:]]


@pytest.mark.parametrize("kind", ["vllm", "sglang", "ignoring", "refusing", "refusing-without-a-word"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("asked", [{}, {"logprobs": True}, {"stream_options": {"include_usage": True}}])
def test_what_the_gateway_asked_for_is_taken_out_again(kind: Kind, stream: bool, asked: Any, tmp_path: Path):
    if not stream and "stream_options" in asked:
        pytest.skip("of a stream")
    endpoint = FakeEndpoint(numbered(TokenServer(lambda _: Say("It scatters.", reasoning="Light."), kind)))
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path) as served:
        direct, through = both(endpoint, served, "chat/completions", {**CHAT, **asked, "stream": stream})
    if stream:
        usual, got = events(direct.text, asked), events(through.text, asked)
    else:
        usual, got = direct.json(), through.json()
        if not asked:
            assert got["choices"][0].pop("logprobs", None) is None
            usual["choices"][0].pop("logprobs", None)
    assert got == usual


@pytest.mark.parametrize("stream", [False, True])
def test_who_asks_for_tokens_gets_the_same_bytes(stream: bool, tmp_path: Path):
    endpoint = FakeEndpoint(numbered(TokenServer(lambda _: Say("It scatters."))))
    body = {**CHAT, **ASKED, "return_prompt_token_ids": True, "return_meta_info": True}
    body |= {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path) as served:
        direct, through = both(endpoint, served, "chat/completions", body)
        assert through.content == direct.content
        assert len({seen.raw for seen in endpoint.requests}) == 1
        assert served.close("a").json()["sampled_tokens"]


def numbered(server: TokenServer) -> Any:
    """Return a server whose replies all have one id."""

    def reply(seen: Seen) -> Reaction:
        said = server(seen)
        if not isinstance(said, Raw):
            return said
        if isinstance(said.body, dict):
            return Raw({**said.body, "id": "chatcmpl-1"})
        return Raw("".join(_renamed(line) for line in said.body.splitlines(keepends=True)))

    return reply


def _renamed(line: str) -> str:
    if not line.startswith("data: {"):
        return line
    return f"data: {json.dumps({**json.loads(line[6:]), 'id': 'chatcmpl-1'})}\n"


@pytest.mark.parametrize(
    "reaction",
    [
        Refuse(429, "slow down", "rate_limit_exceeded", headers={"retry-after": "7"}),
        Refuse(500, f"the key {KEY} broke something"),
        Refuse(401, "Incorrect API key"),
        Page("<html>maintenance</html>"),
        Raw({"choices": [], "odd": True}),
        Raw({"error": {"message": "no"}}),
    ],
)
def test_what_is_no_reply_comes_back_too_without_the_key(reaction: Reaction, tmp_path: Path):
    endpoint = FakeEndpoint(lambda _: reaction)
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path, tokens="off") as served:
        direct, through = both(endpoint, served, "chat/completions", CHAT)
        assert (through.status_code, through.text) == (direct.status_code, direct.text.replace(KEY, "(key)"))
        assert through.headers.get("retry-after") == direct.headers.get("retry-after")
        rollout = served.close("a").json()
    assert rollout["status"] == "ok"
    assert rollout["calls"][0]["error"]
    assert rollout["raw_calls"] is None


def test_an_openai_client_and_its_streams_notice_nothing(tmp_path: Path):
    server = TokenServer(lambda _: Say("It scatters."))
    endpoint = FakeEndpoint(lambda seen: server(seen) if "messages" in seen.body else Say("It scatters."))
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path) as served, served.client("a") as client:
        messages: Any = CHAT["messages"]
        whole = client.chat.completions.create(model="m", messages=messages)
        assert whole.choices[0].message.content == "It scatters."
        with client.chat.completions.stream(model="m", messages=messages) as stream:
            assert stream.get_final_completion().choices[0].message.content == "It scatters."
        assert client.responses.create(model="m", input="Why?").output_text == "It scatters."
        assert [m.id for m in client.models.list()] == []
        assert served.progress.notes == [
            "no token ids are recorded of calls to Responses: only Chat Completions tell them"
        ]
    assert {seen.key for seen in endpoint.requests} == {KEY}


def test_no_part_of_a_reply_waits_for_the_client_to_acknowledge_another():
    with listen("127.0.0.1", 0, None) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
