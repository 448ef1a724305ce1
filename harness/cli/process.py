"""What a command does to its process: Ctrl-C becomes an error, stdout stays free for results, logs are silenced."""

import logging
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from typing import TypeVar

import anyio

from harness.cli.progress_bars import ProgressBars
from harness.core.errors import Interrupted
from harness.pipeline import what_is_kept

_T = TypeVar("_T")
_LOGGERS = ("openai", "openai.agents", "stamina", "httpx", "httpx2")


def run_interruptible(work: Callable[[], Awaitable[_T]], bars: ProgressBars) -> _T:
    """Run `work`. Raises Interrupted, saying what is kept, on Ctrl-C."""
    try:
        with redirect_stdout(sys.stderr):  # what an agent's tools print must not stand among the results
            return anyio.run(bars.around, work)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted. {what_is_kept(bars.folder)}") from None


def silence_logs(*, verbose: bool = False) -> None:
    """Keep the SDK's and the retry library's own log off stderr: what matters of it is in the records."""
    if not verbose:
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
