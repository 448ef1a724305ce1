"""A rollout's calls as turns are what the servers were sent, and turns join only where one extends another exactly."""

import json
from collections.abc import Sequence
from typing import Any, cast

import pytest
from agents import Agent, ModelResponse, Usage, function_tool, handoff
from agents.extensions.handoff_filters import remove_all_tools
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseReasoningItem

import harness
from harness.core.records import ModelCall
from harness.core.settings import Api
from harness.formats.turns import Message, NoMessages, Turn, TurnSequence, join_turns, recorded_turns
from harness.rollouts.raw import RawCall, unpack
from tests.fake_endpoint import FakeEndpoint, Say, Script, Seen

ONE_API = pytest.mark.parametrize("api", ["chat", "responses"])


@function_tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"meaning of {word}"


async def turns_and_requests(
    script: Script, agent: Agent[Any], api: Api = "chat"
) -> tuple[tuple[Turn, ...], list[Seen]]:
    store = harness.MemoryStore()
    with FakeEndpoint(agent=script).serving() as endpoint:
        group = await harness.rollout(agent, "Go.", n=1, model="m", base_url=endpoint.base_url, api=api, store=store)
    (rollout,) = group.rollouts
    assert rollout.status == "ok", rollout.failure
    calls = unpack(store.blobs[rollout.raw_calls or ""], store.blobs.__getitem__)
    return recorded_turns(calls, rollout.calls, api), endpoint.requests


def two_at_once(seen: Seen) -> Say:
    if not seen.tool_outputs:
        return Say("I look.", calls=(("look_up", {"word": "a"}), ("look_up", {"word": "b"})), reasoning="Two words.")
    return Say("Done.") if len(seen.tool_outputs) == 3 else Say(calls=(("look_up", {"word": "c"}),))


def without_strict(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**t, "function": {k: v for k, v in t["function"].items() if k != "strict"}} for t in tools]


def roles(sequence: TurnSequence) -> str:
    marks = zip(sequence.messages, sequence.message_mask, strict=True)
    return " ".join(m["role"][0].upper() if mask else m["role"][0] for m, mask in marks)


@pytest.mark.anyio
async def test_context_and_tools_of_a_turn_are_what_a_chat_server_was_sent():
    agent = Agent(name="a", instructions="Look up.", tools=[look_up])
    turns, requests = await turns_and_requests(two_at_once, agent)
    assert [list(turn.context) for turn in turns] == [seen.body["messages"] for seen in requests]
    assert [list(turn.tools) for turn in turns] == [without_strict(seen.body["tools"]) for seen in requests]
    assert {(turn.agent, turn.model, turn.tokens, turn.lost) for turn in turns} == {("a", "m", None, ())}


@pytest.mark.anyio
@ONE_API
async def test_parallel_calls_stay_in_one_message_and_reasoning_stands_beside_them(api: Api):
    turns, _ = await turns_and_requests(two_at_once, Agent(name="a", instructions="Look up.", tools=[look_up]), api)
    if api == "chat":
        (message,) = turns[0].completion
        assert message["content"] == "I look."
    calls = [call for message in turns[0].completion for call in message.get("tool_calls", ())]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [{"word": "a"}, {"word": "b"}]
    assert turns[0].completion[0]["reasoning_content"] == "Two words."


@pytest.mark.anyio
async def test_reasoning_that_was_not_sent_back_begins_a_sequence_and_such_that_was_goes_on():
    agent = Agent(name="a", instructions="Look up.", tools=[look_up])
    chat, _ = await turns_and_requests(two_at_once, agent, "chat")
    first, second = join_turns(chat)  # the chat server forgot the reasoning of the first turn
    assert (roles(first), roles(second)) == ("s u A", "s u a t t A t A")
    assert (first.has_foreign(), second.has_foreign()) == (False, True)
    responses, _ = await turns_and_requests(two_at_once, agent, "responses")
    (only,) = join_turns(responses)
    assert not only.has_foreign()
    assert only.prompt == ({"role": "system", "content": "Look up."}, {"role": "user", "content": "Go."})


@pytest.mark.anyio
@ONE_API
@pytest.mark.parametrize("filtered", [True, False])
async def test_a_handoff_and_its_input_filter_begin_a_sequence_of_the_other_agents_own(api: Api, filtered: bool):
    def script(seen: Seen) -> Say:
        if seen.system == "Solve.":
            return Say("Solved.")
        return Say(calls=(("look_up", {"word": "x"}),)) if not seen.tool_outputs else Say(calls=(("to_b", {}),))

    solver = Agent(name="b", instructions="Solve.")
    to_b = handoff(solver, tool_name_override="to_b", input_filter=remove_all_tools if filtered else None)
    agent = Agent(name="a", instructions="Ask.", tools=[look_up], handoffs=[to_b])
    turns, _ = await turns_and_requests(script, agent, api)
    first, second = join_turns(turns)
    assert (first.turns[0].agent, roles(first)) == ("a", "s u A t A")
    assert (second.turns[0].agent, roles(second)) == ("b", "s u A" if filtered else "s u a t a t A")
    assert [tool["function"]["name"] for tool in first.tools] == ["look_up", "to_b"]
    assert second.tools == ()


@pytest.mark.anyio
async def test_an_agent_as_a_tool_has_a_sequence_of_its_own_each_time_it_is_called():
    def script(seen: Seen) -> Say:
        if seen.system == "Inner.":
            return Say("Inner.") if seen.tool_outputs else Say(calls=(("look_up", {"word": "x"}),))
        asks = tuple(("ask", {"input": word}) for word in ("same", "same"))
        return Say("All.") if seen.tool_outputs else Say(calls=asks)

    inner = Agent(name="inner", instructions="Inner.", tools=[look_up])
    agent = Agent(name="outer", instructions="Outer.", tools=[inner.as_tool("ask", "Ask.")])
    turns, _ = await turns_and_requests(script, agent)
    sequences = join_turns(turns)
    assert sorted((s.turns[0].agent, roles(s)) for s in sequences) == [("inner", "s u A t A")] * 2 + [
        ("outer", "s u A t t A")
    ]
    assert {turn.within is None for s in sequences if s.turns[0].agent == "inner" for turn in s.turns} == {False}


@pytest.mark.anyio
async def test_what_messages_have_no_place_for_is_named():
    def script(seen: Seen) -> Say:
        return (
            Say("Done.", searched="x") if seen.tool_outputs else Say(calls=(("look_up", {"word": "x"}),), searched="y")
        )

    (first, last), _ = await turns_and_requests(script, Agent(name="a", tools=[look_up]), "responses")
    assert (first.lost, last.lost) == (("web_search_call",), ("web_search_call", "web_search_call"))
    (sequence,) = join_turns((first, last))
    assert sequence.lost == ("web_search_call", "web_search_call")


def a_reply(*items: Any) -> ModelResponse:
    return ModelResponse(output=cast("Any", list(items)), usage=Usage(), response_id=None)


def a_request(content: Any) -> dict[str, Any]:
    return {"instructions": None, "input": content, "tools": [], "handoffs": [], "output_schema": None}


def test_a_reply_without_items_is_a_message_without_text_and_hidden_reasoning_is_named():
    hidden = ResponseReasoningItem(id="r", summary=[], type="reasoning", encrypted_content="x")
    thought = ResponseReasoningItem(
        id="r", summary=cast("Any", [{"type": "summary_text", "text": "Hm."}]), type="reasoning"
    )
    calls = [RawCall(a_request("Go."), a_reply(*items)) for items in ((), (hidden,), (thought,))]
    turns = recorded_turns(calls, (), None)
    nothing: Message = {"role": "assistant", "content": ""}
    assert [turn.completion for turn in turns] == [(nothing,), (nothing,), (nothing | {"reasoning_content": "Hm."},)]
    assert [turn.lost for turn in turns] == [(), ("reasoning that the endpoint hides",), ()]
    assert turns[0].context == ({"role": "user", "content": "Go."},)


def test_what_the_sdk_cannot_write_as_messages_is_refused_with_its_reason():
    image = [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]
    with pytest.raises(NoMessages, match="Only image URLs"):
        recorded_turns([RawCall(a_request(image), a_reply())], (ModelCall(raw=0),), "chat")


# ---- Sequences of any turns

words = st.sampled_from("ab")
messages = st.builds(lambda role, text: {"role": role, "content": text}, st.sampled_from(["user", "assistant"]), words)


@st.composite
def conversations(draw: st.DrawFn) -> list[Turn]:
    """Turns of which some go on from an earlier one, and some from an earlier one with a message changed or gone."""
    turns: list[Turn] = []
    for _ in range(draw(st.integers(1, 6))):
        before = draw(st.sampled_from(turns)).messages if turns and draw(st.booleans()) else ()
        kept = before[: draw(st.integers(0, len(before)))] if draw(st.booleans()) else before
        context = (*kept, *draw(st.lists(messages, max_size=2)))
        completion = ({"role": "assistant", "content": draw(words)},)
        turns.append(Turn(draw(words), "m", context, completion))
    return turns


@given(conversations())
def test_every_turn_is_in_one_sequence_and_each_sequence_only_grows(turns: Sequence[Turn]):
    sequences = join_turns(turns)
    assert sorted(id(turn) for s in sequences for turn in s.turns) == sorted(map(id, turns))
    for sequence in sequences:
        for before, after in zip(sequence.turns, sequence.turns[1:], strict=False):
            assert after.context[: len(before.messages)] == before.messages
            assert after.agent == before.agent
        sampled = [m for m, mask in zip(sequence.messages, sequence.message_mask, strict=True) if mask]
        assert sampled == [message for turn in sequence.turns for message in turn.completion]
