"""What a session's own reply is as items in the next request: the same as if it were read anew from its message."""

from typing import Any

import pytest

from harness.gateway.recorded import ChatHistory, sdk_reply

CALL: dict[str, Any] = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    "message",
    [
        {"content": "Hi."},
        {"content": "Hi.", "refusal": None, "annotations": [], "tool_calls": None},
        {"content": "", "refusal": "No."},
        {"content": [{"type": "text", "text": "a"}]},
        {"content": None, "tool_calls": [CALL, CALL | {"id": "d"}]},
        {"content": None, "tool_calls": [CALL | {"extra_content": {"google": {"thought_signature": "z"}}}]},
        {"content": "Hi.", "reasoning_content": "Look."},
        {"content": "Hi.", "reasoning": "Look.", "tool_calls": [CALL]},
        {"content": "Hi.", "thinking_blocks": [{"type": "thinking", "thinking": "Look.", "signature": "s"}]},
        {
            "content": "Hi.",
            "annotations": [
                {
                    "type": "url_citation",
                    "url_citation": {"start_index": 0, "end_index": 1, "url": "http://here", "title": "t"},
                }
            ],
        },
    ],
)
def test_a_reply_that_comes_back_is_the_items_that_its_message_is(message: dict[str, Any]):
    said = {"role": "assistant", **message}
    reply = {"id": "r", "model": "m", "choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}
    request = {"messages": [{"role": "user", "content": "Why?"}, said, {"role": "user", "content": "And?"}]}
    known = ChatHistory(said=(said, sdk_reply(reply)))
    assert known.read("chat", request) == ChatHistory().read("chat", request)
