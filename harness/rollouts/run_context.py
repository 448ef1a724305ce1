"""What all rollouts of a run share: the agent, its models, the store, what holds back spending, the files they write.

An audit hook looks at each file that Python opens for writing. Python cannot take it away again: it is added when
the first run begins, and does nothing outside of a rollout. What child processes write is not seen.
"""

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import agents
from agents import ModelProvider, RunConfig

from harness.archive import run_files
from harness.archive.store import Store
from harness.core.errors import on_a_line
from harness.core.progress import NO_DEADLINE, Clock, Deadline, Progress, StopSign
from harness.core.records import Sampling
from harness.core.settings import Settings
from harness.endpoints.address import Endpoint
from harness.endpoints.costs import UNKNOWN_ADDRESS, Ceiling, PriceList, price_list
from harness.endpoints.gate import EndpointState
from harness.rollouts.checkpoints import Attempted
from harness.rollouts.lifecycle import set_within
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.models import LoopModels
from harness.rollouts.recorder import CallBudget

OnWrite = Callable[[str, str], None]
"""Called with the path that is written, and the rollout that writes it."""
_writing: ContextVar[Callable[[str], None] | None] = ContextVar("harness_writing", default=None)
_FOR_WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
_WITHIN = {
    str(run_files.__file__),
    str(Path(agents.__file__).parent / "sandbox" / "sandboxes" / "_unix_local_file_ops.py"),
}
"""Code that opens files by their names within a folder, which an event does not tell."""
_MOST = 10_000
"""Paths that are remembered: a run's temporary files would only fill the memory."""
_MOST_NOTES = 5


class WrittenFiles:
    """Notes once a path that two rollouts of a run write it."""

    def __init__(self, note: Callable[[str], None], advice: str) -> None:
        """Call `note` with what the user should read; `advice` says how to keep rollouts apart."""
        self._note, self._advice = note, advice
        self._writers: dict[str, str] = {}
        self._noted: set[str] = set()

    def wrote(self, path: str, rollout: str) -> None:
        """Note that a rollout opens a path for writing."""
        first = self._writers.setdefault(path, rollout)
        if len(self._writers) > _MOST:
            self._writers.pop(next(iter(self._writers)), None)
        if first != rollout and path not in self._noted and len(self._noted) < _MOST_NOTES:
            self._noted.add(path)
            self._note(f"rollouts {first} and {rollout} both write {on_a_line(path)}: {self._advice}")


def writes_told(on_write: OnWrite, rollout: str) -> AbstractContextManager[None]:
    """In this task, and in the tasks and threads that it starts, tell `on_write` of each path opened for writing."""
    _add_hook()

    def wrote(path: str) -> None:
        on_write(path, rollout)

    return set_within(_writing, wrote)


@cache
def _add_hook() -> None:
    sys.addaudithook(_look)


def _look(event: str, args: tuple[Any, ...]) -> None:
    if event == "open":
        path, _, flags = args
        is_written = isinstance(flags, int) and flags & _FOR_WRITING
    elif event == "sqlite3.connect":
        path, is_written = args[0], True
    else:
        return
    wrote = _writing.get()
    if not (is_written and wrote) or not isinstance(path, str | bytes | os.PathLike):
        return
    name = os.fsdecode(path)  # pyright: ignore[reportUnknownArgumentType]
    if not name or name.startswith(("/dev/", ":memory:", "file:")):
        return
    frame = inspect.currentframe()
    if not Path(name).is_absolute() and frame and frame.f_back and frame.f_back.f_code.co_filename in _WITHIN:
        return  # the archive's own, or in a workspace, which no other rollout has
    if not (file := Path(name)).is_dir():  # the folder of a temporary file
        wrote(str(file.absolute()))


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
