"""What a Python call takes from outside: the environment and the clock, each read once a call."""

from harness.core.clock import Clock, now
from harness.core.progress import Progress, Silent
from harness.core.settings import Settings
from harness.core.settings_sources import environment
from harness.endpoints import Credentials
from harness.pipeline import Surroundings


def credentials_of(settings: Settings, surroundings: Surroundings) -> Credentials:
    """Return the keys in force for settings that the caller gave."""
    return Credentials.naming(surroundings.environ, settings.base_url, settings.judge_base_url)


def surroundings_of(progress: Progress | None, clock: Clock = now) -> Surroundings:
    """Read the environment; without a watcher nobody is told of progress."""
    return Surroundings(environment(), clock, progress or Silent())
