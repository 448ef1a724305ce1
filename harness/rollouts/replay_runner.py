"""The SDK's runner during a replay: it lets no run of the agent's own code ask a model."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner

from harness.rollouts.process_guard import ProcessGuard
from harness.rollouts.recording import Recording
from harness.rollouts.replay_model import ReplayModel
from harness.rollouts.request_diff import Divergence

_recording: ContextVar[Recording | None] = ContextVar("harness_replayed_recording", default=None)


class ReplayRunner(AgentRunner):
    """Within a replay runs agents on its recording only; in all other tasks it is the runner that was there before."""

    def __init__(self, usual: AgentRunner) -> None:
        """Pass what is no replay on to `usual`."""
        super().__init__()
        self._usual = usual

    async def run(self, starting_agent: Any, input: Any, **more: Any) -> Any:  # noqa: A002 - the SDK's name
        """Run an agent. Raises Diverged."""
        if _is_replay(starting_agent, more):
            return await super().run(starting_agent, input, **more)
        return await self._usual.run(starting_agent, input, **more)

    def run_sync(self, starting_agent: Any, input: Any, **more: Any) -> Any:  # noqa: A002 - the SDK's name
        """Run an agent outside of any event loop. Raises Diverged."""
        if _is_replay(starting_agent, more):
            return super().run_sync(starting_agent, input, **more)
        return self._usual.run_sync(starting_agent, input, **more)

    def run_streamed(self, starting_agent: Any, input: Any, **more: Any) -> Any:  # noqa: A002 - the SDK's name
        """Run an agent and stream its events. Raises Diverged."""
        if _is_replay(starting_agent, more):
            return super().run_streamed(starting_agent, input, **more)
        return self._usual.run_streamed(starting_agent, input, **more)


def _is_replay(agent: Any, options: dict[str, Any]) -> bool:
    """Return whether a run is a replay's. Raises Diverged for one that would ask a model."""
    recording = _recording.get()
    if recording is not None and not isinstance(getattr(options.get("run_config"), "model", None), ReplayModel):
        detail = (
            f"the agent's own code runs agent {agent.name!r} (in a guardrail?): such calls are not recorded, "
            "and a replay asks no model"
        )
        raise recording.diverge(Divergence(what="more calls", agent=agent.name, detail=detail))
    return recording is not None


@contextmanager
def recorded_runs_only(recording: Recording) -> Generator[None]:
    """In this task and those that it starts, let agents run on `recording` only."""
    token = _recording.set(recording)
    try:
        with _GUARD.in_use():
            yield
    finally:
        _recording.reset(token)


def _install() -> Callable[[], None]:
    usual = get_default_agent_runner()
    ours = ReplayRunner(usual)
    set_default_agent_runner(ours)

    def undo() -> None:
        if get_default_agent_runner() is ours:  # else somebody has set another meanwhile
            set_default_agent_runner(usual)

    return undo


_GUARD = ProcessGuard(_install)
