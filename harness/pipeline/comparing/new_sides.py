"""Compares agents that are rolled out for it: makes their runs, then the comparison, and only then spends anything."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.archive.attestations import withdraw
from harness.archive.reader import RunReader
from harness.archive.run_store import ComparisonStore, RunStore
from harness.core.errors import HarnessError, UsageError
from harness.core.records import Query
from harness.core.settings import Settings
from harness.core.settings_sources import load
from harness.core.wording import option
from harness.pipeline.comparing.compare import (
    AnySide,
    ComparisonQuote,
    ComparisonResult,
    RollOutQuote,
    compare_runs,
    quote_plan,
    quote_roll_out,
)
from harness.pipeline.comparing.plan import CompareOptions, new_comparison, open_verdict_sources, plan_comparison
from harness.pipeline.comparing.resuming import resume_comparison
from harness.pipeline.comparing.sides import open_sides
from harness.pipeline.plan import new_run
from harness.pipeline.resolve import make_redactor
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.trust import attested
from harness.rollouts.loading import LoadedAgent


def settings_of_side(values: Mapping[str, Any], pairs: int, runs_dir: Path) -> Settings:
    """Return the settings of a side that is rolled out, to be judged only against the others. Raises UsageError."""
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


async def quote_sides(
    sides: Sequence[AnySide], queries: Sequence[Query], run_env: RunEnvironment, options: CompareOptions
) -> ComparisonQuote | RollOutQuote:
    """Tell what `compare_sides` takes, without buying or writing anything. Raises UsageError."""
    if folders := _all_runs(sides):
        with open_sides(folders) as readers:
            plan = plan_comparison(readers, run_env.environ, options)
            with open_verdict_sources(plan, readers, run_env) as reuse_sources:
                return await quote_plan(plan, readers, reuse_sources, run_env)
    return quote_roll_out(sides, len(queries), run_env, options)


def _all_runs(sides: Sequence[AnySide]) -> list[Path] | None:
    folders = [side for side in sides if isinstance(side, Path)]
    return folders if len(folders) == len(sides) else None


async def compare_sides(
    sides: Sequence[AnySide], queries: Sequence[Query], run_env: RunEnvironment, options: CompareOptions
) -> ComparisonResult:
    """Roll out the sides that are agents, each in a run of its own and asked `queries`, and compare all sides.

    Runs and comparison are on disk before anything is spent; with nothing spent an error takes them away again.
    """
    if folders := _all_runs(sides):
        return await compare_runs(folders, run_env, options)
    quote_roll_out(sides, len(queries), run_env, options)  # refuses what cannot be compared
    made: dict[Path, LoadedAgent | None] = {}
    try:
        folders = list[Path]()
        for side in sides:
            if isinstance(side, Path):
                folders.append(side)
                continue
            loaded = side.agent.loaded
            redact = make_redactor(loaded, side.settings, run_env.environ)
            info = new_run(side, run_env.clock, len(queries), redact)
            creating = RunStore.create(side.settings.runs_dir, info, queries, redact=redact)
            with creating as store, attested(store, run_env, loaded):
                folders.append(store.folder)
            made[store.folder] = loaded
        with open_sides(folders) as readers:
            plan = plan_comparison(readers, run_env.environ, replace(options, allow_offline=True))
            compared = zip(plan.sides, folders, strict=True)
            to_run = tuple(side.model_copy(update={"to_run": folder in made}) for side, folder in compared)
            redact, info = new_comparison(replace(plan, sides=to_run), run_env)
            with ComparisonStore.create(options.runs_dir, info, redact=redact) as store, attested(store, run_env):
                comparison = store.folder
        made[comparison] = None
        agents = {folder.name: agent for folder, agent in made.items() if agent}
        runs_dir = options.runs_dir
        result = await resume_comparison(comparison, run_env, runs_dir=runs_dir, agents=agents, folders=folders)
    except (HarnessError, ExceptionGroup):
        paid_for = any((folder / part).is_dir() for folder in made for part in ("rollouts", "verdicts"))
        for folder in () if paid_for else made:
            is_run = (folder / "run.json").exists()
            with (RunStore if is_run else ComparisonStore)(folder, run_env.clock()) as store:
                store.discard()
            withdraw(folder.name, run_env.environ)
        raise
    assert result, "a comparison that has just begun has work to do"  # noqa: S101 - for the type checker
    return result
