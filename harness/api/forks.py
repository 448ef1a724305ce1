"""Forks in Python: recorded rollouts taken up again."""

from pathlib import Path
from typing import Unpack

from harness.api.archived import AnyRun, Run, find_folder, runs_parent
from harness.api.outside import AnyAgent, door, read_run_env
from harness.api.runs import delivered
from harness.core.fork_rules import ForkRules
from harness.core.progress import Clock, Progress, now
from harness.core.settings_sources import check_names
from harness.core.settings_types import ResumeSettings
from harness.core.sync import in_step
from harness.pipeline.app_checks import loaded_agent
from harness.pipeline.forking import fork_run, prepare_fork
from harness.pipeline.plan import NamedAddresses


@door
async def fork(
    run: AnyRun = "last",
    rules: ForkRules | None = None,
    agent: AnyAgent | None = None,
    *,
    trust_archive: bool = False,
    report: bool = True,
    runs_dir: str | Path | None = None,
    progress: Progress | None = None,
    clock: Clock = now,
    **settings: Unpack[ResumeSettings],
) -> Run:
    """Take recorded rollouts up again where `rules` say, as `harness fork` does, and return the new run.

    `agent` and `settings` are as for `resume`. Raises UsageError, also for an agent that is no longer the run's;
    Refused, NothingRankable, CannotWrite, ArchiveLocked, ArchiveDamaged.
    """
    check_names(settings, ResumeSettings.__annotations__)
    run_env, loaded = read_run_env(progress, clock), None if agent is None else loaded_agent(agent)
    named, changes = NamedAddresses.split({name: value for name, value in settings.items() if value is not None})
    made = await prepare_fork(
        find_folder(run, runs_dir),
        rules or ForkRules(),
        loaded,
        run_env,
        trust_archive=trust_archive,
        changes=changes,
        named=named,
    )
    result = await fork_run(made, run_env, runs_parent(runs_dir))
    return delivered(result, report=report)


fork_sync = in_step(fork)
