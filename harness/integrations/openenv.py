"""OpenEnv sessions for TRL's async worker, in each of which an agent as it stands answers a prompt.

`HarnessRolloutWorker(harness_session_factory=partial(openenv.AgentSessions, "agent.py", base_url=...),
reward_funcs=[trl.reward(judge_model=..., alone=True)])`.
"""

import asyncio
import hashlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from harness.api.outside import AnyAgent
from harness.api.sampled_rollouts import SampledRollout, sampled_rollouts
from harness.core.sync import in_step
from harness.integrations.policy import check_policy_settings, prompt_as_query


class AgentSessions:
    """A `ResourceSessionFactory` of OpenEnv's for an agent. With an agent's file or name it can be pickled."""

    def __init__(self, agent: AnyAgent, *, sampling: Mapping[str, Any], **settings: Any) -> None:
        """Check the settings, those of `trl.rollouts`; the worker says how to sample. Raises UsageError."""
        check_policy_settings(settings)
        self._agent = agent
        self._settings: dict[str, Any] = {**settings, "temperature": sampling["temperature"], "top_p": 1.0}

    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> "AgentSession":
        """Return a session for a prompt. Those of a group, which have the `seed` in common, are sampled apart."""
        chance = int.from_bytes(hashlib.sha256(f"{seed}/{episode_id}".encode()).digest()[:4])
        return AgentSession(self._agent, task, {**self._settings, "seed": chance})


class AgentSession:
    """A `TrainableSession` of OpenEnv's: one rollout. The tournament of its group gives the reward later."""

    def __init__(self, agent: AnyAgent, task: Any, settings: Mapping[str, Any]) -> None:
        """Do nothing yet."""
        self._agent, self._task, self._settings = agent, task, dict(settings)
        self.sampled: SampledRollout | None = None
        """The rollout, once it has ended."""
        self._cancel: Callable[[], object] | None = None
        self._closed = False

    def wait_for_completion(self, timeout_s: float | None = None) -> int:
        """Roll out, and return 0, or 1 where the agent failed; called once, in a thread of the worker's.

        Raises TimeoutError where the time was over (what was sampled by then is there), RuntimeError where the session
        was closed meanwhile, and what `trl.rollouts` raises.
        """
        try:
            in_step(self._roll_out)({} if timeout_s is None else {"timeout": timeout_s})
        except asyncio.CancelledError:
            raise RuntimeError("the session was closed before its rollout ended") from None
        failure = self.sampled and self.sampled.rollout.failure
        if failure and failure.kind in {"timeout", "network"} and failure.type == "TimeoutError":
            raise TimeoutError(failure.message)
        return int(bool(failure))

    async def _roll_out(self, more: Mapping[str, Any]) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel) if task else None
        if self._closed:
            raise asyncio.CancelledError
        asked = [(prompt_as_query(self._task), 1)]
        ((_, rollouts),) = await sampled_rollouts(self._agent, asked, **{**self._settings, **more})
        self.sampled = next(iter(rollouts), None)

    def fetch_training_trace(self) -> Any:
        """Return OpenEnv's TrainingTrace of all calls of the policy, those that answer last.

        Calls of another model are context alone. Raises RuntimeError where nothing may be trained, for which the worker
        leaves the rollout out; any ValueError would stop it.
        """
        if (why := self.sampled.why_untrained if self.sampled else "there is none") or self.sampled is None:
            raise RuntimeError(f"nothing of the rollout can be trained: {why}")
        try:
            return _openenv().TrainingTrace.from_entries(list(trace_entries(self.sampled)))
        except ValueError as exc:
            raise RuntimeError(f"OpenEnv takes no such trace: {exc}") from exc

    def verify(self, transcript: Sequence[Any], final_state: Any = None) -> Any:
        """Return OpenEnv's VerifyResult without a reward: a rollout alone has none."""
        del transcript, final_state
        return _openenv().VerifyResult(env_reward=None, done=True)

    def close(self) -> None:
        """End the rollout, if it is under way."""
        self._closed = True
        if self._cancel:
            with suppress(RuntimeError):  # its loop has ended
                self._cancel()


def _openenv() -> Any:
    return importlib.import_module("openenv.core.harness")


def trace_entries(sampled: SampledRollout) -> Sequence[dict[str, Any]]:
    """Return the calls of a rollout as OpenEnv's trace entries, sequence after sequence: each is a row of training."""
    begun = sampled.joined[sampled.first].turns[0]
    outer = [sequence for sequence in sampled.joined if sequence.turns[-1].within is None]
    last = max(outer or sampled.joined, key=lambda sequence: sequence.turns[-1].call or 0)
    ordered = [*(sequence for sequence in sampled.joined if sequence is not last), last]
    entries: list[dict[str, Any]] = []
    for turn in (turn for sequence in ordered for turn in sequence.turns):
        tokens = turn.tokens
        if tokens is None or tokens.logprobs is None:
            continue
        message = {"role": "assistant", **turn.completion[-1]}
        entries.append(
            {
                "request": {"messages": list(turn.context), "tools": list(turn.tools) or None},
                "response": {"choices": [{"message": message | {"content": message.get("content") or ""}}]},
                "prompt_token_ids": list(tokens.prompt_ids),
                "completion_token_ids": list(tokens.ids),
                "per_token_logps": [float(logprob) for logprob in tokens.logprobs],
                "loss_mask": [0] * len(tokens.prompt_ids) + [int(turn.model == begun.model)] * len(tokens.ids),
                "metadata": {"node_id": str(turn.call), "agent": turn.agent},
            }
        )
    return entries
