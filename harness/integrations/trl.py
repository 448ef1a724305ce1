"""A reward function for TRL: `GRPOTrainer(reward_funcs=trl.reward(judge_model=...))`, and the async trainer's.

A process group of its own over gloo carries the messages: the trainer's may be of devices, and belongs to one thread.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate, chain
from typing import Any, Self, TypeVar

from harness.core.errors import UsageError
from harness.integrations.group_judge import Chat, GroupJudge, chat_of, figures_of

T = TypeVar("T")
_LONGEST_WAIT = timedelta(days=1)
"""How long the others wait for the first process, which judges; a process that ends is noticed at once."""


class Ranks:
    """This process and the others of its training."""

    def __init__(self, distributed: Any) -> None:
        """Make the process group; all processes have to. `distributed` is torch.distributed."""
        self._distributed = distributed
        self._group = distributed.new_group(backend="gloo", timeout=_LONGEST_WAIT)

    @classmethod
    def of_this_process(cls) -> Self | None:
        """Return this process among the others, or None if it is alone."""
        distributed = getattr(sys.modules.get("torch"), "distributed", None)
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return None
        return cls(distributed) if distributed.get_world_size() > 1 else None

    async def once(self, mine: Sequence[T], work: Callable[[list[T]], Awaitable[list[Any]]]) -> list[Any]:
        """Let the first process do `work` on what all have, in the order of their ranks; return the part for `mine`.

        An error of the first process is raised in all.
        """
        rank = self._distributed.get_rank()
        parts: list[Sequence[T]] = [()] * self._distributed.get_world_size()
        await asyncio.to_thread(self._distributed.all_gather_object, parts, list(mine), group=self._group)
        outcome: list[Any] = [None]
        if rank == 0:
            try:
                outcome[0] = await work(list(chain.from_iterable(parts)))
            except Exception as exc:  # noqa: BLE001 - the other processes wait for it
                outcome[0] = exc
        await asyncio.to_thread(self._distributed.broadcast_object_list, outcome, src=0, group=self._group)
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        begin = [0, *accumulate(len(part) for part in parts)][rank]
        return outcome[0][begin : begin + len(mine)]


_OLDEST = (1, 16)
"""From this TRL on a completion whose only reward is None has no part in the mean and the loss."""
_Place = tuple[float | None, str]
"""A completion's reward and the explanation of it."""


class TournamentReward:
    """Rewards by a tournament among the completions of each prompt. It can be pickled, as the async trainer needs."""

    def __init__(self, judge: GroupJudge, *, alone: bool | None = None) -> None:
        self.__name__ = "tournament"  # TRL logs rewards/tournament
        self.judge, self._alone = judge, alone
        self._ranks: Ranks | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_ranks": None}

    async def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Return a reward for each completion, or None for all of a group."""
        _check_version()
        chats = [chat_of(prompt, completion) for prompt, completion in zip(prompts, completions, strict=True)]
        to_python = partial(logging.getLogger("arena-harness").info, "%s: %g")
        log_metric = columns.get("log_metric", to_python)
        trainer = getattr(log_metric, "__self__", None)  # the async trainer hands over one whole group, and no logging
        alone = len(getattr(trainer, "reward_funcs", ())) < 2 if self._alone is None else self._alone
        in_training = getattr(getattr(trainer, "model", None), "training", True)
        members = getattr(trainer, "num_generations" if in_training else "num_generations_eval", None) or len(chats)
        work = partial(self._places, members=members, alone=alone, log_metric=log_metric)
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


def _check_version() -> None:
    """Raise UsageError for a TRL that would take None for a reward of 0."""
    try:
        installed = version("trl")
    except PackageNotFoundError:  # called by a trainer like TRL's
        return
    if tuple(int(part) for part in installed.split(".")[:2]) < _OLDEST:
        raise UsageError(f"trl {installed} takes a missing reward for 0; install trl>=1.16")


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
