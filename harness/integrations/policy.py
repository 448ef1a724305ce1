"""What a trainer of any make needs of an agent under training: rows of sampled tokens, and rewards of its siblings."""

import asyncio
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.api.outside import AnyAgent
from harness.api.sampled_rollouts import SampledRollout, sampled_rollouts
from harness.core.errors import UsageError, counted, from_python, joined, option, quoted
from harness.core.records import Group, Query, Rollout
from harness.core.settings_sources import check_names, load
from harness.core.settings_types import CommonSettings
from harness.integrations.group_judge import GroupJudge

_OF_THE_TRAINER = {"n", "temperature", "anchor_temperature", "top_p", "seed"}
_OF_THE_TOURNAMENT = {"jury", "rubric", "topology", "estimator", "order", "budget", "max_cost"}


@dataclass(frozen=True)
class PolicyRow:
    """A rollout as a trainer takes it: the starting agent's sequence. What follows the prompt has an entry a token."""

    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]
    """As sampled; 0 where the model did not speak."""
    mask: list[int]
    """1 where the model spoke. A row that may not be trained is one token with a 0."""
    rollout: Rollout | None
    """None where it was not begun."""
    judged_as: Group | str
    """What a judge reads of it; or in words why it is neither judged nor trained."""


async def policy_rows(
    agent: AnyAgent,
    prompts: Sequence[Any],
    *,
    chance: str,
    temperature: float,
    top_p: float = 1.0,
    policy_version: Callable[[], int] | None = None,
    **settings: Any,
) -> list[PolicyRow]:
    """Run an agent on each prompt, a text or chat messages, and return a row for each.

    `chance` tells apart what is sampled apart: the step, and the process. `settings` are those of `harness.rollout`,
    with `base_url` the policy's server. What is not trained is counted in the log.

    Raises UsageError for settings that cannot be used; Refused where the server turns the first call down, or tells no
    token ids.
    """
    sampling: dict[str, Any] = {
        "temperature": temperature,
        "top_p": top_p,
        "policy_version": policy_version,
        "seed": int.from_bytes(hashlib.sha256(chance.encode()).digest()[:4]),
    }
    texts = [json.dumps(prompt, sort_keys=True) for prompt in prompts]
    times = Counter(texts)
    asked = [(prompt_as_query(json.loads(text)), count) for text, count in times.items()]
    given = await sampled_rollouts(agent, asked, **settings, **sampling)
    groups = {text: (query, iter(sampled)) for text, (query, sampled) in zip(times, given, strict=True)}
    mine = [(query, next(left, None)) for query, left in (groups[text] for text in texts)]
    rows = [_row(query, sampled) for query, sampled in mine]
    _log([sampled for _, sampled in mine], rows)
    return rows


def check_policy_settings(settings: Mapping[str, Any]) -> None:
    """Raise UsageError for settings that cannot be used for the rollouts of a policy under training."""
    with from_python():
        check_names(settings, CommonSettings.__annotations__)
        load(settings)
        for name, value in settings.items():
            if name in _OF_THE_TRAINER:
                raise UsageError(f"{joined(option(name), quoted(value))}: leave it out, since the trainer says it")
            if name in _OF_THE_TOURNAMENT or name.startswith("judge"):
                raise UsageError(f"{joined(option(name), quoted(value))}: give it to the reward function")


def prompt_as_query(prompt: Any) -> Any:
    """Return a trainer's prompt, a text or chat messages, as a query."""
    return prompt if isinstance(prompt, str) else {"messages": prompt}


def _row(query: Query, sampled: SampledRollout | None) -> PolicyRow:
    rollout = sampled and sampled.rollout
    why = sampled.why_untrained if sampled else "it was not begun: its endpoint was given up"
    if why or sampled is None or rollout is None:
        return PolicyRow([0], [0], [0.0], [0], rollout, str(why))
    sequence = sampled.sequences[sampled.first]
    begin = sequence["token_mask"].index(1)
    return PolicyRow(
        list(sequence["token_ids"][:begin]),
        list(sequence["token_ids"][begin:]),
        [logprob or 0.0 for logprob in sequence["logprobs"][begin:]],
        list(sequence["token_mask"][begin:]),
        rollout,
        Group(query=query, rollouts=(rollout,)),
    )


def _log(mine: Sequence[SampledRollout | None], rows: Sequence[PolicyRow]) -> None:
    """Count in the log what is not trained, and why."""
    log = logging.getLogger("arena-harness")
    for why, times in Counter(row.judged_as for row in rows if isinstance(row.judged_as, str)).items():
        log.warning("%s untrained: %s", counted(times, "rollout is", "rollouts are"), why)
    trained = [sampled for sampled in mine if sampled and not sampled.why_untrained]
    others = counted(sum(len(sampled.sequences) - 1 for sampled in trained), "sequence")
    log.info("%s trained, and %s beside theirs left out", counted(len(trained), "rollout is", "rollouts are"), others)


def as_one_group(members: Sequence[Group]) -> Group:
    """Return the rollouts of one query, which may have come one by one, as its group."""
    rollouts = [rollout for one in members for rollout in one.rollouts]
    numbered = (rollout.model_copy(update={"index": at}) for at, rollout in enumerate(rollouts, 1))
    return Group(query=members[0].query, rollouts=tuple(numbered))


class Siblings:
    """Rewards by a tournament for rollouts that come one by one, in one event loop: each waits for its whole group."""

    def __init__(self, judge: GroupJudge, size: int, *, wait_s: float = 3600.0) -> None:
        """A group has `size` rollouts. One that is not whole and judged after `wait_s` goes without rewards."""
        self.judge, self._size, self._wait_s = judge, size, wait_s
        self._groups: dict[Any, tuple[list[Group | str], asyncio.Future[list[float | None]]]] = {}

    async def reward(self, key: Any, member: Group | str) -> float | None:
        """Return the reward of a rollout of the group `key`, None where it has none; see `PolicyRow.judged_as`.

        Raises what the judge raises to stop the training, in all of the group.
        """
        new = asyncio.get_running_loop().create_future
        members, rewards = self._groups.setdefault(key, ([], new()))
        place = len(members)
        members.append(member)
        if len(members) == self._size:
            del self._groups[key]
            try:
                there = [each for each in members if isinstance(each, Group)]
                judged = await self.judge.judge([as_one_group(there)] if there else [])
                given = iter(judged[0].rewards or () if judged else ())
                rewards.set_result([next(given, None) if isinstance(each, Group) else None for each in members])
            except Exception as exc:  # noqa: BLE001 - the siblings wait for it
                rewards.set_exception(exc)
        try:
            return (await asyncio.wait_for(asyncio.shield(rewards), self._wait_s))[place]
        except TimeoutError:
            self._groups.pop(key, None)
            return None
