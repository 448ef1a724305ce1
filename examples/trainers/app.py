"""A responses-api agent of NeMo Gym whose rollouts a judge compares (docs/trainers.md)."""

from itertools import groupby

from fastapi import Body
from nemo_gym.base_resources_server import BaseRunRequest, BaseVerifyResponse
from nemo_gym.base_responses_api_agent import BaseResponsesAPIAgentConfig, SimpleResponsesAPIAgent
from nemo_gym.openai_utils import NeMoGymResponse

from harness.integrations.group_judge import GroupJudge
from harness.integrations.policy import Siblings, policy_rows


class HarnessAgentConfig(BaseResponsesAPIAgentConfig):
    agent: str
    policy_url: str
    policy_model: str
    judge_model: str
    group_size: int

class RunRequest(BaseRunRequest, extra="allow"):
    """A row of the data, with keys of its own."""

class HarnessAgent(SimpleResponsesAPIAgent):
    config: HarnessAgentConfig

    def model_post_init(self, context):
        judge = GroupJudge(self.config.judge_model, store="verdicts", max_cost=50)
        self._siblings = Siblings(judge, self.config.group_size)

    async def responses(self, body=Body()):
        raise NotImplementedError("call /run")

    async def run(self, body: RunRequest) -> BaseVerifyResponse:
        params, more = body.responses_create_params, body.model_extra
        asked = params.model_dump(exclude_none=True)["input"]  # a text, or messages
        temperature = 1.0 if params.temperature is None else params.temperature
        at = dict(base_url=self.config.policy_url, model=self.config.policy_model, temperature=temperature)
        (row,) = await policy_rows(self.config.agent, [asked], chance=str(more), **at)
        reward = await self._siblings.reward(more["_ng_task_index"], row.judged_as)
        if reward is None:
            raise RuntimeError(f"no reward: {row.judged_as if isinstance(row.judged_as, str) else 'not judged'}")
        seen, output, place = list(row.prompt_ids), [], 0
        for said, run in groupby(row.mask):
            ids, logprobs = row.completion_ids[place:], row.logprobs[place:]
            length = len(list(run))
            if said:  # a model call; NeMo RL trains the tokens, not the text
                text = row.rollout.trajectory.answer if length == len(ids) else ""
                content = [{"type": "output_text", "text": text, "annotations": []}]
                item = {"id": f"msg_{place}", "type": "message", "role": "assistant", "status": "completed"}
                tokens = {"generation_token_ids": ids[:length], "generation_log_probs": logprobs[:length]}
                output.append(item | {"content": content, "prompt_token_ids": seen[:]} | tokens)
            seen, place = seen + ids[:length], place + length
        made = {"id": "resp", "created_at": 0, "model": self.config.policy_model, "object": "response"}
        made |= {"output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        return BaseVerifyResponse(responses_create_params=params, response=NeMoGymResponse(**made), reward=reward)

if __name__ == "__main__":
    HarnessAgent.run_webserver()
