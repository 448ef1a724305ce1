"""Samples of slime's: what the judge reads of them, and what is noted on them."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.integrations.chats import chat_of
from harness.integrations.group_judge import GroupJudge
from harness.integrations.judged_group import figures_of


async def rewards_of(judge: GroupJudge, samples: Sequence[Any], reward_key: str | None) -> list[Any]:
    """Return the rewards of one prompt's samples, and note on each what the judge said."""
    (judged,) = await judge.judge([[chat_of(sample.prompt, sample.response) for sample in samples]])
    figures = figures_of([judged])
    for sample, why in zip(samples, judged.explanations, strict=True):
        sample.metadata = {**(sample.metadata or {}), "judge": {"why": why, "figures": figures}}
        sample.remove_sample |= judged.rewards is None
    rewards = judged.rewards or (judge.level,) * len(samples)
    return [{reward_key: reward} for reward in rewards] if reward_key else list(rewards)


def figures_in(samples: Sequence[Any]) -> list[Mapping[str, float]]:
    """Return the figures noted on samples, once for each group."""
    judged = {sample.group_index: sample.metadata["judge"] for sample in samples if "judge" in (sample.metadata or ())}
    return [noted["figures"] for noted in judged.values()]
