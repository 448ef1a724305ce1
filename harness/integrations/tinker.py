"""Rewards for tinker's cookbook: `EnvGroupBuilder.compute_group_rewards = tinker.group_rewards(judge_model=...)`."""

from collections.abc import Callable, Sequence
from typing import Any

from harness.integrations.group_judge import GroupJudge
from harness.integrations.tinker_rewards import GroupRewards


def group_rewards(
    judge_model: str | Sequence[str],
    *,
    messages: Callable[[Any, Any], Sequence[Any]] | None = None,
    **options: Any,
) -> GroupRewards:
    """Return a function for `compute_group_rewards`: a tournament among trajectories. No tinker is imported.

    `messages` makes chat messages of a trajectory and its environment; without it those of the cookbook's own
    environments are found (ProblemEnv, PreferenceEnv, EnvFromMessageEnv with a history). `options` are those of
    `harness.rank_messages`, and `store`, `max_cost` and `tools` as in harness.integrations.trl.

    The function takes the trajectories and the environments of a group, and returns a reward and metrics for each. The
    cookbook adds the rewards of the steps. A group without verdicts gets equal rewards. It can be pickled.

    Raises UsageError for options that cannot be used; the function raises UsageError, Refused and CeilingReached.
    """
    return GroupRewards(GroupJudge(judge_model, **options), messages)
