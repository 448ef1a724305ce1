"""The runs of the SDK during a replay: all of them, the agent's own nested ones included, ask the recording alone."""

import copy
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agents import RunConfig

from harness.rollouts.nested import as_config
from harness.rollouts.recording import Recording
from harness.rollouts.replay_model import ReplayModel
from harness.rollouts.request_diff import Divergence
from harness.rollouts.sdk_runner import Options, TakenRun, runs_taken_over


@dataclass
class ReplayRuns:
    """Lets the runs of one replay ask its recording, by way of the SDK's own runner."""

    recording: Recording
    through_usual_runner: bool = False

    def take(self, agent: Any, given_input: Any, options: Options) -> TakenRun:
        """Return a run on the recording. Raises Diverged for a run whose calls were not recorded."""
        del given_input
        theirs = as_config(options)
        live = self.recording.live_tools and not self.recording.drives_nested
        if isinstance(theirs.model, ReplayModel) or live:
            return TakenRun(agent, options)
        if not self.recording.drives_nested:
            detail = (
                f"the agent's own code runs agent {agent.name!r} (in a guardrail?): not all such calls are recorded, "
                "and a replay asks no model"
            )
            raise self.recording.diverge(Divergence(what="more calls", agent=agent.name, detail=detail))
        return TakenRun(agent, options | {"run_config": _on(self.recording, theirs)})


@contextmanager
def recorded_runs_only(recording: Recording) -> Generator[None]:
    """In this task and those that it starts, let agents run on `recording` only."""
    with runs_taken_over(ReplayRuns(recording)):
        yield


def _on(recording: Recording, theirs: RunConfig) -> RunConfig:
    config = copy.copy(theirs)
    config.model, config.tracing_disabled = ReplayModel(recording), True
    return config
