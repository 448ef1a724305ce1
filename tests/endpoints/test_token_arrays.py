"""Cutting token arrays out of a body reads what reading the whole body reads; what looks otherwise is not cut."""

import json
from typing import Any

import pytest

from harness.endpoints.reply_tokens import ReplyTokens, TokenIds, read_body

TEXTS = ['"logprob":', '"token_ids": [7]', "]}", "\\", '\\"', "\u00e9", '{"logprobs":{"content":[']


def body(**changes: Any) -> dict[str, Any]:
    """Return a reply whose words are those that the cutting looks for."""
    entries = [{"token": t, "logprob": -0.5 * i, "bytes": [1, 2], "top_logprobs": []} for i, t in enumerate(TEXTS)]
    choice = {"index": 0, "message": {"role": "assistant", "content": "".join(TEXTS)}, "logprobs": {"content": entries}}
    choice |= {"finish_reason": "stop", "token_ids": list(range(len(TEXTS)))}
    usage = {"completion_tokens": len(TEXTS), "prompt_tokens": 3}
    return {"choices": [choice | changes], "usage": usage, "prompt_token_ids": [0, 151_643, 4_294_967_295]}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_words_in_texts_are_not_taken_for_arrays(separators: tuple[str, str]):
    whole = body()
    read = read_body(json.dumps(whole, separators=separators).encode(), logprobs=True)
    assert read is not None
    assert isinstance(read["choices"][0]["token_ids"], TokenIds)
    assert isinstance(read["prompt_token_ids"], TokenIds)
    logprobs = read["choices"][0].pop("logprobs")
    of_body = whole["choices"][0].pop("logprobs")
    assert logprobs["content"] == [entry["logprob"] for entry in of_body["content"]]
    assert read == whole


def test_logprobs_that_are_asked_for_stay():
    assert read_body(json.dumps(body()).encode(), logprobs=False) == body()


ALTERNATIVES = [{"token": "a", "logprob": -1, "top_logprobs": [{"token": "b", "logprob": -2}]} for _ in TEXTS]
GAPS = [{"token": "a", "logprob": None if i == 2 else -1} for i, _ in enumerate(TEXTS)]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"logprobs": {"content": ALTERNATIVES}},
        {"logprobs": {"content": GAPS}},
        {"logprobs": {"refusal": None, "content": ALTERNATIVES}},
        {"logprobs": None},
        {"token_ids": [1.0] * 7},
        {"token_ids": [True] * 7},
        {"token_ids": [-1] * 7},
        {"token_ids": [2**32] * 7},
        {"token_ids": [[1]] * 7},
        {"token_ids": []},
        {"token_ids": None},
        {"meta_info": {"token_ids": [1]}},
        {"prompt_token_ids": [5]},
    ],
)
def test_tokens_are_those_of_the_whole_body(changes: dict[str, Any]):
    whole, cut = ReplyTokens(), ReplyTokens()
    whole.take(body(**changes))
    read = read_body(json.dumps(body(**changes)).encode(), logprobs=True)
    cut.take(read if read is not None else body(**changes))
    assert cut.tokens() == whole.tokens()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'"token_ids": [1', b'{"token_ids": [1]}', b'{"choices": [{"token_ids": [1 2]}]}']
)
def test_what_is_no_reply_is_not_cut(content: bytes):
    assert read_body(content, logprobs=True) is None
