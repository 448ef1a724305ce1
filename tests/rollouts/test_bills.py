"""What each reply costs by its tier, its cache, its provider's own tools and its counts, streamed or not."""

from pathlib import Path
from typing import Any

import pytest
from agents import Agent

import harness
from harness.core.cost import UNKNOWN, Cost
from harness.core.records import ModelCall, Rollout
from tests.fake_endpoint import FakeEndpoint, Page, Reaction, Refuse, Say, Script, Seen, Torn
from tests.rollouts.test_capture import slow_then_fast
from tests.rollouts.test_streaming import outer, script

pytestmark = pytest.mark.anyio
BOTH_APIS = pytest.mark.parametrize("api", ["chat", "responses"])
SEARCH = {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "fog"}}
OPEN = SEARCH | {"action": {"type": "open_page", "url": "http://example/1"}}
IN_FILES = {"type": "file_search_call", "status": "completed", "queries": ["fog"], "results": None}
PROGRAM = {"type": "code_interpreter_call", "status": "completed", "code": "1", "container_id": "c", "outputs": None}
PLAIN = (1000, 100)
"""At the list price of gpt-5-mini, 0.25 and 2 USD a million tokens, 0.025 from the cache: 0.00045 USD."""


async def roll_out(agent: Any, script: Script, api: str, **settings: Any) -> tuple[list[Rollout], FakeEndpoint]:
    with FakeEndpoint(agent=script).serving() as endpoint:
        known: dict[str, Any] = {"n": 1, "model": "gpt-5-mini", "base_url": endpoint.base_url, "api": api}
        group = await harness.rollout(agent, "Do it.", **known | settings, price_by_name=True)
    return list(group.rollouts), endpoint


async def billed(reaction: Reaction, api: str, *, streamed: bool, **settings: Any) -> tuple[ModelCall, Rollout]:
    """Return the call that was answered so, with its rollout; a streamed one is that of a nested run."""

    def nested(seen: Seen) -> Reaction:
        return reaction if seen.body.get("stream") else script(seen)

    agent, said = (outer(), nested) if streamed else (Agent(name="inner"), lambda _: reaction)
    (rollout,), _ = await roll_out(agent, said, api, **settings)
    return next(call for call in rollout.calls if call.agent == "inner"), rollout


def items(*of: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return tuple({"id": f"i{number}"} | item for number, item in enumerate(of))


@pytest.mark.few(20)
@pytest.mark.parametrize("streamed", [False, True])
@BOTH_APIS
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({}, Cost(0.00045)),
        ({"tier": "default"}, Cost(0.00045)),
        ({"tier": "flex"}, Cost(0.000225)),
        ({"tier": "priority"}, Cost(0.00081)),
        ({"tier": "a-new-one"}, UNKNOWN),
        ({"cached": 600}, Cost(0.000315)),
        ({"cached": 600, "to_cache": 400}, Cost(0.000315)),
        ({"cached": 1001}, Cost(0.000225, exact=False)),
        ({"cached": 600, "to_cache": 401}, Cost(0.000315, exact=False)),
        ({"cached": -1}, Cost(0.000225, exact=False)),
        ({"usage": (-5, 100)}, Cost(0.0002, exact=False)),
        ({"usage": (10**12, 100)}, Cost(0.0002, exact=False)),
        ({"usage": (0, 0)}, UNKNOWN),
        ({"usage": None}, UNKNOWN),
    ],
)
async def test_a_reply_costs_what_it_tells_or_at_least_so_much(
    reply: dict[str, Any], expected: Cost, api: str, streamed: bool
):
    told: dict[str, Any] = {"text": "Fine.", "usage": PLAIN} | reply
    call, rollout = await billed(Say(**told), api, streamed=streamed)
    found = call.cost
    assert (found.exact, found.known) == (expected.exact, pytest.approx(expected.known))
    assert call.service_tier == reply.get("tier")
    whole = rollout.cost
    assert (whole.exact, whole.known >= found.known) == (expected.exact, True)


async def test_tokens_written_to_the_cache_have_a_price_of_their_own():
    call, _ = await billed(Say("Fine.", usage=PLAIN, to_cache=400), "chat", streamed=False)
    dear, rollout = await billed(Say("Fine.", usage=PLAIN, to_cache=400, model="gpt-5.6"), "chat", streamed=False)
    assert (call.price_usd, dear.price_usd) == (pytest.approx(0.00045), pytest.approx(0.0064))
    assert dear.usage
    assert dear.usage.cache_write == rollout.usage.cache_write == 400


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("tools", "counted", "expected"),
    [
        ((SEARCH,) * 10, {"web_search": 10}, Cost(0.10045)),
        ((SEARCH, OPEN, OPEN), {"web_search": 1}, Cost(0.01045)),
        ((IN_FILES, SEARCH), {"file_search": 1, "web_search": 1}, Cost(0.01295)),
        ((PROGRAM,), {"code_interpreter": 1}, Cost(0.00045, exact=False)),
    ],
)
async def test_the_providers_own_tools_have_their_fees(
    tools: tuple[dict[str, Any], ...], counted: dict[str, int], expected: Cost, streamed: bool
):
    reply = Say("Fine.", usage=PLAIN, items=items(*tools))
    call, _ = await billed(reply, "responses", streamed=streamed)
    assert call.hosted_tools == counted
    assert (call.cost.exact, call.cost.known) == (expected.exact, pytest.approx(expected.known))


async def test_fees_of_searches_count_for_the_ceiling(tmp_path: Path):
    reply = Say("Fine.", usage=PLAIN, items=items(*(SEARCH,) * 10))
    with FakeEndpoint(agent=lambda _: reply).serving() as endpoint:
        known: dict[str, Any] = {"model": "gpt-5-mini", "base_url": endpoint.base_url, "api": "responses", "n": 6}
        known |= {"price_by_name": True, "concurrency": 1, "topology": "none", "runs_dir": tmp_path}
        run = await harness.run(Agent(name="a"), "Do it.", **known, max_cost=0.25)
    assert (len(endpoint.requests), run.spent) == (2, pytest.approx(0.2009))
    assert "max_cost" in str(run.stopped)


def at_first(reaction: Reaction) -> Script:
    """Answer the second question so once, and all else well."""
    reactions, good = [reaction], Say("Fine.", usage=PLAIN)
    return lambda seen: reactions.pop() if reactions and seen.tool_outputs else calling(seen) or good


def calling(seen: Seen) -> Say | None:
    return None if seen.tool_outputs else Say(calls=(("slow_then_fast", {"word": "x"}),), usage=PLAIN)


@pytest.mark.few(4)
@BOTH_APIS
@pytest.mark.parametrize(
    ("reaction", "expected"), [(Torn(), UNKNOWN), (Torn(framed=True), UNKNOWN), (Page(), Cost()), (Refuse(500), Cost())]
)
async def test_a_reply_that_breaks_off_is_no_free_one_and_a_page_or_an_error_is(
    reaction: Reaction, expected: Cost, api: str
):
    (rollout,), _ = await roll_out(Agent(name="a", tools=[slow_then_fast]), at_first(reaction), api, retries=2)
    assert [call.cost.exact for call in rollout.calls] == [True, expected.exact, True]
    assert rollout.calls[1].cost == expected
    assert (rollout.cost.exact, rollout.cost.known) == (expected.exact, pytest.approx(2 * 0.00045))
    assert rollout.usage.requests == 2 + (not expected.exact)


@BOTH_APIS
async def test_a_stream_that_breaks_off_is_no_free_one(api: str):
    call, rollout = await billed(Torn(Say("This one " * 9, usage=PLAIN)), api, streamed=True)
    assert (call.raw, call.cost, bool(call.error)) == (None, UNKNOWN, True)
    assert (rollout.cost.exact, rollout.cost.known > 0) == (False, True), "the calls around the nested run are known"


@BOTH_APIS
async def test_counts_that_contradict_each_other_are_said_once(api: str):
    notes: list[str] = []

    class Notes(harness.Silent):
        def note(self, text: str) -> None:
            notes.append(text)

    reply = Say("Fine.", usage=PLAIN, cached=2000)
    await roll_out(Agent(name="a"), lambda _: reply, api, n=3, progress=Notes())
    (note,) = [text for text in notes if "tokens" in text]
    assert "such counts are left out" in note
