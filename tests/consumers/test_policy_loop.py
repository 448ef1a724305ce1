"""The loop of examples/trainers trains a tiny Qwen on the CPU: the ratio is 1, unless text is tokenized anew."""

from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent, function_tool

import harness
from tests.conftest import ROOT
from tests.consumers.test_exact_tokens import SamplingServer
from tests.fake_endpoint import FakeEndpoint, fair_judge

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.anyio
LOOP = (ROOT / "examples" / "trainers" / "policy_loop.py").read_text("utf-8")
RULES = harness.GroupRules(weak=True, max_staleness=0, groups_per_step=2)


@function_tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"Meaning of {word}."


AGENT = Agent[Any](name="looker", instructions="Look.", tools=[look_up])
QUERIES = [f"Why {number}?" for number in range(4)]


def settings(endpoint: FakeEndpoint, folder: Path) -> dict[str, Any]:
    names = {"model": "tiny", "judge_model": "j", "n": 3, "topology": "cyclic", "estimator": "margins"}
    return names | {"base_url": endpoint.base_url, "runs_dir": folder}


def names_of_the_loop() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(LOOP, names)
    return names


async def test_three_steps_of_the_loop_begin_at_ratio_one_and_change_the_policy(tmp_path: Path):
    server, page = SamplingServer(keeps_ids=True), names_of_the_loop()
    seen, published = list[Any](), list[int]()
    of_page = page["ratios"]

    def watched(model: Any, sequence: Any) -> Any:
        ratio = of_page(model, sequence)
        assert (ratio - 1).abs().max() <= 1e-3  # each step trains what its own weights have sampled
        assert len(ratio) == sum(sequence.mask) > 0
        seen.append(sequence)
        return ratio

    page["ratios"] = watched
    page["harness"] = SimpleNamespace(GroupRules=lambda **_: RULES, rollout_groups=harness.rollout_groups)
    before = [weight.clone() for weight in server.model.parameters()]
    with FakeEndpoint(server, fair_judge()).serving() as endpoint:
        publish = lambda _: published.append(len(seen))  # noqa: E731 - the server samples from the same object
        await page["train"](server.model, publish, AGENT, cycle(QUERIES), 3, 1e-3, **settings(endpoint, tmp_path))
    assert published == [6, 12, 18]
    assert any((weight != was).any() for weight, was in zip(server.model.parameters(), before, strict=True))
    for sequence in seen:
        shown = [i for i, mask in zip(sequence.token_ids, sequence.mask, strict=True) if not mask]
        assert server.tokenizer.decode(shown).count("Meaning of") == 2  # results of tools are never trained


async def test_the_ratio_is_not_one_where_the_same_rollouts_are_tokenized_anew(tmp_path: Path):
    server = SamplingServer(keeps_ids=True)
    with FakeEndpoint(server, fair_judge()).serving() as endpoint:
        more = settings(endpoint, tmp_path)
        async with harness.rollout_groups(AGENT, QUERIES, policy_version=0, rules=RULES, **more) as groups:
            group = await anext(groups)
    off = list[float]()
    for rollout in group.rollouts:
        (sequence,) = rollout.sequences
        turn = sequence.turns[0]
        prompt, sampled = sequence.token_ids[: turn.start], sequence.token_ids[turn.start : turn.end]
        anew = server.ids(server.tokenizer.decode(sampled))
        now = server.logprobs([*prompt, *anew])
        total = sum(now[len(prompt) + place - 1, token].item() for place, token in enumerate(anew))
        off.append(abs(total - sum(sequence.logprobs[turn.start : turn.end])))
        assert tuple(anew) != sampled
    assert min(off) > 1
