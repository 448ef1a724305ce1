"""What a command takes from outside: read once by the command or by the Python API, and passed on from there."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from harness.core.errors import UsageError, option
from harness.core.progress import NO_DEADLINE, Clock, Deadline, Progress, Silent, StopSign, now
from harness.core.settings import Settings
from harness.endpoints.gate import Gates
from harness.rollouts.maker import Alongside

if TYPE_CHECKING:
    from harness.pipeline.rank_groups import Taker

_PACKAGES = ("arena-harness", "openai-agents", "openai", "pydantic")


@dataclass(frozen=True)
class RunEnvironment:
    """Environment variables (with keys: not in the repr), the clock, the watcher, and when work must be over."""

    environ: Mapping[str, str] = field(repr=False)
    clock: Clock = now
    progress: Progress = field(default_factory=Silent)
    stop: StopSign = field(default_factory=StopSign)
    deadline: Deadline = NO_DEADLINE
    policy_version: Callable[[], int] | None = None
    """Tells which version of a trained policy the agent's server samples from now; None: nobody trains it."""
    taker: "Taker | None" = None
    """Who takes each group of the run as it comes in; None: each is ranked, and that is all."""
    side: Alongside | None = None
    """What the run shares with others that are made side by side with it; None: it is made alone."""

    judge_busy_s: float = math.inf
    """For so long a judge that answers with 429s alone, which name no time, is waited for; then it counts as out."""

    @cached_property
    def gates(self) -> Gates:
        """The gates of the endpoints: what is learnt of an endpoint holds for all of the command's calls to it."""
        return Gates(self.progress, self.clock, self.judge_busy_s)

    @property
    def lateness(self) -> str:
        """In words: that the deadline was over, and which error of an endpoint came last."""
        error = self.gates.last_errors
        return f"the deadline of {self.deadline.seconds:g} s was over" + (f"; the last error: {error}" if error else "")


@cache
def package_versions() -> dict[str, str]:
    """Return the versions of the packages that decide what a run does."""
    return {name: version(name) for name in _PACKAGES}


def check_engine(settings: Settings) -> None:
    """Raise UsageError for `--engine ray` without Ray, and for what does nothing with the engine."""
    if settings.engine == "ray" and settings.isolate == "process":
        raise UsageError(f"{option('isolate', 'process')} with {option('engine', 'ray')}: leave out one of the two")
    if settings.memory is not None and settings.isolate != "process":
        without = f"does nothing without {option('isolate', 'process')}"
        raise UsageError(f"{option('memory', settings.memory)} {without}: one process makes all rollouts then")
    if settings.engine == "ray" and find_spec("ray") is None:
        raise UsageError(f"{option('engine', 'ray')} needs Ray: pip install 'arena-harness[ray]'")
    if settings.engine != "ray" and settings.ray_address:
        raise UsageError(
            f"{option('ray_address', settings.ray_address)} does nothing without {option('engine', 'ray')}"
        )
    if settings.ship and settings.engine != "ray":
        raise UsageError(f"{option('ship', settings.ship[0])} does nothing without {option('engine', 'ray')}")
