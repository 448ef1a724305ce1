"""Comparing agents that are rolled out for it: runs first, then the comparison, and only then anything is spent."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from harness.archive.attestations import withdraw
from harness.archive.run_store import ComparisonStore, RunStore
from harness.core.errors import HarnessError
from harness.core.records import Query
from harness.pipeline.comparing.archived import new_comparison_info
from harness.pipeline.comparing.compare import ComparisonResult, compare_runs
from harness.pipeline.comparing.plan import CompareOptions, plan_comparison
from harness.pipeline.comparing.quote import ComparisonQuote, quote_comparison
from harness.pipeline.comparing.resuming import resume_comparison
from harness.pipeline.comparing.roll_out_quote import AnySide, RollOutQuote, quote_roll_out
from harness.pipeline.comparing.rolling_out import create_run
from harness.pipeline.comparing.sides import open_sides
from harness.pipeline.resolve import redactor_of
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.trust import attested
from harness.rollouts.loading import LoadedAgent


async def quote_sides(
    sides: Sequence[AnySide], queries: Sequence[Query], run_env: RunEnvironment, options: CompareOptions
) -> ComparisonQuote | RollOutQuote:
    """Tell what `compare_sides` takes, without buying or writing anything. Raises UsageError."""
    if folders := _all_runs(sides):
        return await quote_comparison(folders, run_env, options)
    return quote_roll_out(sides, len(queries), run_env, options)


def _all_runs(sides: Sequence[AnySide]) -> list[Path] | None:
    """Return the folders of the sides if all of them are runs."""
    folders = [side for side in sides if isinstance(side, Path)]
    return folders if len(folders) == len(sides) else None


async def compare_sides(
    sides: Sequence[AnySide],
    queries: Sequence[Query],
    run_env: RunEnvironment,
    options: CompareOptions,
    here: Path,
) -> ComparisonResult:
    """Roll out the sides that are agents, each in a run of its own and asked `queries`, and compare all sides.

    Runs and comparison are on disk before anything is spent, so that resuming the comparison does all that is missing.
    With nothing spent they are taken away again if an error ends the work. Raises as `compare_runs`.
    """
    if folders := _all_runs(sides):
        return await compare_runs(folders, run_env, options)
    quote_roll_out(sides, len(queries), run_env, options)  # refuses what cannot be compared
    made: dict[Path, LoadedAgent | None] = {}
    try:
        folders = [_folder_of(side, queries, run_env, made) for side in sides]
        comparison = _begun(folders, list(made), run_env, options)
        made[comparison] = None
        agents = {folder.name: agent for folder, agent in made.items() if agent}
        result = await resume_comparison(
            comparison, run_env, here=here, runs_dir=options.runs_dir, agents=agents, folders=folders
        )
    except (HarnessError, ExceptionGroup):
        _take_away(made, run_env)
        raise
    assert result, "a comparison that has just begun has work to do"  # noqa: S101 - for the type checker
    return result


def _folder_of(
    side: AnySide, queries: Sequence[Query], run_env: RunEnvironment, made: dict[Path, LoadedAgent | None]
) -> Path:
    """Return the run of a side; for an agent one is made, which is noted in `made`."""
    if isinstance(side, Path):
        return side
    folder = create_run(side, queries, run_env)
    made[folder] = side.agent.loaded
    return folder


def _begun(folders: Sequence[Path], made: Sequence[Path], run_env: RunEnvironment, options: CompareOptions) -> Path:
    """Write a comparison's compare.json; the sides in `made` are still to be rolled out."""
    with open_sides(folders) as readers:
        plan = plan_comparison(readers, run_env.environ, replace(options, allow_offline=True))
        plan = replace(
            plan,
            sides=tuple(
                side.model_copy(update={"to_run": folder in made})
                for side, folder in zip(plan.sides, folders, strict=True)
            ),
        )
        redact = redactor_of(None, plan.trust.without_patterns(plan.judging.settings), run_env.environ)
        info = new_comparison_info(plan, run_env.clock, redact)
        with ComparisonStore.create(options.runs_dir, info, redact=redact) as store, attested(store, run_env):
            return store.folder


def _take_away(made: Iterable[Path], run_env: RunEnvironment) -> None:
    """Remove what was just made, unless anything of it was paid for."""
    made = list(made)
    if any(_was_paid_for(folder) for folder in made):
        return
    for folder in made:
        is_run = (folder / "run.json").exists()
        with (RunStore if is_run else ComparisonStore)(folder, run_env.clock()) as store:
            store.discard()
        withdraw(folder.name, run_env.environ)


def _was_paid_for(folder: Path) -> bool:
    return any((folder / part).is_dir() for part in ("rollouts", "verdicts"))
