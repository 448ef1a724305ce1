"""`harness.rank_messages`: the tournament on plain chat messages."""

import copy
from typing import Any

import pytest

import harness
from harness.integrations.group_judge import GroupJudge
from harness.judging.rubric import load_rubric
from harness.ranking.profile import learn_profile
from harness.transcripts.transcript import RENDERING
from tests.api.test_messages import ASKED, chat
from tests.fake_endpoint import FakeEndpoint, Refuse, Say, fair_judge
from tests.ranking.test_pooled import noisy_groups

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("error::UserWarning")]
CALL = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "search", "arguments": "{}"}}]}
FOUND = {"role": "tool", "tool_call_id": "1", "content": "Air scatters blue light."}


@pytest.fixture
def judge(endpoint: FakeEndpoint) -> FakeEndpoint:
    endpoint.judge = fair_judge(lambda text: next(mark for word, mark in MARKS.items() if word in text))
    return endpoint


MARKS = {"good": 9, "fair": 5, "bad": 1, "": 3}


async def ranked(judge: FakeEndpoint, chats: Any, **settings: Any) -> list[harness.TrajectoryRank]:
    return await harness.rank_messages(chats, judge_model="j", judge_base_url=judge.base_url, **settings)


async def test_places_come_in_the_order_given_with_reward_advantage_and_uncertainty(judge: FakeEndpoint):
    chats = [chat("fair", CALL, FOUND), {"messages": chat("bad"), "reward": 0.25}, chat("good")]
    before = copy.deepcopy(chats)
    found = await ranked(judge, chats)
    assert [(f.rank, f.reward) for f in found] == [(1, 0.5), (2, 0), (0, 1)]
    assert [f.independent_reward for f in found] == [None, 0.25, None]
    assert sum(f.advantage or 0 for f in found) == pytest.approx(0)
    assert all(f.uncertainty for f in found)
    assert found[2].explanation.startswith("beat ")
    assert " (9 : 5)" in found[2].explanation
    assert max(found, key=lambda f: f.p_best or 0) is found[2]
    assert chats == before
    assert len(judge.requests) == len(judge.of_judge) == 3
    assert all("You are brief." in r.user and "Why is the sky blue?" in r.user for r in judge.of_judge)
    assert any("Air scatters blue light." in r.user for r in judge.of_judge)


async def test_topology_estimator_and_reward_are_those_of_a_run(judge: FakeEndpoint):
    found = await ranked(
        judge,
        [chat(word) for word in ("bad", "good", "fair")],
        topology="arena",
        estimator="tiers",
        reward="score",
        first_is_anchor=True,
    )
    assert [f.rank for f in found] == [2, 0, 1]
    assert [f.reward for f in found] == [f.score for f in found]
    assert len(judge.requests) > 3


async def test_a_store_keeps_verdicts_so_that_none_is_bought_twice(judge: FakeEndpoint):
    store, chats = harness.MemoryStore(), [chat("good"), chat("bad"), chat("fair")]
    first = await ranked(judge, chats, store=store)
    again = await ranked(judge, chats, store=store)
    assert [f.rank for f in again] == [f.rank for f in first]
    assert len(judge.requests) == len(store.verdicts) == 3


async def test_a_lent_profile_ranks_by_pooled_in_a_trainers_door_too_and_that_of_another_judge_is_refused(
    judge: FakeEndpoint,
):
    rubric = load_rubric("writing").label
    mine, other = (
        learn_profile(noisy_groups(20, 4, 1)[1], name, rubric, RENDERING)
        for name in (f"j@{judge.base_url.split('/')[2]}", "other@host")
    )
    assert mine
    assert other
    chats, lent = [chat(word) for word in ("bad", "good", "fair")], mine.model_dump_json()
    by_pooled = {"topology": "cyclic", "estimator": "pooled"}
    alone, pooled, helped = [
        await ranked(judge, chats, **settings) for settings in ({}, by_pooled, {"judge_profile": lent})
    ]
    assert [f.rank for f in helped] == [f.rank for f in alone] == [2, 0, 1]
    assert len({tuple(f.score for f in found) for found in (alone, pooled, helped)}) == 3
    settings: Any = {"judge_base_url": judge.base_url, "judge_profile": lent, "reward": "score"}
    (by_door,) = await GroupJudge("j", **settings).judge([chats])
    assert by_door.rewards == tuple(f.score for f in helped)
    with pytest.raises(harness.UsageError, match="other@host"):
        await ranked(judge, chats, judge_profile=other.model_dump_json())


async def test_without_verdicts_it_says_why(judge: FakeEndpoint):
    judge.judge = lambda _: Say("The second one, I should think.")
    with pytest.raises(harness.JudgeFailed, match=r"no ranking: .*JSON"):
        await ranked(judge, [chat("good"), chat("bad")])
    judge.judge = lambda _: Refuse(401, "bad key")
    with pytest.raises(harness.Refused, match="bad key"):
        await ranked(judge, [chat("good"), chat("bad")])


async def test_one_alone_is_ranked_without_a_judge_and_with_a_warning_and_nothing_gives_nothing(judge: FakeEndpoint):
    with pytest.warns(UserWarning, match="rank_messages: a single rollout carries no signal"):
        (alone,) = await ranked(judge, [chat("good")])
    assert alone.rank == 0
    assert await harness.rank_messages([]) == []
    assert not judge.requests


OTHER = [{"role": "user", "content": "Why is grass green?"}, {"role": "assistant", "content": "bad"}]


@pytest.mark.parametrize(
    ("chats", "why"),
    [
        (None, "expected a list of trajectories"),
        (["Why?"], "trajectory 0 is no list of messages"),
        ([chat("good"), {"messages": chat("bad"), "reward": "much"}], "trajectory 1 has a reward that is no number"),
        ([chat("good"), OTHER], "trajectory 1 is of another query than trajectory 0"),
        ([chat("good"), ASKED], "trajectory 1: no message is an assistant's"),
        ([[{"role": "user", "content": object()}]], "trajectory 0: .*JSON"),
    ],
)
async def test_what_cannot_be_ranked_is_refused_by_its_number(judge: FakeEndpoint, chats: Any, why: str):
    with pytest.raises(harness.UsageError, match=why):
        await ranked(judge, chats)
    assert not judge.requests


async def test_rank_given_message_lists_names_the_function_for_them():
    with pytest.raises(harness.UsageError, match=r"harness\.rank_messages\(message_lists"):
        await harness.rank([chat("good"), chat("bad")], "j")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
