"""Judges the groups of a training: one folder of verdicts, one ceiling, and an outcome for every group."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.api.message_tournament import RankedMessages, RankMessagesSettings, ranked_messages
from harness.api.outage import JUDGE_BUSY_S, OUTAGE, JudgeOutage, is_outage, refuse_part
from harness.api.outside import SharedJudging, failures_of_missing, share_judging
from harness.core.errors import CannotWrite, CeilingReached, JudgeFailed, UsageError, from_python, on_a_line
from harness.core.progress import Silent, Stage
from harness.core.rankings import GroupRanking
from harness.core.records import Group, Usage
from harness.core.settings_sources import check_names, load

_Message = Mapping[str, Any]
Chat = list[_Message]


def chat_of(prompt: str | Sequence[_Message], completion: str | Sequence[_Message]) -> Chat:
    """Return a prompt and its completion, each a text or messages, as one conversation."""
    asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    answered = [{"role": "assistant", "content": completion}] if isinstance(completion, str) else completion
    return list(_with_ids([*asked, *answered]))


def chat_of_histories(histories: Sequence[Sequence[_Message]]) -> Chat:
    """Return the conversations of one rollout as one, for a judge: the first asks, and gives the answer if it ends so.

    Where the first ends without an answer, as before a handoff or when a context was compacted, the last one answers.
    System messages of further conversations are left out: they are not what the user was promised.
    """
    first, *further = [list(_with_ids(history, f"{number}.")) for number, history in enumerate(histories)]
    others = [
        message for history in further for message in history if message.get("role") not in {"system", "developer"}
    ]
    asked = next((at for at, message in enumerate(first, 1) if message.get("role") == "user"), len(first))
    answers = bool(first) and first[-1].get("role") == "assistant" and not first[-1].get("tool_calls")
    return [*first[:asked], *others, *first[asked:]] if answers else [*first, *others]


def _with_ids(messages: Sequence[_Message], prefix: str = "") -> Iterator[_Message]:
    """Give every call an id of its own, and its result the same: some trainers have none, and go by the order."""
    waiting: list[tuple[Any, str]] = []
    for number, message in enumerate(messages):
        if calls := message.get("tool_calls"):
            waiting = [(call.get("id"), f"{prefix}{number}.{at}") for at, call in enumerate(calls)]
            named = [{**call, "id": name} for call, (_, name) in zip(calls, waiting, strict=True)]
            yield {**message, "tool_calls": named}
        elif message.get("role") == "tool" and waiting:
            asked = message.get("tool_call_id")
            place = next((at for at, (was, _) in enumerate(waiting) if was == asked), 0)
            yield {**message, "tool_call_id": waiting.pop(place)[1]}
        else:
            yield message


class Purchases(Silent):
    """Adds up what the verdicts of one group took, failed ones too."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.since = clock()
        """When the last verdict was given; before the first, when they were first asked for."""
        self.calls = 0
        self.usd: float | None = 0.0
        """None once a price is unknown."""

    def kept(self, stage: Stage, usage: Usage, usd: float | None, *, failed: bool) -> None:  # noqa: ARG002 - a watcher's
        """Add what a verdict took; a call that gave none is no verdict."""
        if not failed:
            self.calls, self.since = self.calls + 1, self._clock()
        self.usd = None if self.usd is None or usd is None else self.usd + usd


@dataclass(frozen=True)
class JudgedGroup:
    """A reward for each trajectory of a group, or None for all of them."""

    rewards: tuple[float, ...] | None
    explanations: tuple[str, ...]
    """Of each trajectory its matches in words; of a group that failed, why it failed."""
    purchases: Purchases
    ranking: GroupRanking | None = None


def figures_of(judged: Sequence[JudgedGroup]) -> dict[str, float]:
    """Return what a trainer logs of the groups of a step. What is not known, such as a price, is left out.

    `judge/flip_rate` is the share of pairs, of those judged in both orders, whose orders name opposite winners;
    `judge/reliability` and `judge/first_side` are means over groups of what a GroupRanking says under those names;
    `judge/no_signal` the share of the groups with rewards in which the judge told nobody apart; `judge/failed_groups`
    the share of groups without rewards; `judge/calls` and `judge/reused` are verdicts that were given and
    that were there, `judge/usd` is what all calls cost.
    """
    rankings = [group.ranking for group in judged if group.ranking]
    in_both_orders = [m for ranking in rankings for m in ranking.matches if len(set(m.shown_first)) == 2]
    prices = [group.purchases.usd for group in judged if group.purchases.usd is not None]
    figures = {
        "judge/flip_rate": _mean([match.flipped for match in in_both_orders]),
        "judge/reliability": _mean([ranking.reliability for ranking in rankings]),
        "judge/first_side": _mean([ranking.first_side for ranking in rankings]),
        "judge/no_signal": _mean([ranking.signal == "none" for ranking in rankings]),
        "judge/failed_groups": _mean([group.rewards is None for group in judged]),
        "judge/calls": float(sum(group.purchases.calls for group in judged)),
        "judge/reused": float(sum(ranking.reused for ranking in rankings)),
        "judge/usd": sum(prices) if len(prices) == len(judged) else None,
    }
    return {name: value for name, value in figures.items() if value is not None}


def joined_figures(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the figures of several groups as those of one step: sums of what was bought, else means."""
    bought = {"judge/calls", "judge/reused", "judge/usd"}
    names = dict.fromkeys(name for of_group in figures for name in of_group)
    values = {name: [of_group[name] for of_group in figures if name in of_group] for name in names}
    return {name: sum(each) / (1 if name in bought else len(each)) for name, each in values.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


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
        outage: str = OUTAGE,
        clock: Callable[[], float] = time.monotonic,
        **settings: Any,
    ) -> None:
        """Check the settings: those of `harness.rank_messages`, and what `trl.reward` adds. Raises UsageError.

        `clock` gives seconds; how long the judge has been out is told by it.
        """
        self._outages, self._clock = JudgeOutage(outage, clock), clock
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
        self, groups: Sequence[Sequence[Member] | Group], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> list[JudgedGroup]:
        """Judge groups side by side. A group without verdicts fails alone; a warning in the log says why.

        The judge reads `tools` if none were named before. While the judge cannot be had the rule of outages holds.

        Raises CeilingReached where `max_cost` leaves no room, JudgeFailed where the rule of outages says stop, and
        UsageError for what cannot be used, if that is so from the first groups on.
        """
        if self._shared is None:
            self._shared = share_judging(self._settings, self._folder)
        self._under_way += len(groups)
        at_a_time = max(1, self._settings.judge_concurrency // max(1, self._under_way))
        options: dict[str, Any] = {**self._options, "judge_concurrency": at_a_time, "tools": self._tools or tools}
        options["judge_busy_s"] = JUDGE_BUSY_S
        tasks = [self._judged(group, self._shared, options) for group in groups]
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

    async def _judged(
        self, group: Sequence[Member] | Group, shared: SharedJudging, options: dict[str, Any]
    ) -> JudgedGroup:
        purchases, store = Purchases(self._clock), shared.store()
        given, members = (group, len(group.rollouts)) if isinstance(group, Group) else (list(group), len(group))
        if members == 1 and self._settings.judge != "ruler":
            return _failed(1, "a single trajectory has nothing to be compared with", purchases)

        async def ask() -> RankedMessages:
            ranked = await ranked_messages(given, progress=purchases, keep_in=store, ceiling=shared.ceiling, **options)
            refuse_part(failures_of_missing(ranked.ranking, store) if ranked.ranking else ())
            return ranked

        try:
            ranked = await self._outages.ride_out(ask, lambda: purchases.since, self._folder)
        except (CeilingReached, CannotWrite):
            raise
        except (JudgeFailed, UsageError) as exc:
            if is_outage(exc) or (isinstance(exc, UsageError) and not self._has_judged):
                raise
            return _failed(members, str(exc), purchases)
        if not isinstance(ranked, RankedMessages):
            return _failed(members, f"the judge is out: {ranked}", purchases)
        self._has_judged = True
        by_score = members == 1 and self._settings.reward == "score"  # alone it has a score, and no reward but 0
        rewards = [r for place in ranked.places if (r := place.score if by_score else place.reward) is not None]
        if len(rewards) < members:
            return _failed(members, "; ".join(ranked.notes) or "a trajectory has no reward", purchases)
        explanations = tuple(place.explanation for place in ranked.places)
        return JudgedGroup(tuple(rewards), explanations, purchases, ranked.ranking)


def _failed(members: int, why: str, purchases: Purchases) -> JudgedGroup:
    why = on_a_line(why)
    logging.getLogger("arena-harness").warning("a group of %d trajectories has no rewards: %s", members, why)
    return JudgedGroup(None, (why,) * members, purchases)
