"""Token counts of every form are read alike, and what was not told is None."""

import pytest
from agents import ModelResponse
from agents import Usage as SdkUsage
from openai.types.responses import ResponseUsage

from harness.core.records import Bill, Usage
from harness.endpoints.usage import bill_of, from_sdk, read_bill, to_sdk

TOLD = Usage(requests=1, input=7, output=5, cached=3, reasoning=2)
NOT_TOLD = Usage(requests=1)
WHOLE = {"input_tokens": 7, "output_tokens": 5}


def test_both_apis_replies_are_read_alike() -> None:
    chat = {
        "prompt_tokens": 7,
        "completion_tokens": 5,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    assert read_usage(chat) == read_usage(responses().model_dump()) == TOLD
    assert read_usage({"prompt_tokens": 7, "completion_tokens": 5}) == Usage(requests=1, input=7, output=5)


@pytest.mark.parametrize(
    "counts",
    [
        None,
        "many",
        [7],
        {},
        {"prompt_tokens": "seven", "prompt_tokens_details": [3]},
        {"input_tokens": -5, "output_tokens": 1.5},
        {"input_tokens": float("inf")},
        {"input_tokens": 10**18, "output_tokens": 2e15},
    ],
)
def test_what_is_no_count_was_not_told(counts: object) -> None:
    assert read_usage(counts) == NOT_TOLD


def test_a_count_may_be_written_as_a_whole_float_or_in_digits() -> None:
    assert read_usage({"prompt_tokens": 7.0, "completion_tokens": "5"}) == Usage(requests=1, input=7, output=5)


def test_the_sdks_zeros_are_not_told_and_its_attempts_do_not_count() -> None:
    usage = to_sdk(responses())
    usage.requests = 4
    assert usage_of_sdk(usage) == TOLD
    assert usage_of_sdk(to_sdk(None)) == usage_of_sdk(SdkUsage(requests=2)) == NOT_TOLD


def test_counts_that_no_reply_can_have_are_not_believed_in_any_form() -> None:
    absurd = SdkUsage(requests=1, input_tokens=10**18, output_tokens=5)
    told = Usage(requests=1, output=5)
    assert usage_of_sdk(absurd) == told.model_copy(update={"cached": 0, "reasoning": 0})
    assert told == read_usage({"prompt_tokens": 10**18, "completion_tokens": 5})
    assert told == read_usage({"input_tokens": 10**18, "output_tokens": 5})
    assert sdk_bill(absurd).is_odd
    assert not sdk_bill(to_sdk(responses())).is_odd


@pytest.mark.parametrize(
    ("counts", "usage", "is_odd"),
    [
        ({"input_tokens": -7, "output_tokens": 5}, Usage(requests=1, output=5), True),
        ({"input_tokens": 7, "output_tokens": 5.5}, Usage(requests=1, input=7), True),
        ({"prompt_tokens": 7, "completion_tokens": "many"}, Usage(requests=1, input=7), True),
        ({"prompt_tokens": 7, "completion_tokens": None}, Usage(requests=1, input=7), False),
        ({"prompt_tokens": 0, "completion_tokens": 0}, NOT_TOLD, False),
        (
            WHOLE | {"input_tokens_details": {"cached_tokens": 8}},
            Usage(requests=1, input=7, output=5),
            True,
        ),
        (
            {
                "input_tokens": 7,
                "output_tokens": 5,
                "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 5},
            },
            Usage(requests=1, input=7, output=5, cached=3),
            True,
        ),
        (
            {
                "input_tokens": 7,
                "output_tokens": 5,
                "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 4},
            },
            Usage(requests=1, input=7, output=5, cached=3, cache_write=4),
            False,
        ),
    ],
)
def test_what_no_reply_can_have_is_left_out_and_known_to_be(counts: object, usage: Usage, is_odd: bool) -> None:
    found = read_bill({"usage": counts})
    assert (found.usage, found.is_odd) == (usage, is_odd)


def test_a_stream_tells_what_it_was_told() -> None:
    assert from_sdk(to_sdk(responses())) == responses()


def test_a_span_tells_tokens_or_nothing() -> None:
    assert read_usage({"input_tokens": 7, "output_tokens": 5}) == Usage(requests=1, input=7, output=5)
    assert read_usage(None) == read_usage({}) == NOT_TOLD


def responses() -> ResponseUsage:
    return ResponseUsage.model_validate(
        {
            "input_tokens": 7,
            "output_tokens": 5,
            "total_tokens": 12,
            "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 2},
        }
    )


def read_usage(counts: object) -> Usage:
    return read_bill({"usage": counts}).usage


def sdk_bill(counts: SdkUsage) -> Bill:
    return bill_of(ModelResponse(output=[], usage=counts, response_id=None))


def usage_of_sdk(counts: SdkUsage) -> Usage:
    return sdk_bill(counts).usage
