"""What a command takes from outside, read once by the command or by the Python API and passed on from there."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.core.clock import Clock, now
from harness.core.progress import Progress, Silent


@dataclass(frozen=True)
class Surroundings:
    """Environment variables, the clock and the watcher. The variables hold keys, so they are not in the repr."""

    environ: Mapping[str, str] = field(repr=False)
    clock: Clock = now
    progress: Progress = field(default_factory=Silent)
