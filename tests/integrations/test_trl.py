"""`harness.integrations.trl.reward` by the signature that TRL 1.16 calls; tests/consumers has the real trainers."""

import inspect
import pickle  # noqa: TID251 - the async trainer sends the function to another process so
import threading
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.archive.folder_store import VerdictFolder
from harness.core.progress import now
from harness.integrations import trl
from tests.fake_endpoint import FakeEndpoint, Refuse, block, list_judge
from tests.integrations.conftest import TrlTrainer

pytestmark = pytest.mark.anyio
SKY, NIGHT, GRASS = "Why is the sky blue?", "Why is it dark at night?", "Why is grass green?"
TWO_GROUPS = {SKY: ["fair", "good", "bad"], NIGHT: ["bad", "good one", "fair"]}


def reward(judge: FakeEndpoint, /, **options: Any) -> Any:
    return trl.reward("j", judge_base_url=judge.base_url, **options)


@pytest.mark.parametrize("as_text", [False, True])
async def test_each_prompt_is_a_tournament_and_its_figures_go_to_the_trainers_log(judge: FakeEndpoint, as_text: bool):
    trainer = TrlTrainer()
    function = reward(judge, order="both", prices={"j": "1/2"})
    assert inspect.iscoroutinefunction(type(function).__call__)
    assert await trainer.rewards(function, TWO_GROUPS, as_text=as_text) == [0.5, 1, 0, 0, 1, 0.5]
    usd = pytest.approx(12 * (1000 * 1 + 200 * 2) / 1e6)
    assert {name: value for name, (value,) in trainer.metrics.items()} == {
        "judge/flip_rate": 0,
        "judge/reliability": pytest.approx(0.9, abs=0.1),
        "judge/first_side": pytest.approx(0),
        "judge/no_signal": 0,
        "judge/failed_groups": 0,
        "judge/calls": len(judge.of_judge),
        "judge/reused": 0,
        "judge/usd": usd,
        "judge/usd_total": usd,
    }
    assert trainer.extra["judge"][1].startswith("beat ")
    await trainer.rewards(function, {SKY: ["same"] * 3})
    assert trainer.metrics["judge/no_signal"] == [0, 1]


async def test_in_evaluation_groups_have_the_size_of_evaluation(judge: FakeEndpoint):
    trainer = TrlTrainer()
    trainer.model.training = False
    assert await trainer.rewards(reward(judge), {SKY: ["bad", "good"], NIGHT: ["good", "bad"]}) == [0, 1, 1, 0]


async def test_a_group_without_verdicts_gets_none_alone_and_equal_rewards_beside_other_functions(
    judge: FakeEndpoint, caplog: pytest.LogCaptureFixture
):
    groups = {SKY: ["good", "bad", "fair"], GRASS: ["good", "bad", "fair"]}
    trainer = TrlTrainer()
    assert await trainer.rewards(reward(judge), groups) == [1, 0, 0.5, None, None, None]
    assert trainer.metrics["judge/failed_groups"] == [0.5]
    assert "a group of 3 trajectories has no rewards: no ranking: " in caplog.text
    assert "JSON" in trainer.extra["judge"][3]
    beside = TrlTrainer(reward_funcs=("tournament", "length"))
    assert await beside.rewards(reward(judge), groups) == [1, 0, 0.5, 0.5, 0.5, 0.5]
    scores = await beside.rewards(reward(judge, reward="score"), groups)
    assert scores[3:] == [0, 0, 0]
    assert sum(scores[:3]) == pytest.approx(0)
    assert await trainer.rewards(reward(judge, alone=False), {GRASS: ["a", "b", "c"]}) == [0.5] * 3


async def test_the_async_trainer_hands_over_one_whole_group_and_gets_a_picklable_function(
    judge: FakeEndpoint, tmp_path: Path
):
    first = reward(judge, store=tmp_path / "verdicts")
    rows = {"completions": [[{"role": "assistant", "content": word}] for word in ("fair", "bad", "good", "fair one")]}
    rows |= {"prompts": [[{"role": "user", "content": SKY}]] * 4, "completion_ids": [[1]] * 4, "reference": [None] * 4}
    assert await first(**rows) == pytest.approx([0.5, 0, 1, 0.5])
    first.judge.close()
    calls = len(judge.requests)
    again = pickle.loads(pickle.dumps(first))
    assert await again(**rows) == pytest.approx([0.5, 0, 1, 0.5])
    assert len(judge.requests) == calls
    again.judge.close()
    rows["prompts"] = [[{"role": "user", "content": GRASS}]] * 4
    assert await reward(judge)(**rows) == [None] * 4
    assert await reward(judge, alone=False)(**rows) == [0.5] * 4


async def test_the_judge_reads_each_tool_result_beside_its_call_though_trl_gives_calls_no_ids(judge: FakeEndpoint):
    calls = [{"type": "function", "function": {"name": "look", "arguments": {"word": word}}} for word in ("sky", "sea")]
    results = [{"role": "tool", "name": "look", "content": f"about the {word}"} for word in ("sky", "sea")]
    called = [{"role": "assistant", "content": "", "tool_calls": calls}, *results]
    completions = [[*called, {"role": "assistant", "content": word}] for word in ("good", "bad")]
    prompts = [[{"role": "user", "content": SKY}]] * 2
    assert await reward(judge)(prompts=prompts, completions=completions) == [1, 0]
    path = block(judge.of_judge[0].user, "PATH_A")
    assert path.index('"sky"') < path.index("about the sky") < path.index('"sea"') < path.index("about the sea")


async def test_with_ruler_the_rewards_are_the_judges_scores_and_one_alone_has_one_only_then(judge: FakeEndpoint):
    judge.judge = list_judge(lambda text: {"good": 0.9, "fair": 0.8, "bad": 0.1}[text])
    trainer = TrlTrainer()
    by_score = reward(judge, judge="ruler", reward="score")
    assert await trainer.rewards(by_score, {SKY: ["fair", "bad", "good"]}) == [0.8, 0.1, 0.9]
    assert trainer.extra["judge"] == ["said: fair", "said: bad", "said: good"]
    assert "judge/usd" not in trainer.metrics
    assert "judge/usd_total" not in trainer.metrics
    assert await trainer.rewards(reward(judge, judge="ruler"), {SKY: ["fair", "bad", "good"]}) == [0.5, 0, 1]
    one = TrlTrainer(num_generations=1)
    assert await one.rewards(by_score, {SKY: ["fair"]}) == [0.8]
    assert await one.rewards(reward(judge), {SKY: ["fair"]}) == [None]


async def test_the_ceiling_holds_for_the_whole_training_and_stops_it(judge: FakeEndpoint):
    function = reward(judge, prices={"j": "1/2"}, max_cost=0.01)  # a call costs $0.0014, a group of three takes three
    trainer = TrlTrainer()
    assert await trainer.rewards(function, TWO_GROUPS) == [0.5, 1, 0, 0, 1, 0.5]
    with pytest.raises(harness.CeilingReached, match=r"max_cost=0\.01"):
        await trainer.rewards(function, {"Why is snow white?": ["good", "bad", "fair"]})
    assert len(judge.requests) <= 7
    assert function.judge.spent <= 0.01


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"topologie": "arena"}, "no setting 'topologie'; did you mean 'topology'"),
        ({"max_cost": -1}, "max_cost=-1"),
        ({"estimator": "votes"}, "estimator='votes'"),
    ],
)
def test_options_that_cannot_be_used_are_refused_before_the_training(options: dict[str, Any], why: str):
    with pytest.raises(harness.UsageError, match=why):
        trl.reward("j", **options)


async def test_what_is_wrong_from_the_first_step_on_stops_the_training_and_later_only_its_group(judge: FakeEndpoint):
    trainer, function = TrlTrainer(num_generations=2), reward(judge, outage="stop")
    nobody = {"": ["good", "bad"]}
    with pytest.raises(harness.UsageError, match="must be a user's"):
        await trainer.rewards(function, nobody)
    assert not judge.requests
    assert await trainer.rewards(function, {SKY: ["good", "bad"]}) == [1, 0]
    assert await trainer.rewards(function, nobody) == [None, None]
    judge.judge = lambda _: Refuse(401, "bad key")
    with pytest.raises(harness.JudgeFailed, match="bad key"):
        await trainer.rewards(function, {NIGHT: ["good", "bad"]})


async def test_a_trl_that_counts_a_missing_reward_as_0_is_refused(
    judge: FakeEndpoint, tmp_path: Path, monkeypatch: Any
):
    package = tmp_path / "trl-1.15.2.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: trl\nVersion: 1.15.2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(harness.UsageError, match=r"trl 1\.15\.2 .* install trl>=1\.16"):
        await TrlTrainer().rewards(reward(judge), TWO_GROUPS)
    assert not judge.requests


async def test_functions_of_one_process_share_a_store_and_the_last_one_gives_it_back(
    judge: FakeEndpoint, tmp_path: Path
):
    trainer, groups = TrlTrainer(num_generations=2), {SKY: ["good", "bad"]}
    functions = [reward(judge, store=tmp_path / "verdicts") for _ in range(2)]
    assert [await trainer.rewards(function, groups) for function in functions] == [[1, 0], [1, 0]]
    assert trainer.metrics["judge/reused"] == [0, len(judge.requests)]
    functions.pop().judge.close()
    closing = threading.Thread(target=functions.clear)  # TRL's loop is in a thread of its own
    closing.start()
    closing.join()
    VerdictFolder(tmp_path / "verdicts", now()).close()
