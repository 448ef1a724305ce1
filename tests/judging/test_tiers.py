"""`--judge-tier`: what is asked for, what served, what a tier without room or a model without the tier leads to."""

import random
from dataclasses import replace

import anyio
import pytest
from pydantic import SecretStr

from harness.archive.store import MemoryStore
from harness.core.errors import Refused
from harness.core.progress import Silent, now
from harness.core.rankings import VERDICT, Judged, Unjudged
from harness.core.settings import Api, JudgeTier
from harness.endpoints.address import Endpoint
from harness.endpoints.costs import Priced, PriceList
from harness.endpoints.gate import Gate, Patience
from harness.judging.endpoint import EndpointAsk
from harness.judging.judge_model import JudgeModel
from harness.judging.judges import PairwiseJudge
from tests.fake_endpoint import FakeEndpoint, Hang, Reaction, Refuse, Say, Seen, verdict
from tests.judging.replies import WRITING
from tests.judging.scripted import ONE, TASK, TWO

NO_ROOM = Refuse(429, "The flex tier has no room", code="resource_unavailable")
AT_NAME = PriceList(by_name=True)


def judged(endpoint: FakeEndpoint, tier: JudgeTier, api: Api = "chat", attempt_s: float = 30.0) -> Judged | Unjudged:
    async def go() -> Judged | Unjudged:
        there = Endpoint(base_url=endpoint.base_url, key=SecretStr("sk-test"), api=api)
        gate = Gate("the endpoint", Patience(attempt_s, 30.0), random.Random(0), Silent())
        ask = EndpointAsk(there, "gpt-5-mini", gate, retries=1, limit=1, tier=tier)
        pricing = Priced("gpt-5-mini", there.base_url, prices=AT_NAME)
        model = JudgeModel(ask, identity="m@host", pricing=pricing, keep=MemoryStore().put_blob, clock=now)
        try:
            return await PairwiseJudge(model, WRITING)(TASK, ONE, TWO)
        finally:
            await ask.aclose()

    return anyio.run(go)


def served(seen: Seen) -> Say:
    return Say(verdict(7, 5), usage=(1000, 200), tier=seen.body.get("service_tier", "default"))


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_the_tier_that_served_is_recorded_priced_at_half_and_no_part_of_the_key(endpoint: FakeEndpoint, api: Api):
    endpoint.judge = served
    plain, flex = judged(endpoint, "default", api), judged(endpoint, "flex", api)
    assert [seen.body.get("service_tier") for seen in endpoint.of_judge] == [None, "flex"]
    assert (plain.tier, flex.tier, plain.key) == (None, "flex", flex.key)
    assert plain.price_usd
    assert flex.price_usd == pytest.approx(plain.price_usd / 2)
    assert b'"tier"' not in VERDICT.dump_json(plain)


def test_a_tier_without_room_is_asked_again_and_then_the_ordinary_tier_pays(endpoint: FakeEndpoint):
    def without_room(seen: Seen) -> Reaction:
        return NO_ROOM if seen.body.get("service_tier") == "flex" else served(seen)

    endpoint.judge = without_room
    verdict = judged(endpoint, "flex,default")
    assert [seen.body["service_tier"] for seen in endpoint.of_judge] == ["flex", "flex", "default"]
    assert verdict.tier == "default"


def test_a_flex_reply_that_does_not_come_in_time_is_bought_at_the_ordinary_tier(endpoint: FakeEndpoint):
    endpoint.judge = lambda seen: Hang(5) if seen.body["service_tier"] == "flex" else served(seen)
    assert judged(endpoint, "flex,default", attempt_s=0.3).tier == "default"
    assert [seen.body["service_tier"] for seen in endpoint.of_judge] == ["flex", "default"]


def test_flex_alone_waits_for_room_like_for_any_rate_limit(endpoint: FakeEndpoint):
    reactions: list[Reaction] = [NO_ROOM, NO_ROOM, NO_ROOM]
    endpoint.judge = lambda seen: reactions.pop() if reactions else served(seen)
    assert judged(endpoint, "flex").tier == "flex"
    assert [seen.body["service_tier"] for seen in endpoint.of_judge] == ["flex"] * 4


@pytest.mark.parametrize(
    "refusal",
    [
        Refuse(400, "Unsupported service_tier: flex"),
        Refuse(400, "Flex is not available for this model.", param="service_tier"),
        Refuse(422, "unknown value", param="service_tier"),
    ],
)
@pytest.mark.parametrize("tier", ["flex", "flex,default"])
def test_a_model_without_the_tier_is_refused_after_one_call(endpoint: FakeEndpoint, tier: JudgeTier, refusal: Refuse):
    endpoint.judge = lambda _: refusal
    with pytest.raises(Refused, match=r"has no tier flex for the judge's model 'gpt-5-mini'.*--judge-tier"):
        judged(endpoint, tier)
    assert len(endpoint.of_judge) == 1


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize(
    ("reply", "usd", "at_least"),
    [
        (Say(tier="priority"), 0.00117, None),
        (Say(tier="a-new-one"), None, None),
        (Say(cached=2000), None, 0.000425),
        (Say(cached=600), 0.000515, None),
    ],
)
def test_each_reply_of_a_judge_has_a_bill_of_its_own(
    endpoint: FakeEndpoint, reply: Say, usd: float | None, at_least: float | None, api: Api
):
    said = [replace(reply, text=text, usage=(1000, 200)) for text in (verdict(7, 5), "well ...")]
    endpoint.judge = lambda _: said.pop()
    found = judged(endpoint, "default", api)
    assert [(call.service_tier, call.usage and call.usage.input) for call in found.calls] == [(reply.tier, 1000)] * 2
    assert all(call.started_at and call.duration_s is not None for call in found.calls)
    for price, each in ((found.price_usd, usd), (found.price_usd_at_least, at_least)):
        assert price == (None if each is None else pytest.approx(2 * each))
