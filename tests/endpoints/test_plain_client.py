"""What the plain client sends is what openai's own client sends, byte for byte."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, get_args, get_type_hints, is_typeddict

import httpx2
import openai
import pytest
from openai._utils import PropertyInfo
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params

from harness.endpoints.client import PlainClient

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "é"}, {"type": "image_url", "image_url": {"url": "data:,"}}]},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "of another provider",
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "found"},
]
FUNCTION: dict[str, Any] = {"name": "look_up", "parameters": {"type": "object", "properties": {}}, "strict": True}
CHAT: dict[str, Any] = {"model": "m", "messages": MESSAGES, "temperature": 0.8, "extra_headers": {"X-Of": "mine"}}
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "Why?"},
    {"type": "function_call", "call_id": "1", "name": "look_up", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_text", "text": "found"}]},
]


@pytest.mark.parametrize(
    "parameters",
    [
        CHAT,
        CHAT | {"tools": [{"type": "function", "function": FUNCTION}], "seed": 3, "stream": True},
        CHAT | {"tools": openai.omit, "seed": openai.omit, "extra_body": {"top_k": 5}},
        CHAT | {"extra_body": {"messages": [{"role": "user", "content": "instead"}]}},
        CHAT | {"messages": tuple(MESSAGES)},
        {"model": "m", "input": ITEMS, "tools": [{"type": "function", **FUNCTION}], "stream": True},
        {"model": "m", "input": "Why?", "include": ["reasoning.encrypted_content"], "extra_body": None},
    ],
)
def test_it_sends_what_the_openai_client_sends(parameters: dict[str, Any]) -> None:
    assert sent(PlainClient, parameters) == sent(openai.AsyncOpenAI, parameters)


def test_what_a_model_reads_has_no_field_that_the_openai_client_would_change() -> None:
    chat = get_type_hints(completion_create_params.CompletionCreateParamsBase, include_extras=True)
    responses = get_type_hints(response_create_params.ResponseCreateParamsBase, include_extras=True)
    for read in (chat["messages"], chat["tools"], responses["input"], responses["tools"]):
        assert list(changed_fields(read, set())) == []


def sent(client_class: type[openai.AsyncOpenAI], parameters: dict[str, Any]) -> tuple[str, bytes, str | None]:
    """Return the path, the body and one header of a request with these parameters."""
    requests: list[httpx2.Request] = []

    def refuse(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(400)

    async def send() -> None:
        http_client = httpx2.AsyncClient(transport=httpx2.MockTransport(refuse))
        async with client_class(base_url="http://here/v1", api_key="none", http_client=http_client) as client:
            resource: Any = client.chat.completions if "messages" in parameters else client.responses
            with pytest.raises(openai.BadRequestError):
                await resource.create(**parameters)

    asyncio.run(send())
    (request,) = requests
    return request.url.path, request.content, request.headers.get("X-Of")


def changed_fields(annotation: Any, seen: set[Any]) -> Any:
    """Yield what a parameter's type says of fields that are renamed or encoded on their way."""
    for part in (annotation, *getattr(annotation, "__metadata__", ())):
        if isinstance(part, PropertyInfo) and (part.alias or part.format):
            yield part
    if is_typeddict(annotation) and annotation not in seen:
        seen.add(annotation)
        for field in get_type_hints(annotation, include_extras=True).values():
            yield from changed_fields(field, seen)
    for argument in get_args(annotation):
        yield from changed_fields(argument, seen)


# ---- A body that is sent as it is


def test_a_body_goes_where_the_openai_clients_own_call_goes_with_its_headers_but_of_the_machine() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"\xc3\xa9"}]}'
    parameters = {"model": "m", "messages": [{"role": "user", "content": "é"}]}

    async def by_text(client: PlainClient) -> None:
        assert [(await client.send_bytes("/chat/completions", body)).content for _ in range(2)] == [b'{"of": "it"}'] * 2

    async def by_create(client: Any) -> None:
        await client.chat.completions.create(**parameters)

    ours, again = answered(by_text)
    (theirs,) = answered(by_create, client_class=openai.AsyncOpenAI)
    headers = [(name, value) for name, value in theirs.headers.items() if not name.startswith("x-stainless-")]
    for request in (ours, again):
        assert (request.method, request.url, request.content) == (theirs.method, theirs.url, theirs.content) != ""
        assert sorted(request.headers.items()) == sorted(headers)
        assert request.extensions == theirs.extensions


def test_what_the_environment_says_of_the_openai_account_goes_only_where_the_client_sends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin")

    async def send(client: PlainClient) -> None:
        await client.send_bytes("/chat/completions", b"{}")

    (request,) = answered(send, default_headers={"OpenAI-Organization": openai.Omit()}, organization="org-of-somebody")
    assert request.headers["authorization"] == "Bearer sk-key"
    assert "openai-organization" not in request.headers


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx2.Response(400, json={"error": {"message": "no", "code": "c", "param": "p"}}), openai.BadRequestError),
        (httpx2.Response(404, text="<html>"), openai.NotFoundError),
        (httpx2.Response(429, headers={"retry-after": "7"}), openai.RateLimitError),
        (httpx2.Response(503), openai.InternalServerError),
        (httpx2.Response(304), openai.APIStatusError),
        (httpx2.ReadTimeout("late"), openai.APITimeoutError),
        (httpx2.ConnectError("nobody"), openai.APIConnectionError),
        (httpx2.RemoteProtocolError("gone"), openai.APIConnectionError),
    ],
)
def test_what_goes_wrong_is_the_error_of_the_openai_clients_own_call(
    answer: httpx2.Response | Exception, error: type[openai.OpenAIError]
) -> None:
    async def by_text(client: PlainClient) -> None:
        await client.send_bytes("/chat/completions", b"{}")

    async def by_create(client: PlainClient) -> None:
        await client.chat.completions.create(model="m", messages=[])

    errors = list[Any]()
    for call in (by_text, by_create):
        with pytest.raises(error) as raised:
            answered(call, answer)
        errors.append(raised.value)
    ours, theirs = errors
    assert (type(ours), str(ours), getattr(ours, "body", None)) == (
        type(theirs),
        str(theirs),
        getattr(theirs, "body", None),
    )
    assert type(ours.__cause__) is type(theirs.__cause__)


def answered(
    call: Callable[[Any], Awaitable[None]],
    answer: httpx2.Response | Exception | None = None,
    client_class: type[openai.AsyncOpenAI] = PlainClient,
    **options: Any,
) -> list[httpx2.Request]:
    """Make calls to a server that always gives `answer`, and return the requests."""
    requests: list[httpx2.Request] = []

    def server(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer or httpx2.Response(200, text='{"of": "it"}', headers={"content-type": "application/json"})

    async def work() -> None:
        http_client = httpx2.AsyncClient(transport=httpx2.MockTransport(server))
        base_url, key = "http://here:8000/v1", "sk-key"
        async with client_class(
            base_url=base_url, api_key=key, http_client=http_client, max_retries=0, timeout=7.0, **options
        ) as client:
            await call(client)

    asyncio.run(work())
    return requests
