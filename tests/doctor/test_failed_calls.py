"""Calls that brought no reply: each kind of error is a failed check that says what to do."""

import httpx2
import openai
import pytest
from agents.exceptions import UserError

from harness.core.errors import UsageError
from harness.doctor.checks import Check
from harness.doctor.live_checks import failed_call, late_reply, unreadable_reply

REQUEST = httpx2.Request("POST", "http://host/v1")


def status_error(code: int, message: str) -> openai.APIStatusError:
    return openai.APIStatusError(message, response=httpx2.Response(code, request=REQUEST), body=None)


@pytest.mark.parametrize(
    ("error", "found", "do"),
    [
        (UsageError("no such model; name another"), "no such model", "name another"),
        (UserError("unknown prefix"), "unknown prefix", "--model"),
        (TimeoutError(), "no reply within 3 s", "still loading"),
        (openai.APITimeoutError(REQUEST), "no reply within 3 s", "still loading"),
        (status_error(503, "Loading"), "host failed (503): Loading", "in a while"),
        *[
            (status_error(code, "no seed"), f"refused the first call to the model 'm' ({code}: no seed)", "the setting")
            for code in (400, 422)
        ],
        (status_error(404, "gone"), "host does not have the model 'm' (404: gone)", "check the address"),
        (status_error(405, "Not Allowed"), "host failed (405): Not Allowed", "OpenAI-compatible address"),
        (ValueError("two\n lines"), "what came back is no model's reply (ValueError: two lines)", "--api"),
        (None, "what came back is no model's reply", "--api"),
    ],
)
def test_an_error_is_a_failed_check_that_says_what_to_do(error: BaseException | None, found: str, do: str):
    check = failed_call("reply", error, "m", "host", after_s=3.2)
    assert (check.name, check.status) == ("reply", "fail")
    assert found in check.found
    assert do in (check.do or "")


def test_seconds_are_rounded_and_long_messages_cut():
    assert late_reply("reply", 59.6) == Check(
        "reply", "fail", "no reply within 60 s", "is the model still loading? Ask again"
    )
    assert late_reply("reply", 5.0, "HTTP 429").found == "no reply within 5 s; the last error: HTTP 429"
    assert len(unreadable_reply("reply", ValueError("x" * 999)).found) < 300
