"""Rewards for slime: `--group-rm --custom-rm-path my_rewards.rm`, with `rm = slime.group_rm(judge_model=...)` there."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from harness.integrations.group_judge import GroupJudge, chat_of, figures_of, joined_figures


def group_rm(judge_model: str | Sequence[str], **options: Any) -> Callable[..., Awaitable[list[Any]]]:
    """Return a reward model of slime's: a tournament among the samples of a prompt. No slime is imported.

    `options` are those of `harness.rank_messages`, and `store`, `max_cost`, `tools` and `outage` as in
    harness.integrations.trl.

    A group without verdicts gets equal rewards, since slime has no place for None, and is taken out of the loss
    (`remove_sample`). With `--reward-key` a reward is an object with that key. What the judge said stands in the
    metadata of each sample as `judge`.

    Raises UsageError for options that cannot be used; the function raises UsageError, JudgeFailed and CeilingReached.
    """
    judge = GroupJudge(judge_model, **options)

    async def rm(args: Any, samples: Sequence[Any], **_: Any) -> list[Any]:
        (judged,) = await judge.judge([[chat_of(sample.prompt, sample.response) for sample in samples]])
        figures = figures_of([judged])
        for sample, why in zip(samples, judged.explanations, strict=True):
            sample.metadata = {**(sample.metadata or {}), "judge": {"why": why, "figures": figures}}
            sample.remove_sample |= judged.rewards is None
        rewards, key = judged.rewards or (judge.level,) * len(samples), getattr(args, "reward_key", None)
        return [{key: reward} for reward in rewards] if key else list(rewards)

    return rm


def log_rollout(_id: int, _args: Any, samples: Sequence[Any], metrics: dict[str, Any] | None, _seconds: float) -> bool:
    """Add the figures of the judging to what slime logs, as its `--custom-rollout-log-function-path`."""
    if metrics is not None:
        judged = {s.group_index: s.metadata["judge"] for s in samples if "judge" in (s.metadata or ())}
        metrics |= joined_figures([noted["figures"] for noted in judged.values()])
    return False  # slime goes on and logs
