"""For TRL: `GRPOTrainer(rollout_func=trl.rollouts(agent, ...), reward_funcs=trl.reward(judge_model=...))`.

`reward` serves the async trainer, too, and a trainer that samples for itself.
"""

from collections.abc import Sequence
from typing import Any

from harness.api.outside import AnyAgent
from harness.core.errors import UsageError
from harness.core.sync import in_step
from harness.integrations.group_judge import GroupJudge
from harness.integrations.policy import check_policy_settings, policy_rows
from harness.integrations.tournament_reward import TournamentReward, refuse_nothing


def reward(judge_model: str | Sequence[str], *, alone: bool | None = None, **options: Any) -> TournamentReward:
    """Return a reward function of TRL's: a tournament among the completions of each prompt. No TRL is imported.

    `options` are those of `harness.rank_messages` (`judge_base_url`, `rubric`, `budget`, `judge="ruler"`, ...), and:
    `store`, a folder of verdicts, made where it is not there; `max_cost`, in USD for the whole training; `tools`, the
    definitions of the tools that the policy may call; `outage`, what happens while the judge cannot be had.

    Rewards are 1 - rank / (M - 1), or with `reward="score"` the scores; TRL standardizes them. A group without verdicts
    gets None, which TRL leaves out, and beside other reward functions equal rewards. `alone` says which of both it is:
    `GRPOTrainer` is asked, the async trainer cannot be; without `alone` its groups get None.

    Over several processes the first one judges for all, whichever device a completion is on.

    Raises UsageError for options that cannot be used. The reward function raises UsageError for a TRL before 1.16 and
    for prompts without a user's message, JudgeFailed where `outage` says stop, and CeilingReached where `max_cost` is
    used up: these stop the training.
    """
    return TournamentReward(GroupJudge(judge_model, **options), alone=alone)


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


rollouts = AgentRollouts
