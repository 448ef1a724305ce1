"""Rewards for slime: `--group-rm --custom-rm-path my_rewards.rm`, with `rm = slime.group_rm(judge_model=...)` there."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from harness.integrations.group_judge import GroupJudge
from harness.integrations.judged_group import joined_figures
from harness.integrations.slime_samples import figures_in, rewards_of


def group_rm(judge_model: str | Sequence[str], **options: Any) -> Callable[..., Awaitable[list[Any]]]:
    """Return a reward model of slime's: a tournament among the samples of a prompt. No slime is imported.

    `options` are those of `harness.rank_messages`, and `store`, `max_cost` and `tools` as in harness.integrations.trl.

    A group without verdicts gets equal rewards, since slime has no place for None, and is taken out of the loss
    (`remove_sample`). With `--reward-key` a reward is an object with that key. What the judge said stands in the
    metadata of each sample as `judge`.

    Raises UsageError for options that cannot be used; the function raises UsageError, Refused and CeilingReached.
    """
    judge = GroupJudge(judge_model, **options)

    async def rm(args: Any, samples: Sequence[Any], **_: Any) -> list[Any]:
        return await rewards_of(judge, samples, getattr(args, "reward_key", None))

    return rm


def log_rollout(_id: int, _args: Any, samples: Sequence[Any], metrics: dict[str, Any] | None, _seconds: float) -> bool:
    """Add the figures of the judging to what slime logs, as its `--custom-rollout-log-function-path`."""
    if metrics is not None:
        metrics |= joined_figures(figures_in(samples))
    return False  # slime goes on and logs
