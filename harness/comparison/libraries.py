"""The statistics libraries, which the extra `compare` installs: imported when a figure is first worked out."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from harness.core.errors import UsageError

_LIBRARIES = ("scipy", "statsmodels")


def check_libraries() -> None:
    """Raise UsageError, naming what to install, where a library is missing: before anything is spent."""
    for package in _LIBRARIES:
        if find_spec(package) is None:
            raise UsageError(f"comparing needs {package}: pip install 'arena-harness[compare]'")


def statistics_module(name: str) -> Any:
    """Return a module of scipy or statsmodels. Raises UsageError, naming what to install, where it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != name.partition(".")[0]:
            raise
        package = name.partition(".")[0]
        raise UsageError(f"comparing needs {package}: pip install 'arena-harness[compare]'") from error
