"""`harness.integrations.gepa.Adapter` inside gepa's own search."""

from typing import Any

import pytest
from agents import Agent

from harness.integrations.gepa import Adapter
from tests.fake_endpoint import FakeEndpoint, Say, fair_judge

pytestmark = [pytest.mark.consumers, pytest.mark.filterwarnings("default")]
QUERIES = [f"Question {number}?" for number in range(6)]


def test_gepa_finds_better_instructions_in_five_iterations_and_resumes_without_buying_anything_again(
    endpoint: FakeEndpoint, tmp_path: Any
):
    gepa: Any = pytest.importorskip("gepa")
    endpoint.agent = lambda seen: Say("word " * seen.system.count("more"))
    endpoint.judge = fair_judge(lambda text: min(9, text.count("word")))
    read: list[str] = []

    def reflect(prompt: Any) -> str:
        read.append(str(prompt))
        return f"```\nSay {'more ' * (len(read) if len(read) != 3 else 0)}.\n```"

    def search(iterations: int) -> Any:
        where: Any = {"base_url": endpoint.base_url, "judge_base_url": endpoint.base_url}
        adapter = Adapter(Agent(name="poet", model="m"), {"instructions": "Say more."}, "judge", **where)
        return gepa.optimize(
            seed_candidate={"instructions": "Say more."},
            trainset=QUERIES[:4],
            valset=QUERIES[4:],
            adapter=adapter,
            acceptance_criterion=adapter.acceptance,
            reflection_lm=reflect,
            skip_perfect_score=False,
            stop_callbacks=lambda state: state.i >= iterations - 1,
            run_dir=str(tmp_path),
        )

    found = search(5)
    assert len(read) == 5
    assert "Win probability against the seed" in read[0]
    assert "It wins by" in read[-1]
    assert found.best_candidate["instructions"].count("more") >= 4
    assert all("Say ." not in each["instructions"] for each in found.candidates)
    assert found.val_aggregate_scores[0] == 0.5
    bought = len(endpoint.requests)
    again = search(5)
    assert again.candidates == found.candidates
    assert len(endpoint.requests) == bought
