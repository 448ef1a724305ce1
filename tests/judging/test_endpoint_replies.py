"""What comes back from an endpoint reaches the verdict whole, whatever is in it."""

import anyio
import pytest
from pydantic import SecretStr

from harness.archive import MemoryStore
from harness.core.clock import now
from harness.core.settings import Api
from harness.core.verdicts import VERDICT, Judged, Unjudged
from harness.endpoints import Gate, Priced
from harness.endpoints.address import Endpoint
from harness.judging import EndpointAsk, JudgeModel, PairwiseJudge
from tests.fake_endpoint import FakeEndpoint, Say, verdict
from tests.judging.replies import WRITING
from tests.judging.scripted import ONE, TASK, TWO


def ask(endpoint: FakeEndpoint, api: Api = "chat") -> tuple[Judged | Unjudged, MemoryStore]:
    store = MemoryStore()

    async def go() -> Judged | Unjudged:
        there = Endpoint(base_url=endpoint.base_url, key=SecretStr("sk-test"), api=api)
        door = EndpointAsk(there, "m", Gate.impatient(), retries=1, limit=1)
        pricing = Priced("m", None, free=True)
        model = JudgeModel(door, identity="m@host", pricing=pricing, keep=store.put_blob, clock=now)
        try:
            return await PairwiseJudge(model, WRITING)(TASK, ONE, TWO)
        finally:
            await door.aclose()

    return anyio.run(go), store


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_half_a_surrogate_pair_in_a_reply_costs_neither_the_verdict_nor_the_raw_reply(
    endpoint: FakeEndpoint, api: Api
) -> None:
    text = verdict(7, 5)[:-1] + ', "note": "half a pair: \ud83d"}'
    endpoint.judge = lambda _: Say(text)
    found, store = ask(endpoint, api)
    assert isinstance(found, Judged)
    assert (found.winner, len(endpoint.of_judge)) == ("A", 1)
    assert "\\ud83d" in store.blobs[found.raw_replies[0]]
    VERDICT.dump_json(found)
