"""An agent in the place of a trainer's own sampling: TRL's `rollout_func`."""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from harness.api.outside import AnyAgent
from harness.api.sampled_rollouts import SampledRollout, sampled_rollouts
from harness.core.errors import UsageError, counted, from_python, joined, option, quoted
from harness.core.records import Group, Query
from harness.core.settings_sources import check_names, load
from harness.core.settings_types import CommonSettings
from harness.core.sync import in_step
from harness.integrations.tournament_reward import TournamentReward, refuse_nothing

_OF_THE_TRAINER = {"n", "temperature", "anchor_temperature", "top_p", "seed"}
_OF_THE_TOURNAMENT = {"jury", "rubric", "topology", "estimator", "order", "budget", "max_cost"}
_NOT_BEGUN = "it was not begun: its endpoint was given up"


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


class AgentRollouts:
    """A `rollout_func` of TRL's: an agent as it stands answers the prompts, and the tokens it sampled are trained.

    `base_url` is the policy's server, which has to tell token ids and logprobs (vLLM, SGLang), and to have the
    trainer's weights; `settings` are those of `harness.rollout`. Temperature, top_p and seed are the trainer's.

    A rollout is one sequence, the starting agent's; others (of handoffs, of nested agents, and those that the server
    made other tokens of) are counted in the log. What cannot be trained is masked as a whole and has no reward. A
    tournament (`reward`) among the trainer's reward functions judges the rollouts as they were; other reward functions
    find each as `rollout`, a harness.Rollout.

    Raises Refused where the server turns the first call down or tells no token ids, and NothingRankable where no
    rollout of a step can be trained.
    """

    def __init__(self, agent: AnyAgent, **settings: Any) -> None:
        """Check the settings. Raises UsageError."""
        check_policy_settings(settings)
        self._agent, self._settings, self._calls = agent, settings, 0

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Return what GRPOTrainer asks of a `rollout_func`, for each prompt, and `rollout` and the tournament's."""
        return in_step(self._of_step)(prompts, trainer)

    async def _of_step(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        tournaments = [each for each in trainer.reward_funcs if isinstance(each, TournamentReward)]
        if len(tournaments) > 1:
            raise UsageError(f"reward_funcs has {len(tournaments)} tournaments: rollouts are judged by one")
        self._calls += 1
        chance = f"{trainer.args.seed}/{trainer.state.global_step}/{self._calls}/{trainer.accelerator.process_index}"
        settings: dict[str, Any] = {
            "temperature": trainer.args.temperature,
            "top_p": trainer.args.top_p,
            "policy_version": lambda: trainer.state.global_step,
            "seed": int.from_bytes(hashlib.sha256(chance.encode()).digest()[:4]),
        }
        texts = [json.dumps(prompt) for prompt in prompts]
        times = Counter(texts)
        asked = [(prompt_as_query(json.loads(text)), count) for text, count in times.items()]
        given = await sampled_rollouts(self._agent, asked, **self._settings, **settings)
        groups = {text: (query, iter(sampled)) for text, (query, sampled) in zip(times, given, strict=True)}
        mine = [(query, next(left, None)) for query, left in (groups[text] for text in texts)]
        members = [_member(query, sampled) for query, sampled in mine]
        if trainer.accelerator.num_processes == 1:  # of several one may have none
            refuse_nothing(members)
        _log(mine, members)
        fields = [_fields(sampled, member) for (_, sampled), member in zip(mine, members, strict=True)]
        output: dict[str, Any] = {name: [row[name] for row in fields] for name in fields[0]}
        for tournament in tournaments:
            judged = await tournament.judged(members, trainer, must_teach=True)
            output["tournament"], output["tournament_figures"] = judged
        return output


def prompt_as_query(prompt: Any) -> Any:
    """Return a trainer's prompt, a text or chat messages, as a query."""
    return prompt if isinstance(prompt, str) else {"messages": prompt}


def _member(query: Query, sampled: SampledRollout | None) -> Group | str:
    """Return what is judged of a rollout, else why it is not."""
    if sampled is None:
        return _NOT_BEGUN
    return sampled.why_untrained or Group(query=query, rollouts=(sampled.rollout,))


def _fields(sampled: SampledRollout | None, member: Group | str) -> dict[str, Any]:
    """Return a row of what TRL takes; one token that nothing is learnt from where there is nothing to train."""
    if sampled is None or isinstance(member, str):
        ids = {"prompt_ids": [0], "completion_ids": [0], "logprobs": [0.0], "env_mask": [0]}
        return ids | {"rollout": sampled and sampled.rollout}
    sequence = sampled.sequences[sampled.first]
    begin = sequence["token_mask"].index(1)
    return {
        "prompt_ids": list(sequence["token_ids"][:begin]),
        "completion_ids": list(sequence["token_ids"][begin:]),
        "logprobs": [logprob or 0.0 for logprob in sequence["logprobs"][begin:]],
        "env_mask": sequence["token_mask"][begin:],
        "rollout": sampled.rollout,
    }


def _log(mine: Sequence[tuple[Query, SampledRollout | None]], members: Sequence[Group | str]) -> None:
    """Count in the log what is not trained, and why."""
    log = logging.getLogger("arena-harness")
    for why, times in Counter(member for member in members if isinstance(member, str)).items():
        log.warning("%s untrained: %s", counted(times, "rollout is", "rollouts are"), why)
    trained = [sampled for _, sampled in mine if sampled and not sampled.why_untrained]
    others = counted(sum(len(sampled.sequences) - 1 for sampled in trained), "sequence")
    log.info("%s trained, and %s beside theirs left out", counted(len(trained), "rollout is", "rollouts are"), others)
