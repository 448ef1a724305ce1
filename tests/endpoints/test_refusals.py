"""What a refusal holds for: the account, the model, or one request; and what it ends."""

import random
from typing import Any

import anyio
import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.progress import Silent
from harness.endpoints.breaker import EndpointDown
from harness.endpoints.gate import Gate, Patience
from harness.endpoints.retries import error_text, is_quota, read_failure, shuts_out

REQUEST = httpx2.Request("POST", "http://host/v1")
CLASSES = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    429: openai.RateLimitError,
}


def refusal(status: int, message: str, code: str | None = None, **headers: str) -> openai.APIStatusError:
    body = {"message": message, "code": code}
    response = httpx2.Response(status, headers=headers, request=REQUEST)
    return CLASSES.get(status, openai.APIStatusError)(message, response=response, body=body)


EMPTY = (
    refusal(429, "You exceeded your current quota, please check your plan", "insufficient_quota"),
    refusal(429, "You exceeded your current quota, please check your plan and billing details."),
    refusal(402, "anything"),
    refusal(402, "Insufficient Balance"),
    refusal(400, "Your credit balance is too low to access the Anthropic API.", "invalid_request_error"),
    refusal(400, "Billing hard limit has been reached", "billing_hard_limit_reached"),
    refusal(403, "Out of call volume quota. Quota will be replenished in 2 days."),
    refusal(403, "user quota is not enough", "insufficient_user_quota"),
    refusal(403, "用户额度不足"),
)
WAITS = (
    refusal(429, "Rate limit reached for requests per minute"),
    refusal(429, "You exceeded your current quota. Please retry in 32s. RESOURCE_EXHAUSTED"),
    refusal(429, "Quota exceeded for aiplatform.googleapis.com/requests per minute"),
    refusal(429, "You exceeded your current quota", **{"retry-after": "3"}),
)
OF_ONE_REQUEST = (
    refusal(400, "temperature is not supported"),
    refusal(403, "Your chosen model requires moderation and your input was flagged"),
    refusal(403, "no", "content_policy_violation"),
    refusal(403, "The request goes against our usage policy"),
)


@pytest.mark.parametrize("error", EMPTY, ids=str)
def test_an_empty_account_is_known_in_any_providers_words(error: openai.APIStatusError) -> None:
    assert (is_quota(error), shuts_out(error), read_failure(error).kind) == (True, "account", "quota")


@pytest.mark.parametrize("error", [*WAITS, *OF_ONE_REQUEST], ids=str)
def test_a_limit_on_the_rate_and_the_refusal_of_one_request_end_nothing(error: openai.APIStatusError) -> None:
    assert (is_quota(error), shuts_out(error)) == (False, None)
    assert (read_failure(error).kind == "content_filter") is (error.status_code == 403), "what it asks is the agent's"


@pytest.mark.parametrize("body", ["<h1>nginx: no live upstreams</h1>", {"detail": "no live upstreams"}])
def test_a_refusal_whose_body_has_a_form_of_its_own_is_quoted(body: object) -> None:
    response = httpx2.Response(502, request=REQUEST)
    error = openai.InternalServerError("Error code: 502", response=response, body=body)
    assert read_failure(error).message == f"Error code: 502: {body}"


@pytest.mark.parametrize("body", ["no temperature for verysecretword", {"message": "no"}], ids=["text", "object"])
def test_what_an_error_says_holds_no_key_that_its_request_carried(body: object) -> None:
    request = httpx2.Request("POST", REQUEST.url, headers={"authorization": "Bearer verysecretword"})
    said = "no temperature for Bearer verysecretword"
    error = openai.BadRequestError(said, response=httpx2.Response(400, request=request), body=body)
    assert "verysecretword" not in error_text(error)
    assert "no temperature for" in error_text(error)


async def ask(gate: Gate, model: str, error: openai.APIStatusError | None = None) -> str:
    """Return what became of a call: ok, refused, or not sent."""

    async def call() -> str:
        await anyio.lowlevel.checkpoint()
        if error:
            raise error
        return "ok"

    try:
        return await gate.send(call, model=model)
    except openai.APIStatusError:
        return "refused"
    except EndpointDown:
        return "not sent"


@pytest.mark.parametrize(
    ("error", "same", "other"),
    [
        (refusal(401, "wrong key"), "not sent", "not sent"),
        (EMPTY[0], "not sent", "not sent"),
        (refusal(404, "no such model"), "not sent", "ok"),
        (refusal(403, "this key has no access to the model"), "not sent", "ok"),
        *((error, "ok", "ok") for error in OF_ONE_REQUEST),
    ],
    ids=str,
)
def test_a_refused_key_ends_the_endpoint_and_a_refused_model_itself_alone(
    error: openai.APIStatusError, same: str, other: str
) -> None:
    async def calls() -> list[str]:
        at = Gate("host", Patience(), random.Random(0), Silent())
        made = [await ask(at, "sound"), await ask(at, "refused", error)]
        return [*made, await ask(at, "refused"), await ask(at, "sound")]

    assert anyio.run(calls) == ["ok", "refused", same, other]


@given(st.sampled_from([401, 402, 403, 404]), st.booleans())
def test_of_a_single_model_any_refusal_ends_the_endpoint(status: int, answered: bool) -> None:
    async def calls() -> tuple[Any, ...]:
        at = Gate("host", Patience(), random.Random(0), Silent())
        if answered:
            await ask(at, "m")
        await ask(at, "m", refusal(status, "no"))
        return at.given_up is not None, await ask(at, "m")

    assert anyio.run(calls) == (True, "not sent")
