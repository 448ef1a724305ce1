"""The reward function that TRL calls: which completions are a group, what a failed group gets, what is logged."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from harness.core.errors import UsageError
from harness.integrations.chats import Chat, chat_of
from harness.integrations.group_judge import GroupJudge
from harness.integrations.judged_group import figures_of
from harness.integrations.ranks import Ranks

_OLDEST = (1, 16)
"""From this TRL on a completion whose only reward is None has no part in the mean and the loss."""
_Place = tuple[float | None, str]
"""A completion's reward and the explanation of it."""


class TournamentReward:
    """Rewards by a tournament among the completions of each prompt. It can be pickled, as the async trainer needs."""

    def __init__(self, judge: GroupJudge, *, alone: bool | None = None) -> None:
        """Judge by `judge`. `alone`: whether this is the only reward function; None: ask the trainer."""
        self.__name__ = "tournament"  # TRL logs rewards/tournament
        self.judge, self._alone = judge, alone
        self._ranks: Ranks | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs."""
        return self.__dict__ | {"_ranks": None}

    async def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Return a reward for each completion, or None for all of a group."""
        _check_version()
        chats = [chat_of(prompt, completion) for prompt, completion in zip(prompts, completions, strict=True)]
        log_metric = columns.get("log_metric", _log_to_python)
        trainer = getattr(log_metric, "__self__", None)  # the async trainer hands over one whole group, and no logging
        alone = _is_alone(trainer) if self._alone is None else self._alone
        work = partial(self._places, members=_members(trainer) or len(chats), alone=alone, log_metric=log_metric)
        self._ranks = self._ranks or (Ranks.of_this_process() if trainer else None)
        places: list[_Place] = await (self._ranks.once(chats, work) if self._ranks else work(chats))
        if log_extra := columns.get("log_extra"):
            log_extra("judge", [why for _, why in places])
        return [reward for reward, _ in places]

    async def _places(
        self, chats: list[Chat], *, members: int, alone: bool, log_metric: Callable[[str, float], None]
    ) -> list[_Place]:
        judged = await self.judge.judge([chats[at : at + members] for at in range(0, len(chats), members)])
        figures = figures_of(judged)
        if "judge/usd" in figures:
            figures["judge/usd_total"] = self.judge.spent
        for name, value in figures.items():
            log_metric(name, value)
        unjudged = None if alone else self.judge.level
        places = [(group.rewards or (unjudged,) * len(group.explanations), group.explanations) for group in judged]
        return [place for rewards, explanations in places for place in zip(rewards, explanations, strict=True)]


def _log_to_python(name: str, value: float) -> None:
    """Log a figure where the trainer gives nothing to log with."""
    logging.getLogger("arena-harness").info("%s: %g", name, value)


def _members(trainer: Any) -> int | None:
    """Return how many completions a prompt has now, in training or evaluation; None where the trainer does not say."""
    name = "num_generations" if getattr(getattr(trainer, "model", None), "training", True) else "num_generations_eval"
    return getattr(trainer, name, None)


def _is_alone(trainer: Any) -> bool:
    return len(getattr(trainer, "reward_funcs", ())) < 2


def _check_version() -> None:
    """Raise UsageError for a TRL that would take None for a reward of 0."""
    try:
        installed = version("trl")
    except PackageNotFoundError:  # called by a trainer like TRL's
        return
    if tuple(int(part) for part in installed.split(".")[:2]) < _OLDEST:
        raise UsageError(f"trl {installed} takes a missing reward for 0; install trl>=1.16")
