"""What a command takes from outside, read once by the command or by the Python API and passed on from there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from harness.core.clock import NO_DEADLINE, Clock, Deadline, now
from harness.core.progress import Progress, Silent, StopSign
from harness.endpoints.gate import Gates


@dataclass(frozen=True)
class RunEnvironment:
    """Environment variables, the clock, the watcher, and when work must be over.

    The variables hold keys, so they are not in the repr.
    """

    environ: Mapping[str, str] = field(repr=False)
    clock: Clock = now
    progress: Progress = field(default_factory=Silent)
    stop: StopSign = field(default_factory=StopSign)
    deadline: Deadline = NO_DEADLINE

    @cached_property
    def gates(self) -> Gates:
        """The gates of the endpoints: what is learnt of an endpoint holds for all of the command's calls to it."""
        return Gates(self.progress)

    @property
    def lateness(self) -> str:
        """In words: that the deadline was over, and which error of an endpoint came last."""
        error = self.gates.last_errors
        return f"the deadline of {self.deadline.seconds:g} s was over" + (f"; the last error: {error}" if error else "")
