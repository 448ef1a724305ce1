"""Rewards for ART: `gather_trajectory_groups(..., after_each=art.score_group(judge_model=...))`."""

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from harness.integrations.group_judge import GroupJudge, chat_of_histories, figures_of


def _message(message_or_choice: Any) -> Mapping[str, Any]:
    """Return the message in a Choice, which the policy sampled, or the plain message that it is."""
    message = getattr(message_or_choice, "message", message_or_choice)
    return message.model_dump(mode="json", exclude_none=True) if hasattr(message, "model_dump") else dict(message)


def score_group(judge_model: str | Sequence[str], **options: Any) -> Callable[[Any], Awaitable[Any]]:
    """Return a function from a TrajectoryGroup of ART's to a copy with the rewards of a tournament. No ART is imported.

    `options` are those of `harness.rank_messages`, and `store`, `max_cost`, `tools` and `outage` as in
    harness.integrations.trl.
    Without `tools` the judge reads those of the first trajectory. The judge reads additional histories, too.

    The group given, its trajectories and their lists stay as they are. In the copy, the reward that came with a
    trajectory is its metric `independent_reward`, its logs say whom it beat, and figures of the judging are metrics of
    the group. A group without verdicts gives None, which `gather_trajectory_groups` leaves out.

    Raises UsageError for options that cannot be used; the function raises UsageError, JudgeFailed and CeilingReached.
    """
    judge = GroupJudge(judge_model, **options)

    async def scored(group: Any) -> Any:
        trajectories, copied = list(group.trajectories), copy.copy(group)  # with its exceptions
        if not trajectories:
            return copied
        histories = [[trajectory, *trajectory.additional_histories] for trajectory in trajectories]
        chats = [chat_of_histories([list(map(_message, h.messages_and_choices)) for h in each]) for each in histories]
        (judged,) = await judge.judge([chats], tools=trajectories[0].tools)
        if judged.rewards is None:
            return None
        figures = figures_of([judged])
        if (usd := figures.pop("judge/usd", None)) is not None:
            figures["costs/judge/tournament"] = usd  # ART adds up what is named so
        copied.trajectories = [
            trajectory.model_copy(
                update={
                    "messages_and_choices": list(trajectory.messages_and_choices),
                    "additional_histories": [h.model_copy(deep=True) for h in trajectory.additional_histories],
                    "reward": reward,
                    "metrics": {**trajectory.metrics, "independent_reward": trajectory.reward},
                    "metadata": dict(trajectory.metadata),
                    "logs": [*trajectory.logs, f"tournament: {why}"],
                }
            )
            for trajectory, reward, why in zip(trajectories, judged.rewards, judged.explanations, strict=True)
        ]
        copied.metrics = {**group.metrics, **figures}
        return copied

    return scored
