"""What all rollouts of a run share: the agent, its models, the store, what holds back spending."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agents import ModelProvider, RunConfig

from harness.archive.store import Store
from harness.core.progress import NO_DEADLINE, Clock, Deadline, Progress, StopSign
from harness.core.records import Sampling
from harness.core.settings import Settings
from harness.endpoints.address import Endpoint
from harness.endpoints.costs import UNKNOWN_ADDRESS, Ceiling, PriceList, price_list
from harness.endpoints.gate import EndpointState
from harness.rollouts.checkpoints import Attempted
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.models import LoopModels
from harness.rollouts.recorder import CallBudget
from harness.rollouts.written_files import OnWrite


@dataclass(frozen=True)
class ModelSource:
    """Where a run's models come from. `endpoint` None: the embedded model if `offline`, else models of the agent's."""

    endpoint: Endpoint | None
    provider: ModelProvider
    offline: bool
    state: EndpointState
    """What the run has learnt about its model servers."""
    elsewhere: Callable[[], LoopModels]
    """Makes the same models anew, for another event loop."""

    @property
    def base_url(self) -> str | None:
        """The address by which the models are priced."""
        return self.endpoint.base_url if self.endpoint else UNKNOWN_ADDRESS


@dataclass(frozen=True)
class RunContext:
    """What all rollouts of a run share."""

    loaded: LoadedAgent
    settings: Settings
    models: ModelSource
    run_id: str
    store: Store
    progress: Progress
    clock: Clock
    ceiling: Ceiling = field(default_factory=Ceiling)
    stop: StopSign = field(default_factory=StopSign)
    deadline: Deadline = NO_DEADLINE
    configs: dict[Sampling, RunConfig] = field(default_factory=dict[Sampling, RunConfig])
    """The SDK's run configuration for each kind of rollout, made once: making one takes most of a millisecond."""
    alternatives: Sequence[ModelSource] = ()
    """The servers of the run's models, where there are several: each rollout goes to one of them."""
    own_state: Callable[[], Any] = lambda: None
    """Returns what a rollout has outside of the context that its next attempt will not have; None for nothing."""
    attempts_before: Callable[[str, int], Attempted | None] = lambda _query, _index: None
    """Returns what the archive has of an attempt at a rollout, by query and index, to go on from."""
    calls: CallBudget = field(default_factory=CallBudget)
    """How many model calls branches may still make."""
    noted: set[str] = field(default_factory=set[str])
    """Agents of whose own temperature it has been said that it gives way, and NO_CONTEXT where that has been said."""
    on_write: OnWrite = lambda _path, _rollout: None
    """Told of each file that a rollout opens for writing."""
    policy_version: Callable[[], int] | None = None
    """Tells which version of the policy the server samples from now; None: nobody trains it."""

    @property
    def given_up(self) -> str | None:
        """Why no rollout is begun any more: every server of the run's models was given up; None while one is asked."""
        reasons = [source.state.gate.down_for("agent") for source in self.alternatives or (self.models,)]
        return None if None in reasons else "; ".join(map(str, reasons))

    @cached_property
    def prices(self) -> PriceList:
        """What tokens cost."""
        return price_list(self.settings)
