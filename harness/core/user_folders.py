"""The user's own folders outside of any run: what this machine remembers, and caches that may be deleted."""

from collections.abc import Mapping
from pathlib import Path

_NAME = "arena-harness"


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return where this machine keeps its own record of runs: `$XDG_STATE_HOME/arena-harness`. It may not exist yet."""
    return _folder(environ, "XDG_STATE_HOME", ".local/state")


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return where caches are: `$XDG_CACHE_HOME/arena-harness`. It may not exist, and may be deleted at any time."""
    return _folder(environ, "XDG_CACHE_HOME", ".cache")


def _folder(environ: Mapping[str, str], variable: str, usual: str) -> Path:
    named = Path(environ.get(variable, ""))
    if named.is_absolute():  # the XDG Base Directory Specification: a relative path is to be ignored
        return named / _NAME
    return home_folder(environ) / usual / _NAME


def home_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's own folder. Raises RuntimeError for a user without one."""
    home = environ.get("HOME")
    return Path(home) if home else Path.home()
