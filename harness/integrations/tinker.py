"""Rewards for tinker's cookbook: `EnvGroupBuilder.compute_group_rewards = tinker.group_rewards(judge_model=...)`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.core.errors import UsageError
from harness.integrations.group_judge import GroupJudge, chat_of, figures_of

_Messages = Callable[[Any, Any], Sequence[Any]]


class GroupRewards:
    """A function for `compute_group_rewards`: a tournament among trajectories. No tinker is imported.

    It takes the trajectories and the environments of a group, and returns a reward and metrics for each. The cookbook
    adds the rewards of the steps. A group without verdicts gets equal rewards. It can be pickled, as builders have to
    be. It raises UsageError, JudgeFailed and CeilingReached.
    """

    def __init__(self, judge_model: str | Sequence[str], *, messages: _Messages | None = None, **options: Any) -> None:
        """Check the settings. Raises UsageError for options that cannot be used.

        `messages` makes chat messages of a trajectory and its environment; without it those of the cookbook's own
        environments are found (ProblemEnv, PreferenceEnv, EnvFromMessageEnv with a history). `options` are those of
        `harness.rank_messages`, and `store`, `max_cost`, `tools` and `outage` as in harness.integrations.trl.
        """
        self.judge, self._messages = GroupJudge(judge_model, **options), messages or messages_of

    async def __call__(
        self, trajectory_group: Sequence[Any], env_group: Sequence[Any]
    ) -> list[tuple[float, dict[str, float]]]:
        """Return a reward and metrics for each trajectory."""
        if not trajectory_group:
            return []
        said = [self._messages(*pair) for pair in zip(trajectory_group, env_group, strict=True)]
        (judged,) = await self.judge.judge([[chat_of((), [_plain(m) for m in messages]) for messages in said]])
        figures = figures_of([judged])
        return [(reward, dict(figures)) for reward in judged.rewards or (self.judge.level,) * len(said)]


def messages_of(trajectory: Any, env: Any) -> Sequence[Any]:
    """Return the conversation of one of the cookbook's environments. Raises UsageError for other environments."""
    renderer = getattr(env, "renderer", None) or getattr(env, "policy_renderer", None)
    if hasattr(env, "message_env"):
        asked = list(getattr(env.message_env, "history", ()))
    else:
        question = [{"role": "user", "content": env.get_question()}] if hasattr(env, "get_question") else []
        asked = [*getattr(env, "convo_prefix", ()), *question]
    if not renderer or not asked or (len(trajectory.transitions) > 1 and not hasattr(env, "message_env")):
        raise UsageError(
            f"{type(env).__name__} does not show its messages: give group_rewards(..., messages=...), a function from "
            "a trajectory and its environment to chat messages"
        )
    last, _ = renderer.parse_response(trajectory.transitions[-1].ac.tokens)
    return asked if last in asked else [*asked, last]  # a reply that was cut is not in the history


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message with thinking as `reasoning_content`, and with calls as plain objects."""
    plain = dict(message)
    if not isinstance(content := plain.get("content"), str | None):
        thoughts = [part["thinking"] for part in content if part.get("type") == "thinking"]
        plain |= {"content": [part for part in content if part.get("type") != "thinking"]}
        plain |= {"reasoning_content": "\n".join(thoughts)} if thoughts else {}
    if calls := plain.get("tool_calls"):
        plain["tool_calls"] = [c.model_dump(mode="json") if hasattr(c, "model_dump") else c for c in calls]
    return plain


group_rewards = GroupRewards
