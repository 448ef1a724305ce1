"""What a Python call takes from outside, what its arguments must be, and how records are handed back."""

import random
import re
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from types import ModuleType
from typing import Any, cast, get_args

import anyio
from agents import Agent

from harness.archive.folder_store import VerdictFolder
from harness.archive.store import MemoryStore, RunStore, Store, VerdictStore
from harness.core.errors import as_spoken, from_python, option
from harness.core.progress import Clock, Logged, Progress, now
from harness.core.python_door import ArgumentRules, awaited_door, like, of_kind, plain_door
from harness.core.rankings import AnyVerdict, GroupRanking, Unjudged, Unscored
from harness.core.records import Failure, Group, Rollout
from harness.core.redaction import Redactor
from harness.core.settings import Settings
from harness.core.settings_sources import environment
from harness.endpoints.costs import Ceiling
from harness.endpoints.credentials import Credentials
from harness.formats.trajectory_files import Format
from harness.judging.judges import Judge
from harness.judging.rubric import Rubric, read_rubric, rubric_source
from harness.pipeline.judge_inputs import load_named_rubric, rubric_for_run
from harness.pipeline.resolve import check_prices, make_ceiling, make_redactor, resolve_judge
from harness.pipeline.run_environment import RunEnvironment
from harness.report.summary.rollouts import open_reasons
from harness.rollouts.app_parts import AppAgent
from harness.rollouts.loading import LoadedAgent, agent_files
from harness.tournament.ranker import METHODS, AnyRubric


def loadable_agents() -> Sequence[str]:
    """Return the names of the agents that have a file: in agents_config/ of the working folder, and the packaged."""
    return sorted({file.stem for file in agent_files(Path.cwd())})


@from_python()
def text_of_rubric(rubric: str | Path) -> str:
    """Return the text of a packaged rubric, to begin one of your own with, or of a file. Raises UsageError."""
    return rubric_source(str(rubric))


@from_python()
def check_rubric(rubric: str | Path) -> Sequence[str]:
    """Return everything that is wrong with a rubric, as `harness rubric check` prints it; nothing for a good one.

    Raises UsageError where there is no such rubric.
    """
    checked = read_rubric(rubric_source(str(rubric)))
    return [] if isinstance(checked, Rubric) else [f"{rubric}:{fault.line}: {fault.text}" for fault in checked]


def why_missing(ranking: GroupRanking, store: VerdictStore, run_env: RunEnvironment, ceiling: Ceiling) -> str | None:
    """Return what a failed verdict says, else why none was bought, as far as that is known."""
    why = next(iter(open_reasons(_tried(store), [ranking])), None) if ranking.failed_verdicts else None
    why = why and re.sub("^it ", "the judge's reply ", why)
    late = run_env.lateness if anyio.current_time() >= run_env.deadline.at else None
    unsaid = run_env.gates.last_errors if ranking.failed_verdicts else None  # all calls left an endpoint that is down
    return why or late or run_env.gates.given_up or ceiling.stopped or unsaid


def _tried(store: VerdictStore) -> Iterable[AnyVerdict]:
    match store:
        case MemoryStore():
            return store.verdicts
        case VerdictFolder():
            return store.failed
        case RunStore():
            return store.reader.verdicts()
        case _:
            return ()


def failures_of_missing(ranking: GroupRanking, store: VerdictStore) -> tuple[Failure, ...]:
    """Return the failures of the verdicts that a ranking still waits for, as far as they were asked for."""
    newest = {v.key: v for v in _tried(store) if v.key in ranking.failed_verdicts}
    return tuple(verdict.failure for verdict in newest.values() if isinstance(verdict, Unjudged | Unscored))


@from_python()
def handed_out(group: Group) -> Group:
    """Return a group whose failures are worded for Python."""
    return group.model_copy(update={"rollouts": tuple(map(_spoken_rollout, group.rollouts))})


@from_python()
def ranking_handed_out(ranking: GroupRanking) -> GroupRanking:
    """Return a ranking whose notes are worded for Python."""
    return ranking.model_copy(update={"notes": tuple(map(as_spoken, ranking.notes))})


def _spoken_rollout(rollout: Rollout) -> Rollout:
    if rollout.failure is None or (message := as_spoken(rollout.failure.message)) == rollout.failure.message:
        return rollout
    return rollout.model_copy(update={"failure": rollout.failure.model_copy(update={"message": message})})


AnyAgent = Agent[Any] | Callable[..., Any] | ModuleType | AppAgent | Path | str
"""An agent in Python: an Agent, a function that builds one, a module like an agent's file, what --agent takes, or an
AppAgent of one of these."""


def named_credentials(settings: Settings, run_env: RunEnvironment) -> Credentials:
    """Return the keys in force for settings that the caller gave."""
    return Credentials.naming(run_env.environ, settings.base_url, settings.judge_base_url)


def read_run_env(progress: Progress | None, clock: Clock = now) -> RunEnvironment:
    """Read the environment; without a watcher the log gets the notes."""
    return RunEnvironment(environment(), clock, progress or Logged())


async def read_rubric_aside(settings: Settings, loaded: LoadedAgent | None = None) -> AnyRubric:
    """Return the rubric, read in a thread where it is a file: that takes a child process. Raises UsageError."""
    word = settings.rubric or (loaded.rubric if loaded else None)
    read = partial(load_named_rubric, settings) if loaded is None else lambda: rubric_for_run(loaded, settings)[1]
    is_packaged = word is None or METHODS[settings.judge].is_packaged(word)
    return read() if is_packaged else await anyio.to_thread.run_sync(read)


class OpenVerdicts:
    """A folder of verdicts that is open as long as anybody holds this."""

    def __init__(self, folder: VerdictFolder) -> None:
        """Close the folder when nobody holds this any more, or when the process ends."""
        self.folder = folder
        weakref.finalize(self, folder.close)


_OPEN = weakref.WeakValueDictionary[Path, OpenVerdicts]()
"""The folders that this process has open: a folder has one lock, and a process may judge in several places."""


@dataclass(frozen=True)
class SharedJudging:
    """Where verdicts are kept, if they are, and what may be spent."""

    verdicts: OpenVerdicts | None
    ceiling: Ceiling
    redact: Redactor

    def store(self) -> VerdictFolder | MemoryStore:
        """Return the folder, else a store of its own for one group."""
        return self.verdicts.folder if self.verdicts else MemoryStore(self.redact)


def share_judging(settings: Settings, folder: Path | None = None) -> SharedJudging:
    """Open the folder of verdicts, or make it; one that this process has open is shared.

    Raises UsageError for a judge that cannot be used or has no price under a ceiling; ArchiveLocked, CannotWrite and
    ArchiveDamaged for the folder.
    """
    run_env = read_run_env(None)
    with from_python():
        judge = resolve_judge(settings, named_credentials(settings, run_env), None, offline=settings.offline)
        check_prices(settings, judge)
        ceiling = make_ceiling(settings, judge)
        redact = make_redactor(None, settings, run_env.environ)
        if folder is None:
            return SharedJudging(None, ceiling, redact)
        if (verdicts := _OPEN.get(folder.resolve())) is None:
            verdicts = OpenVerdicts(VerdictFolder(folder.resolve(), run_env.clock(), redact=redact))
            _OPEN[folder.resolve()] = verdicts
        return SharedJudging(verdicts, ceiling, redact)


_LIKE_JUDGE = like(Judge, "a model's name, or an object with the methods of")


def _judge(value: Any) -> str | None:
    if isinstance(value, str):
        return None if value.strip() else "give a model's name"
    if isinstance(value, list | tuple):
        return f"give one model's name; {option('judge_model')} takes the names of a jury"
    if wrong := _LIKE_JUDGE(value):
        return wrong
    texts = ("identity", "rubric_label") if value is not None else ()
    unlike = [name for name in texts if not isinstance(getattr(value, name), str)]
    return f"its {' and '.join(unlike)} must be texts" if unlike else None


def _run(value: Any) -> str | None:
    named = value is None or isinstance(value, str | Path) or isinstance(getattr(value, "path", None), Path)
    return None if named else "give a harness.Run, a run's folder or id, or 'last'"


def _files(value: Any) -> str | None:
    paths = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
    return None if all(isinstance(path, str | Path) for path in paths) else "give a path, or a list of paths"


def _format(value: Any) -> str | None:
    words = get_args(Format)
    return None if value is None or value in words else f"give one of {', '.join(map(repr, words))}"


_YES_NO = of_kind(bool, instead="give True or False")
_WHOLE = of_kind(Integral, instead="give a whole number")
_WHOLE_OR_NONE = of_kind(Integral, instead="give a whole number", optional=True)
_SEVERAL = of_kind(list, tuple, instead="give a list", optional=True)
_RULES: ArgumentRules = {
    "n": _WHOLE,
    "rollout": _WHOLE_OR_NONE,
    "budget": _WHOLE,
    "rng": of_kind(Integral, random.Random, instead="give a whole number or a random.Random"),
    "deadline": of_kind(Real, instead="give a number of seconds above 0", optional=True),
    "judge": _judge,
    "store": like(Store, "an object with the methods of"),
    "progress": like(Progress, "an object with the methods of"),
    "clock": lambda value: None if callable(value) else "give a function that returns the time",
    "tools": _SEVERAL,
    "reuse": of_kind(list, tuple, instead="give a list of runs"),
    "pairs": _WHOLE,
    "task": of_kind(str, instead="give the task's text", optional=True),
    "cluster": of_kind(str, instead="give a key of the queries' metadata", optional=True),
    "runs_dir": of_kind(str, Path, instead="give a folder", optional=True),
    "run": _run,
    "runs": of_kind(list, tuple, instead="give a list of runs"),
    "output": of_kind(str, Path, instead="give a run's name, or a path", optional=True),
    "files": _files,
    "format": _format,
    "name": of_kind(str, instead="give a name"),
    "rubric": of_kind(str, instead="give the rubric's text", optional=True),
    **dict.fromkeys(("debug", "swallow_exceptions", "first_is_anchor", "free", "repair", "live_tools"), _YES_NO),
    **dict.fromkeys(("retry_failed", "accept_changed_agent", "trust_archive", "allow_offline"), _YES_NO),
}

door = partial(awaited_door, rules=_RULES)
"""Makes a function of the pipeline's a function of the API."""
door_at_once = partial(plain_door, rules=_RULES)
"""Makes a function that is not awaited one of the API."""
