"""The policy of verl answers as an agent; a judge compares the rollouts of a prompt (docs/trainers.md)."""

import asyncio
from collections import Counter
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from harness.integrations.group_judge import GroupJudge
from harness.integrations.policy import Siblings, policy_rows

judge = GroupJudge("your-judge", store="verdicts", max_cost=50)
groups, sizes = {}, Counter()

class HarnessLoop(AgentLoopBase):
    async def run(self, sampling_params, **kwargs):
        uid, request = str(kwargs["uid"]), uuid4().hex
        sizes[uid] += 1
        await asyncio.sleep(0)  # until all of the batch have counted themselves
        siblings = groups.setdefault(uid, Siblings(judge, sizes[uid]))
        address, _ = await self.server_manager._acquire_server(request)
        try:
            (row,) = await policy_rows(
                "agents/search.py",
                [[dict(message) for message in kwargs["raw_prompt"]]],
                chance=request,
                temperature=sampling_params["temperature"],
                top_p=sampling_params.get("top_p", 1.0),
                base_url=f"http://{address}/v1",
                model=self.config.actor_rollout_ref.model.path,
            )
        finally:
            self.server_manager._release_server(address, request)
        reward = await siblings.reward(uid, row.judged_as)
        groups.pop(uid, None), sizes.pop(uid, None)
        longest = self.rollout_config.response_length
        return AgentLoopOutput(
            prompt_ids=row.prompt_ids,
            response_ids=row.completion_ids[:longest],
            response_mask=row.mask[:longest],
            response_logprobs=row.logprobs[:longest],
            reward_score=judge.level if reward is None else reward,
            num_turns=2,
            metrics=AgentLoopMetrics(),
            extra_fields={"turn_scores": [], "tool_rewards": []},
        )
