"""Rewards for ART: `gather_trajectory_groups(..., after_each=art.score_group(judge_model=...))`."""

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from harness.integrations.group_judge import Chat, GroupJudge, chat_of_histories, figures_of


async def scored_copy(judge: GroupJudge, group: Any) -> Any:
    """Return a copy of a group with rewards, or None if the judge gave no verdicts. `group` is left as it is."""
    trajectories = list(group.trajectories)
    if not trajectories:
        return copy.copy(group)
    (judged,) = await judge.judge([[_chat(t) for t in trajectories]], tools=trajectories[0].tools)
    if judged.rewards is None:
        return None
    figures = figures_of([judged])
    if (usd := figures.pop("judge/usd", None)) is not None:
        figures["costs/judge/tournament"] = usd  # ART adds up what is named so
    scored = copy.copy(group)  # its exceptions, too
    scored.trajectories = [
        _rewarded(trajectory, reward, why)
        for trajectory, reward, why in zip(trajectories, judged.rewards, judged.explanations, strict=True)
    ]
    scored.metrics = {**group.metrics, **figures}
    return scored


def _chat(trajectory: Any) -> Chat:
    histories = [trajectory, *trajectory.additional_histories]
    return chat_of_histories([[_message(m) for m in history.messages_and_choices] for history in histories])


def _message(message_or_choice: Any) -> Mapping[str, Any]:
    """Return the message in a Choice, which the policy sampled, or the plain message that it is."""
    message = getattr(message_or_choice, "message", message_or_choice)
    return message.model_dump(mode="json", exclude_none=True) if hasattr(message, "model_dump") else dict(message)


def _rewarded(trajectory: Any, reward: float, why: str) -> Any:
    return trajectory.model_copy(
        update={
            "messages_and_choices": list(trajectory.messages_and_choices),
            "additional_histories": [history.model_copy(deep=True) for history in trajectory.additional_histories],
            "reward": reward,
            "metrics": {**trajectory.metrics, "independent_reward": trajectory.reward},
            "metadata": dict(trajectory.metadata),
            "logs": [*trajectory.logs, f"tournament: {why}"],
        }
    )


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
