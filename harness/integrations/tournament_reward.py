"""The tournament as a reward function of TRL's, in one process or in several."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate, chain
from typing import Any, Self, TypeVar

from harness.core.errors import NothingRankable, UsageError
from harness.core.records import Group
from harness.integrations.group_judge import Chat, GroupJudge, chat_of, figures_of
from harness.integrations.policy import as_one_group

_T = TypeVar("_T")
_OLDEST = (1, 16)
"""From this TRL on a completion whose only reward is None has no part in the mean and the loss."""
_Place = tuple[float | None, str]
"""A completion's reward and the explanation of it."""
_Member = Chat | Group | str
"""What the judge reads of a completion: its messages, or its one rollout; or in words why it is not judged."""
_LONGEST_WAIT = timedelta(days=1)
"""How long the others wait for the first process, which judges; a process that ends is noticed at once."""


class Ranks:
    """This process and the others of its training, of which the first works for all.

    A process group of its own over gloo carries the messages: the trainer's may be of devices, and belongs to one
    thread.
    """

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

    async def once(self, mine: Sequence[_T], work: Callable[[list[_T]], Awaitable[list[Any]]]) -> list[Any]:
        """Let the first process do `work` on what all have, in the order of their ranks; return the part for `mine`.

        An error of the first process is raised in all.
        """
        rank = self._distributed.get_rank()
        parts: list[Sequence[_T]] = [()] * self._distributed.get_world_size()
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


class TournamentReward:
    """A reward function of TRL's: a tournament among the completions of each prompt. No TRL is imported.

    Rewards are 1 - rank / (M - 1), or with `reward="score"` the scores; TRL standardizes them. A group without verdicts
    gets None, which TRL leaves out, and beside other reward functions equal rewards. Over several processes the first
    one judges for all, whichever device a completion is on. It can be pickled, as the async trainer needs.

    Raises UsageError for a TRL before 1.16 and for prompts without a user's message, JudgeFailed where `outage` says
    stop, and CeilingReached where `max_cost` is used up: these stop the training.
    """

    def __init__(self, judge_model: str | Sequence[str], *, alone: bool | None = None, **options: Any) -> None:
        """Check the options. Raises UsageError for those that cannot be used.

        `options` are those of `harness.rank_messages` (`judge_base_url`, `rubric`, `budget`, `judge="ruler"`, ...),
        and: `store`, a folder of verdicts, made where it is not there; `max_cost`, in USD for the whole training;
        `tools`, the definitions of the tools that the policy may call; `outage`, what happens while the judge cannot be
        had. `alone` says whether there is no other reward function: `GRPOTrainer` is asked, the async trainer cannot
        be; without `alone` its groups get None.
        """
        self.__name__ = "tournament"  # TRL logs rewards/tournament
        self.judge, self._alone = GroupJudge(judge_model, **options), alone
        self._ranks: Ranks | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_ranks": None}

    async def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Return a reward for each completion, or None for all of a group; those that `rollouts` gave, if it did."""
        _check_version()
        to_python = partial(logging.getLogger("arena-harness").info, "%s: %g")
        log_metric = columns.get("log_metric", to_python)
        trainer = getattr(log_metric, "__self__", None)  # the async trainer hands over one whole group, and no logging
        alone = len(getattr(trainer, "reward_funcs", ())) < 2 if self._alone is None else self._alone
        if "tournament" in columns:
            places, figures = columns["tournament"], columns["tournament_figures"][0]
        else:
            pairs = zip(prompts, completions, strict=True)
            places, figures = await self.judged([_completed(*pair) for pair in pairs], trainer)
        for name, value in figures.items():
            log_metric(name, value)
        if log_extra := columns.get("log_extra"):
            log_extra("judge", [why for _, why in places])
        unjudged = None if alone else self.judge.level
        return [unjudged if reward is None else reward for reward, _ in places]

    async def judged(
        self, members: Sequence[_Member], trainer: Any, *, must_teach: bool = False
    ) -> tuple[list[_Place], Mapping[str, float]]:
        """Judge the completions of this process and the others; return the places of these, and the figures.

        The figures are the first process's alone. `trainer` says how many completions a group has; None: all are one.
        Raises NothingRankable where nothing is there to be judged, if it `must_teach`.
        """
        in_training = getattr(getattr(trainer, "model", None), "training", True)
        size = getattr(trainer, "num_generations" if in_training else "num_generations_eval", None) or len(members)
        figures: dict[str, float] = {}
        work = partial(self._places, size=size, figures=figures, must_teach=must_teach)
        self._ranks = self._ranks or (Ranks.of_this_process() if trainer else None)
        places = await (self._ranks.once(members, work) if self._ranks else work(list(members)))
        return places, figures

    async def _places(
        self, members: list[_Member], size: int, figures: dict[str, float], *, must_teach: bool
    ) -> list[_Place]:
        if must_teach:
            refuse_nothing(members)
        groups = [members[at : at + size] for at in range(0, len(members), size)]
        there = [[member for member in group if not isinstance(member, str)] for group in groups]
        judged = await self.judge.judge([_as_one(group) for group in there if group])
        figures |= figures_of(judged)
        if "judge/usd" in figures:
            figures["judge/usd_total"] = self.judge.spent
        told = (  # by group of whom any member was judged, by member
            place
            for each in judged
            for place in zip(each.rewards or (None,) * len(each.explanations), each.explanations, strict=True)
        )
        return [(None, member) if isinstance(member, str) else next(told) for member in members]


def _completed(prompt: Any, completion: Any) -> Chat | str:
    """Return what the judge reads of a completion, which may begin with the prompt; the async worker's may be none."""
    if not completion and not isinstance(completion, str):
        return "there is no completion: its rollout failed"
    said = (
        [] if isinstance(completion, str) else [m for m in completion if m.get("role") not in {"system", "developer"}]
    )
    return chat_of([] if said and said[0].get("role") == "user" else prompt, completion)


def refuse_nothing(members: Sequence[Any]) -> None:
    """Raise NothingRankable where no completion of a step is there to be judged and trained."""
    if all(isinstance(member, str) for member in members):
        raise NothingRankable(f"no rollout of this step can be trained: {members[0]}")


def _as_one(group: Sequence[Chat | Group]) -> Sequence[Chat] | Group:
    """Return chats as they are, and the rollouts of one query as its group."""
    rollouts = [one for one in group if isinstance(one, Group)]
    return as_one_group(rollouts) if rollouts else [chat for chat in group if not isinstance(chat, Group)]


def _check_version() -> None:
    """Raise UsageError for a TRL that would take None for a reward of 0."""
    try:
        installed = version("trl")
    except PackageNotFoundError:  # called by a trainer like TRL's
        return
    if tuple(int(part) for part in installed.split(".")[:2]) < _OLDEST:
        raise UsageError(f"trl {installed} takes a missing reward for 0; install trl>=1.16")
