"""A flow of rLLM whose rollouts a judge compares (docs/trainers.md)."""

import zlib

import rllm
from rllm.types import Trajectory

import harness
from harness.integrations.group_judge import GroupJudge
from harness.integrations.policy import Siblings

SIZE = 8
judge = GroupJudge("your-judge", store="verdicts", max_cost=50)
siblings = Siblings(judge, SIZE)

@rllm.rollout(name="search")
async def search(task, config):
    group = await harness.rollout(
        "agents/search.py",
        task.instruction,
        1,
        base_url=config.base_url,
        model=config.model,
        anchor_temperature=config.sampling_params.get("temperature", 1.0),
        seed=zlib.crc32(config.session_uid.encode()),
        tokens="off",
    )
    failure = group.rollouts[0].failure
    if config.is_validation:
        return None
    reward = await siblings.reward(task.id, group if not failure else failure.message)
    return Trajectory(name="search", reward=judge.level if reward is None else reward)
