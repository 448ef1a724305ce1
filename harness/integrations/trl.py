"""For TRL: `GRPOTrainer(rollout_func=trl.rollouts(agent, ...), reward_funcs=trl.reward(judge_model=...))`.

`reward` serves the async trainer, too, and a trainer that samples for itself.
"""

from collections.abc import Sequence
from typing import Any

from harness.api.outside import AnyAgent
from harness.core.errors import UsageError
from harness.core.sync import in_step
from harness.integrations.policy import check_policy_settings, policy_rows
from harness.integrations.tournament_reward import TournamentReward, refuse_nothing


class AgentRollouts:
    """A `rollout_func` of TRL's: an agent as it stands answers the prompts, and the tokens it sampled are trained.

    `base_url` is the policy's server, which has to tell token ids and logprobs (vLLM, SGLang), and to have the
    trainer's weights; `settings` are those of `harness.rollout`. Temperature, top_p and seed are the trainer's.

    A rollout is one sequence, the starting agent's; others (of handoffs, of nested agents, and those that the server
    made other tokens of) are counted in the log. What cannot be trained is masked as a whole and has no reward. A
    tournament (`reward`) among the trainer's reward functions judges the rollouts as they were; other reward functions
    find each as `rollout`, a harness.Rollout.

    Raises Refused where the server turns the first call down or tells no token ids, and NothingRankable where no
    rollout of a step can be trained.
    """

    def __init__(self, agent: AnyAgent, **settings: Any) -> None:
        """Check the settings. Raises UsageError."""
        check_policy_settings(settings)
        self._agent, self._settings, self._calls = agent, settings, 0

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Return what GRPOTrainer asks of a `rollout_func`, for each prompt, and `rollout` and the tournament's."""
        return in_step(self._of_step)(prompts, trainer)

    async def _of_step(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        tournaments = [each for each in trainer.reward_funcs if isinstance(each, TournamentReward)]
        if len(tournaments) > 1:
            raise UsageError(f"reward_funcs has {len(tournaments)} tournaments: rollouts are judged by one")
        self._calls += 1
        rows = await policy_rows(
            self._agent,
            prompts,
            chance=f"{trainer.args.seed}/{trainer.state.global_step}/{self._calls}/{trainer.accelerator.process_index}",
            temperature=trainer.args.temperature,
            top_p=trainer.args.top_p,
            policy_version=lambda: trainer.state.global_step,
            **self._settings,
        )
        members = [row.judged_as for row in rows]
        if trainer.accelerator.num_processes == 1:  # of several one may have none
            refuse_nothing(members)
        output: dict[str, Any] = {
            "prompt_ids": [row.prompt_ids for row in rows],
            "completion_ids": [row.completion_ids for row in rows],
            "logprobs": [row.logprobs for row in rows],
            "env_mask": [row.mask for row in rows],
            "rollout": [row.rollout for row in rows],
        }
        for tournament in tournaments:
            judged = await tournament.judged(members, trainer, must_teach=True)
            output["tournament"], output["tournament_figures"] = judged
        return output


reward = TournamentReward
rollouts = AgentRollouts
