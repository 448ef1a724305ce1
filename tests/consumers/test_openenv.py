"""The sessions of `harness.integrations.openenv` in the loop of TRL's async worker, with OpenEnv's own types."""

import asyncio
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.integrations.openenv import AgentSessions
from harness.integrations.trl import reward
from tests.consumers.test_exact_tokens import AGENT, SamplingServer
from tests.fake_endpoint import FakeEndpoint, Raw, Refuse, Seen, fair_judge

torch: Any = pytest.importorskip("torch")
pytest.importorskip("trl")
openenv: Any = pytest.importorskip("openenv.core.harness")
if not hasattr(openenv, "TrainableSession"):
    pytest.skip("openenv lacks TrainableSession: install openenv>=0.10", allow_module_level=True)
loops: Any = pytest.importorskip("trl.experimental.async_grpo.openenv_harness")

pytestmark = [pytest.mark.consumers, pytest.mark.filterwarnings("default")]
PROMPT = [{"role": "user", "content": "Why is the sky blue?"}]


def loop_with(factory: Any, function: Any) -> Any:
    """Return what of the worker's loop a rollout and the scoring of a group use."""
    pytest.importorskip("accelerate").PartialState()
    sampling = loops.training_sampling({"temperature": 1.0})
    empty = {"_adapter": None, "_rollout_reward_fn": None, "_live_sessions": set(), "_env_reward_types": []}
    return SimpleNamespace(
        **empty,
        _EMPTY_ROLLOUT=loops._HarnessRolloutLoop._EMPTY_ROLLOUT,
        _factory=factory(sampling=sampling),
        _stop_event=threading.Event(),
        _fork_threshold_tokens=0,
        _provides_rollout_reward=True,
        reward_funcs=[function],
        reward_func_names=["tournament", "harness_reward"],
    )


def test_a_group_of_sessions_becomes_rows_of_sampled_tokens_with_the_tournaments_advantages(tmp_path: Path):
    worker: Any = pytest.importorskip("trl.experimental.async_grpo.async_rollout_worker")
    server, failed = SamplingServer(keeps_ids=True), list[Seen]()
    (tmp_path / "agent.py").write_text(AGENT)

    def falls_once(seen: Seen) -> Raw | Refuse:
        if len(server.sampled) == 9 and not failed:
            failed.append(seen)
            return Refuse(401, "bad key")
        return server(seen)

    with FakeEndpoint(falls_once, fair_judge()).serving() as endpoint:
        factory = partial(AgentSessions, f"{tmp_path}/agent.py", base_url=endpoint.base_url, model="tiny")
        loop = loop_with(factory, reward("j", judge_base_url=endpoint.base_url, alone=True))
        rollouts = [loops._HarnessRolloutLoop._run_session(loop, PROMPT, 7)[0] for _ in range(5)]
        assert not loop._live_sessions
        completions, ids, sequences, calls, failures, rewards = zip(*rollouts, strict=True)
        group = worker.RolloutGroup(
            prompts=[PROMPT] * 5,
            reward_kwargs={},
            completions=list(completions),
            completions_ids=list(ids),
            completions_sequences=list(sequences),
            tool_call_counts=list(calls),
            tool_failure_counts=list(failures),
            model_version=0,
            group_id=7,
            env_rewards=[None] * 5,
            rollout_rewards=list(rewards),
        )
        samples = asyncio.run(worker._AsyncRolloutLoop._score_group(loop, group))
    assert [len(rows) for rows in sequences] == [1, 1, 1, 0, 1]
    assert completions[3] == []
    assert list(calls) == [2, 2, 2, 0, 2]
    for sample in samples:
        trained = [place for place, mask in enumerate(sample.completion_mask) if mask]
        now = server.logprobs(sample.input_ids)
        given = torch.stack([now[place - 1, sample.input_ids[place]] for place in trained])
        told = torch.tensor([sample.old_log_probs[place] for place in trained])
        assert len(trained) == 3 * 25
        assert ((given - told).exp() - 1).abs().max() <= 1e-3
    assert min(sample.metrics["rewards/tournament"] for sample in samples) == 0
    assert sum(sample.advantage for sample in samples) == pytest.approx(0, abs=1e-5)
    assert len({sample.advantage for sample in samples}) > 1
