"""Rewards for ART: `gather_trajectory_groups(..., after_each=art.score_group(judge_model=...))`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from harness.integrations.art_group import scored_copy
from harness.integrations.group_judge import GroupJudge


def score_group(judge_model: str | Sequence[str], **options: Any) -> Callable[[Any], Awaitable[Any]]:
    """Return a function from a TrajectoryGroup of ART's to a copy with the rewards of a tournament. No ART is imported.

    `options` are those of `harness.rank_messages`, and `store`, `max_cost` and `tools` as in harness.integrations.trl.
    Without `tools` the judge reads those of the first trajectory. The judge reads additional histories, too.

    The group given, its trajectories and their lists stay as they are. In the copy, the reward that came with a
    trajectory is its metric `independent_reward`, its logs say whom it beat, and figures of the judging are metrics of
    the group. A group without verdicts gives None, which `gather_trajectory_groups` leaves out.

    Raises UsageError for options that cannot be used; the function raises UsageError, Refused and CeilingReached.
    """
    judge = GroupJudge(judge_model, **options)

    async def scored(group: Any) -> Any:
        return await scored_copy(judge, group)

    return scored
