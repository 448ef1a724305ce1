"""The policy of slime answers as an agent; a judge compares the rollouts of a prompt (docs/trainers.md)."""

import asyncio

from slime.rollout.base_types import RolloutFnEvalOutput, RolloutFnTrainOutput
from slime.utils.types import Sample

from harness.integrations.group_judge import GroupJudge
from harness.integrations.policy import Siblings, policy_rows

judge = GroupJudge("your-judge", store="verdicts", max_cost=50)

def generate_rollout(args, rollout_id, data_source, evaluation=False):
    if evaluation:
        return RolloutFnEvalOutput(data={})
    groups = data_source.get_samples(args.rollout_batch_size)
    asyncio.run(fill(args, rollout_id, [sample for group in groups for sample in group]))
    return RolloutFnTrainOutput(samples=groups)

async def fill(args, rollout_id, samples):
    rows = await policy_rows(
        "agents/search.py",
        [sample.prompt for sample in samples],
        chance=f"{args.seed}/{rollout_id}",
        temperature=args.rollout_temperature,
        base_url=f"http://{args.sglang_router_ip}:{args.sglang_router_port}/v1",
        model=args.hf_checkpoint,
        policy_version=lambda: rollout_id,
    )
    siblings = Siblings(judge, args.n_samples_per_prompt)
    tasks = [siblings.reward(sample.group_index, row.judged_as) for sample, row in zip(samples, rows)]
    for sample, row, reward in zip(samples, rows, await asyncio.gather(*tasks)):
        sample.tokens = row.prompt_ids + row.completion_ids
        sample.response_length = len(row.completion_ids)
        sample.loss_mask, sample.rollout_log_probs = row.mask, row.logprobs
        sample.response = row.rollout.trajectory.answer if row.rollout else ""
        sample.reward = judge.level if reward is None else reward
        sample.remove_sample = reward is None
        cut = row.rollout and row.rollout.failure and row.rollout.failure.kind == "truncated"
        sample.status = Sample.Status.TRUNCATED if cut else Sample.Status.COMPLETED
