"""Whether the engine that the settings name can be used here: looked at before anything is spent."""

from importlib.util import find_spec

from harness.core.errors import UsageError
from harness.core.settings import Settings
from harness.core.wording import option


def check_engine(settings: Settings) -> None:
    """Raise UsageError for `--engine ray` without Ray, and for a cluster's address without that engine."""
    if settings.engine == "ray" and find_spec("ray") is None:
        raise UsageError(f"{option('engine', 'ray')} needs Ray: pip install 'arena-harness[ray]'")
    if settings.engine != "ray" and settings.ray_address:
        raise UsageError(
            f"{option('ray_address', settings.ray_address)} does nothing without {option('engine', 'ray')}"
        )
