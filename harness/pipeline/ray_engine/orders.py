"""What goes to a Ray worker and what comes back. No key is in any of it: keys come from the worker's environment."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path

from harness.core.errors import OutOfQuota, Refused, UsageError
from harness.core.records import Query, Rollout
from harness.core.settings import Settings
from harness.endpoints.refused_settings import SettingLesson
from harness.rollouts.loading import LoadedAgent, load_agent


@dataclass(frozen=True)
class AgentPlace:
    """Where a worker finds the agent: by a word from a folder, or the agent itself where it has no file."""

    name: str
    word: str = ""
    here: Path | None = None
    """The folder from which the word is resolved; None: the worker's own."""
    itself: LoadedAgent | None = None

    def load(self) -> LoadedAgent:
        """Return the agent. Raises UsageError as `load_agent`."""
        if self.itself:
            return self.itself
        return replace(load_agent(self.word, self.here or Path.cwd()), name=self.name)


@dataclass(frozen=True)
class WorkerJob:
    """What a worker needs to know of a run."""

    run_id: str
    settings: Settings
    """The run's, with the address that the agent's models are at; no password is in the address."""
    agent: AgentPlace
    _: KW_ONLY
    instructions: str | None
    """What the starting agent is told in place of its own instructions."""
    at_endpoint: bool
    """Whether the agent's models are at an endpoint, and not the agent's own or embedded."""
    has_key: bool
    """Whether the endpoint is asked with a key, which the worker's environment must hold then."""
    version: str
    """The harness's version, which must be the worker's, too."""


@dataclass(frozen=True)
class RolloutOrder:
    """A rollout that a worker is to make now."""

    number: int
    query: Query
    index: int
    leads: bool
    """Whether the other rollouts of the run wait for its first reply."""
    refused: tuple[SettingLesson, ...] = ()
    """What models have refused in any worker so far."""


@dataclass(frozen=True)
class MadeRollout:
    """What became of an order: a record and the texts that the record names, or why there is none."""

    rollout: Rollout | None = None
    texts: Mapping[str, str] | None = None
    """Large texts under their sha256, redacted."""
    refusal: str | None = None
    """Why the run cannot go on."""
    refused_by: str = ""

    @property
    def error(self) -> UsageError:
        """What ends the run in place of a record."""
        kind = {"Refused": Refused, "OutOfQuota": OutOfQuota}.get(self.refused_by, UsageError)
        return kind(self.refusal or "a Ray worker gave no rollout")
