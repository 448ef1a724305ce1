"""`harness.integrations.gepa.Adapter`, as gepa calls it; tests/consumers/test_gepa.py has gepa itself."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent

from harness.core.errors import JudgeFailed, NothingRankable, UsageError
from harness.integrations.gepa import Adapter
from tests.fake_endpoint import FakeEndpoint, Refuse, Say, Seen

SEED, BETTER, WORSE = ({"instructions": f"Give a {word} answer."} for word in ("fair", "good", "bad"))
QUERIES = ["Why is the sky blue?", "Why is it dark at night?", "Why does it rain?"]


def adapter_at(endpoint: FakeEndpoint, **settings: Any) -> Adapter:
    """Return an adapter for an agent that answers with the word of its instructions."""
    endpoint.agent = lambda seen: Say(f"A {seen.system.split()[2]} answer.")
    where: Any = {"base_url": endpoint.base_url, "judge_base_url": endpoint.base_url}
    return Adapter(Agent(name="poet", model="m"), SEED, "judge", **where, **settings)


def test_a_candidate_gets_its_win_probability_against_the_seed_and_what_is_kept_is_not_bought_again(
    judge: FakeEndpoint,
):
    adapter = adapter_at(judge)
    assert adapter.evaluate(QUERIES, SEED).scores == [0.5] * 3
    assert not judge.of_judge
    better = adapter.evaluate([*QUERIES, QUERIES[0]], BETTER, capture_traces=True)
    assert better.scores == [pytest.approx(0.99, abs=0.01)] * 4
    assert better.outputs[0] == ("A good answer.",) * 2
    assert adapter.evaluate(QUERIES, WORSE).scores == [pytest.approx(0.01, abs=0.01)] * 3
    bought = len(judge.requests)
    assert adapter.evaluate([*QUERIES, QUERIES[0]], BETTER, capture_traces=True) == better
    assert len(judge.requests) == bought


def test_the_reflective_dataset_says_what_was_asked_what_came_and_why(judge: FakeEndpoint):
    adapter = adapter_at(judge)
    met = adapter.evaluate(QUERIES[:1], WORSE, capture_traces=True)
    ((told,),) = adapter.make_reflective_dataset(WORSE, met, ["instructions"]).values()
    assert told["Inputs"] == {"query": QUERIES[0]}
    assert told["Generated Outputs"] == "A bad answer.\n\nA bad answer."
    assert told["Feedback"].startswith("Win probability against the seed: 0.00.\nIt loses by ")
    assert json.dumps(told)
    within = adapter.evaluate(QUERIES[:1], SEED, capture_traces=True)
    assert within.trajectories
    assert within.trajectories[0].words[0].startswith("A tie")


def test_a_candidate_is_accepted_where_it_is_more_probably_better_than_its_parent(judge: FakeEndpoint):
    adapter = adapter_at(judge, least=0.8)
    for candidate in (SEED, BETTER, WORSE):
        adapter.evaluate(QUERIES, candidate)
    state: Any = SimpleNamespace(program_candidates=[SEED, BETTER, WORSE])

    def accepts(candidate: dict[str, str], *parents: int) -> bool:
        proposal: Any = SimpleNamespace(candidate=candidate, parent_program_ids=[*parents])
        return adapter.acceptance.should_accept(proposal, state)

    assert accepts(BETTER, 0)
    assert accepts(BETTER, 0, 2)
    assert not accepts(WORSE, 0)
    assert not accepts(BETTER, 1)


def test_a_checkpoint_keeps_rollouts_and_verdicts(judge: FakeEndpoint):
    adapter = adapter_at(judge)
    scores = adapter.evaluate(QUERIES, BETTER).scores
    state = json.loads(json.dumps(adapter.get_adapter_state()))
    bought = len(judge.requests)
    resumed = adapter_at(judge)
    resumed.set_adapter_state(state)
    assert resumed.evaluate(QUERIES, BETTER).scores == scores
    assert resumed.p_above(BETTER, SEED) == adapter.p_above(BETTER, SEED) > 0.9
    assert len(judge.requests) == bought
    resumed.set_adapter_state({})


def test_a_failure_of_the_agent_loses_and_no_other_failure_becomes_a_score(judge: FakeEndpoint):
    adapter = adapter_at(judge, retries=0)
    adapter.evaluate(QUERIES[:2], SEED)
    fine = judge.agent

    def refusing(seen: Seen) -> Any:
        return (
            Say(refusal="I cannot.") if "bad" in seen.system else Refuse(500) if "good" in seen.system else fine(seen)
        )

    judge.agent = refusing
    assert adapter.evaluate(QUERIES[:1], WORSE).scores == [0.0]
    with pytest.raises(NothingRankable, match="infrastructure failed all rollouts"):
        adapter.evaluate(QUERIES[:1], BETTER)
    with pytest.raises(JudgeFailed, match="no verdict could be had on query"):
        adapter_at(judge).evaluate(["What of grass?"], BETTER)


@pytest.mark.parametrize(
    ("seed", "settings", "message"),
    [
        (SEED, {"rollouts": 0}, "rollouts 0: give"),
        (SEED, {"max_cost": 1.0}, "max_cost is no setting here: gepa's max_metric_calls"),
        (SEED, {"n": 4}, "n is no setting here"),
        ({"a": "x", "b": "y"}, {}, "components are a, b, and an Agent takes instructions alone"),
    ],
)
def test_what_cannot_be_used_is_refused(seed: dict[str, str], settings: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message):
        Adapter(Agent(name="poet"), seed, **settings)
