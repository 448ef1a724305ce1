"""For TRL: `GRPOTrainer(rollout_func=trl.rollouts(agent, ...), reward_funcs=trl.reward(judge_model=...))`.

`reward` serves the async trainer, too, and a trainer that samples for itself.
"""

from collections.abc import Sequence
from typing import Any

from harness.integrations.agent_rollouts import AgentRollouts
from harness.integrations.group_judge import GroupJudge
from harness.integrations.tournament_reward import TournamentReward


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


rollouts = AgentRollouts
