"""Every request and reply of a rollout is kept, and comes back as the SDK's own objects."""

import json
from typing import Any

import pytest
from agents import Agent, ModelResponse
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseReasoningItem

import harness
from harness.core.settings import Api
from harness.rollouts.packed_calls import parts
from harness.rollouts.raw import RawCall, pack, unpack
from tests.fake_endpoint import FakeEndpoint, Say, Seen
from tests.rollouts.test_capture import slow_then_fast

pytestmark = pytest.mark.anyio


def three_turns(seen: Seen) -> Say:
    done = len(seen.tool_outputs)
    if done == 3:
        return Say("Done.", reasoning="That is all.")
    return Say(calls=(("slow_then_fast", {"word": f"w{done}"}),), reasoning=f"Turn {done}.")


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_raw_calls_rebuild_the_requests_that_the_server_saw_and_the_replies_as_sdk_objects(api: Api):
    store = harness.MemoryStore()
    agent = Agent(name="a", instructions="Look up.", tools=[slow_then_fast])
    with FakeEndpoint(agent=three_turns).serving() as endpoint:
        group = await harness.rollout(agent, "Go.", n=1, model="m", base_url=endpoint.base_url, api=api, store=store)
    (rollout,) = group.rollouts
    text = store.blobs[rollout.raw_calls or ""]
    calls = unpack(text, store.blobs.__getitem__)
    assert [c.raw for c in rollout.calls] == [0, 1, 2, 3]
    assert len(calls) == len(endpoint.requests) == 4
    for call, seen in zip(calls, endpoint.requests, strict=True):
        assert call.request["instructions"] == seen.system == "Look up."
        assert [t["name"] for t in call.request["tools"]] == ["slow_then_fast"]
        outputs = [i["output"] for i in _items(call.request) if i.get("type") == "function_call_output"]
        assert outputs == seen.tool_outputs
    kinds = [type(item) for item in calls[0].reply.output]
    assert kinds == [ResponseReasoningItem, ResponseFunctionToolCall]
    assert isinstance(calls[3].reply.output[-1], ResponseOutputMessage)
    assert isinstance(calls[3].reply, ModelResponse)
    assert pack(calls, store.put_blob) == text


async def test_a_request_that_repeats_the_one_before_is_written_once():
    store = harness.MemoryStore()
    agent = Agent(name="a", instructions="Look up. " * 200, tools=[slow_then_fast])
    with FakeEndpoint(agent=three_turns).serving() as endpoint:
        group = await harness.rollout(agent, "Go.", n=1, model="m", base_url=endpoint.base_url, store=store)
    text = store.blobs[group.rollouts[0].raw_calls or ""]
    whole = "".join(store.blobs.values())
    assert whole.count("Look up. Look up.") == 100  # one copy of the instructions, counted in pairs
    assert [len(told["input"]) for told in json.loads(text)] == [1, 3, 3, 3]


def test_a_changed_request_and_a_shortened_history_come_back_exactly():
    reply = ModelResponse(output=[], usage=_usage(), response_id=None)
    requests: list[dict[str, Any]] = [
        {"instructions": "a", "input": "Hello.", "tools": []},
        {
            "instructions": "a",
            "input": [{"role": "user", "content": "1"}, {"role": "user", "content": "2"}],
            "tools": [],
        },
        {"instructions": "b", "input": [{"role": "user", "content": "1"}], "tools": [{"name": "t"}]},
        {"instructions": None, "input": [{"role": "user", "content": "9"}], "tools": []},
    ]
    packed = pack([RawCall(r, reply) for r in requests], none_is_long)
    assert [c.request for c in unpack(packed, none_is_long)] == requests


def none_is_long(text: str) -> str:
    raise AssertionError(text)


long_texts = st.builds(lambda t, n: t * n, st.text(st.characters(), min_size=1, max_size=3), st.integers(700, 2400))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | long_texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["$text", "$json", "$own", "a", "b"]), inner, max_size=2)
    ),
    max_leaves=6,
)

besides = st.none() | st.dictionaries(st.sampled_from(["$text", "$json", "$own", "a", "b"]), values, max_size=2)


@given(st.lists(st.tuples(st.none() | long_texts, st.lists(values, max_size=3), values, besides), max_size=3))
def test_long_texts_are_kept_apart_once_and_every_request_is_rebuilt_exactly(told):
    reply = ModelResponse(output=[], usage=_usage(), response_id="r" * 3000)
    requests: list[dict[str, Any]] = [{"instructions": i, "input": list(items), "tools": t} for i, items, t, _ in told]
    store = harness.MemoryStore()
    packed = pack([RawCall(r, reply, b) for r, (*_, b) in zip(requests, told, strict=True)], store.put_blob)
    calls = unpack(packed, store.blobs.__getitem__)
    assert [c.request for c in calls] == requests
    assert [c.beside for c in calls] == [beside for *_, beside in told]
    assert [c.reply.response_id for c in calls] == ["r" * 3000] * len(calls)
    assert set(parts(packed)) == store.blobs.keys()


async def test_what_the_rollouts_of_a_group_share_is_stored_once():
    store = harness.MemoryStore()
    passage = "A passage of some length. " * 100
    agent = Agent(name="a", instructions="Look up. " * 300, tools=[slow_then_fast])
    with FakeEndpoint(agent=lambda seen: Say(passage)).serving() as endpoint:
        await harness.rollout(agent, "Go. " * 600, n=6, model="m", base_url=endpoint.base_url, store=store)
    kept = "".join(store.blobs.values())
    assert kept.count(passage) == kept.count("Look up. " * 300) == kept.count("Go. " * 600) == 1


def _items(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [] if isinstance(request["input"], str) else request["input"]


def _usage() -> Any:
    from agents import Usage  # noqa: PLC0415

    return Usage(requests=1)
