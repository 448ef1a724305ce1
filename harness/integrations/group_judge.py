"""Judges the groups of a training: one folder of verdicts, one ceiling, and an outcome for every group."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.api.message_tournament import RankMessagesSettings, ranked_messages
from harness.api.shared_judging import SharedJudging, share_judging
from harness.core.errors import CannotWrite, CeilingReached, JudgeFailed, Refused, UsageError, on_a_line
from harness.core.settings_sources import check_names, load
from harness.core.wording import from_python
from harness.integrations.judged_group import JudgedGroup, Purchases

Member = Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""A trajectory of a group: chat messages, or an object with `messages` and perhaps a `reward`."""


class GroupJudge:
    """Judges groups by `harness.rank_messages`. It can be pickled: another process opens the folder for itself."""

    def __init__(
        self,
        judge_model: str | Sequence[str],
        *,
        store: str | Path | None = None,
        max_cost: float | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **settings: Any,
    ) -> None:
        """Check the settings, which are those of `harness.rank_messages`. Raises UsageError.

        `store` is a folder of verdicts, made where it is not there; what it holds is not bought again. `max_cost` is in
        USD, for all groups together. `tools` are the definitions of the tools that the policy may call.
        """
        self._options: dict[str, Any] = {**settings, "judge_model": judge_model}
        with from_python():
            check_names(self._options, RankMessagesSettings.__annotations__)
            self._settings = load({**self._options, "max_cost": max_cost})
        self._folder = None if store is None else Path(store)
        self._tools = list(tools) if tools is not None else None
        self._shared: SharedJudging | None = None
        self._has_judged = False
        self._under_way = 0

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: nothing that is open here."""
        return self.__dict__ | {"_shared": None, "_has_judged": False, "_under_way": 0}

    @property
    def level(self) -> float:
        """What everybody gets in a group that was not judged: the mean of the rewards of a group."""
        return 0.0 if self._settings.reward == "score" else 0.5

    @property
    def spent(self) -> float:
        """USD spent so far by this process, as far as prices are known."""
        return self._shared.ceiling.spent if self._shared else 0.0

    async def judge(
        self, groups: Sequence[Sequence[Member]], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> list[JudgedGroup]:
        """Judge groups side by side. A group without verdicts fails alone; a warning in the log says why.

        The judge reads `tools` if none were named before.

        Raises CeilingReached where `max_cost` leaves no room, Refused where the judge's endpoint turns the first call
        of a group down, and UsageError for what cannot be used, if that is so from the first groups on.
        """
        if self._shared is None:
            self._shared = share_judging(self._settings, self._folder)
        self._under_way += len(groups)
        at_a_time = max(1, self._settings.judge_concurrency // max(1, self._under_way))
        options: dict[str, Any] = {**self._options, "judge_concurrency": at_a_time, "tools": self._tools or tools}
        tasks = [self._judged(list(group), self._shared, options) for group in groups]
        try:
            judged = await asyncio.gather(*tasks, return_exceptions=True)  # what is bought is waited for
        finally:
            self._under_way -= len(groups)
        for outcome in judged:
            if isinstance(outcome, BaseException):
                raise outcome
        self._has_judged = True
        return [outcome for outcome in judged if isinstance(outcome, JudgedGroup)]

    def close(self) -> None:
        """Let go of the folder of verdicts. Whoever judges again opens it again."""
        self._shared = None

    async def _judged(self, group: list[Member], shared: SharedJudging, options: dict[str, Any]) -> JudgedGroup:
        purchases = Purchases()
        if len(group) == 1 and self._settings.judge != "ruler":
            return _failed(1, "a single trajectory has nothing to be compared with", purchases)
        try:
            ranked = await ranked_messages(
                group,
                progress=purchases,
                keep_in=shared.verdicts and shared.verdicts.folder,
                ceiling=shared.ceiling,
                **options,
            )
        except (CeilingReached, Refused, CannotWrite):
            raise
        except (JudgeFailed, UsageError) as exc:
            if isinstance(exc, UsageError) and not self._has_judged:
                raise
            return _failed(len(group), str(exc), purchases)
        by_score = self._settings.reward == "score"
        rewards = [r for place in ranked.places if (r := place.score if by_score else place.reward) is not None]
        if len(rewards) < len(group):
            return _failed(len(group), "; ".join(ranked.notes) or "a trajectory has no reward", purchases)
        explanations = tuple(place.explanation for place in ranked.places)
        return JudgedGroup(tuple(rewards), explanations, purchases, ranked.ranking)


def _failed(members: int, why: str, purchases: Purchases) -> JudgedGroup:
    why = on_a_line(why)
    logging.getLogger("arena-harness").warning("a group of %d trajectories has no rewards: %s", members, why)
    return JudgedGroup(None, (why,) * members, purchases)
