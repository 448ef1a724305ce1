"""Sides that are agents: runs that are made for a comparison, and rolled out as runs that are resumed are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.archive.attestations import read_attestation
from harness.archive.reader import RunReader
from harness.archive.run_state import MissingWork, find_missing_work
from harness.archive.run_store import RunStore
from harness.core.errors import UsageError
from harness.core.progress import PartOfWork
from harness.core.records import Query
from harness.core.settings import Settings
from harness.core.settings_sources import load
from harness.core.wording import option
from harness.pipeline.plan import NamedAddresses, Prepared
from harness.pipeline.resolve import redactor_of
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.run_info import new_run_info
from harness.pipeline.runs import RunResult, resume_run
from harness.pipeline.trust import agent_of_run, attested
from harness.rollouts.loading import LoadedAgent

Agents = Mapping[str, LoadedAgent]
"""The agents of runs, by the runs' ids, where they are loaded already."""


def settings_of_side(values: Mapping[str, Any], pairs: int, runs_dir: Path) -> Settings:
    """Return the settings of a side that is rolled out: unless told otherwise an anchor, and a sample for each pair.

    It is judged only against the other sides. Raises UsageError.
    """
    kept = {name: value for name, value in values.items() if name != "budget"}
    needed = {"runs_dir": runs_dir, "judge": "pairwise", "topology": "none"}
    return load({"n": pairs + 1, **kept, **needed})


def queries_asked(sides: Sequence[object]) -> list[Query]:
    """Return the queries of the first run among the sides, where no others are named. Raises UsageError without one."""
    run = next((side for side in sides if isinstance(side, Path)), None)
    if run is None:
        raise UsageError(f"agents are compared on queries: name them with {option('queries', 'FILE')}")
    with RunReader(run) as reader:
        return list(reader.queries())


def create_run(prepared: Prepared, queries: Sequence[Query], run_env: RunEnvironment) -> Path:
    """Make a run with all its queries written down and nothing spent: `resume_run` rolls it out. Raises UsageError."""
    loaded, settings = prepared.agent.loaded, prepared.settings
    redact = redactor_of(loaded, settings, run_env.environ)
    info = new_run_info(prepared, run_env.clock, len(queries), redact)
    with (
        RunStore.create(settings.runs_dir, info, queries, redact=redact) as store,
        attested(store, run_env, loaded),
    ):
        return store.folder


@dataclass
class RolledOut:
    """What rolling the sides out took, and what stopped it."""

    spent: float = 0.0
    stopped: str | None = None
    given_up: str | None = None

    def of_the_whole(self, stopped: str) -> str:
        """Return why a part was stopped, whose ceiling was what the parts before it had left of --max-cost."""
        if not self.spent:
            return stopped
        return f"${self.spent:.4f} of {option('max_cost')} went to rollouts before, and {stopped}"

    @property
    def cut_short(self) -> bool:
        """Whether rollouts are missing that a resuming would run."""
        return self.stopped is not None or self.given_up is not None


async def roll_out(
    folders: Sequence[Path],
    agents: Agents,
    run_env: RunEnvironment,
    changes: Mapping[str, Any],
    named: NamedAddresses,
    here: Path,
) -> RolledOut:
    """Run what is missing of the runs in `folders`, one after the other; --max-cost holds for all together.

    An agent that is not in `agents` is found as `resume` finds it. Raises UsageError, Refused.
    """
    rolled_out = RolledOut()
    missing = {folder: work for folder in folders if (work := _missing(folder)).rollouts}
    whole = sum(work.count for work in missing.values())
    run_env.progress.total("rollouts", whole, whole)
    for folder in missing:
        part = replace(run_env, progress=PartOfWork(run_env.progress))
        left = _less(changes, folder, rolled_out.spent)
        agent = _agent_of(folder, agents, run_env, here)
        result = await resume_run(folder, agent, part, changes=left, named=named)
        _count(rolled_out, result)
        if rolled_out.cut_short or run_env.stop.asked:
            break
    return rolled_out


def _missing(folder: Path) -> MissingWork:
    with RunReader(folder) as reader:
        return find_missing_work(reader)


def _agent_of(
    folder: Path, agents: Agents, run_env: RunEnvironment, here: Path
) -> LoadedAgent | Callable[[], LoadedAgent]:
    with RunReader(folder) as reader:
        info, attestation = reader.info, read_attestation(reader, run_env.environ)
    return agents.get(info.id) or (lambda: agent_of_run(info, attestation, here, "resume", folder))


def _less(changes: Mapping[str, Any], folder: Path, spent: float) -> Mapping[str, Any]:
    """Return the changes with what is left of --max-cost, which is today's, else the run's own."""
    with RunReader(folder) as reader:
        ceiling = changes.get("max_cost", reader.settings.max_cost)
    return changes if ceiling is None else {**changes, "max_cost": max(0.0, ceiling - spent)}


def _count(rolled_out: RolledOut, result: RunResult | None) -> None:
    if result:
        rolled_out.stopped = result.stopped and rolled_out.of_the_whole(result.stopped)
        rolled_out.spent += result.spent
        rolled_out.given_up = result.given_up
