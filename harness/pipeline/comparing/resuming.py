"""Comparisons whose sides are still to be rolled out: begun, and gone on with after a stop."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import anyio

from harness.archive.attestations import withdraw
from harness.archive.comparison_reader import ComparisonInfo, ComparisonReader
from harness.archive.reader import RunReader
from harness.archive.run_info import list_runs
from harness.archive.run_state import find_missing_work
from harness.archive.store import ComparisonStore, RunStore
from harness.archive.typed_records import recorded_settings
from harness.core import errors
from harness.core.comparisons import ComparedSide
from harness.core.progress import PartsOfWork
from harness.core.records import Query
from harness.core.settings import Settings
from harness.core.settings_sources import changed, load
from harness.endpoints.costs import Ceiling
from harness.pipeline.comparing import compare, planning
from harness.pipeline.comparing.sides import compared_sides, match_queries, open_sides
from harness.pipeline.judge_inputs import rubric_as_begun
from harness.pipeline.plan import JudgingPlan, NamedAddresses, new_run, places_of_begun, recorded_judge, with_agents
from harness.pipeline.resolve import make_redactor
from harness.pipeline.run_environment import RunEnvironment, package_versions
from harness.pipeline.runs import RunResult, resume_run
from harness.pipeline.trust import Trust, agent_of_run, attested, trust_in
from harness.pipeline.ways import with_ways
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.maker import Alongside, SideBySide
from harness.transcripts.transcript import check_rendering

_NOT_THERE = "is not there"


async def _roll_out(
    comparison: Path,
    folders: Sequence[Path],
    agents: Mapping[str, LoadedAgent],
    run_env: RunEnvironment,
    changes: Mapping[str, Any],
    named: NamedAddresses,
    spent: float,
) -> compare.ComparisonResult:
    """Run what is missing of the runs in `folders`, side by side; --max-cost holds for all together.

    On Ray, or with MCP servers that a whole run shares, one run is made after the other.
    """
    to_make, count, alone = dict[Path, LoadedAgent](), 0, False
    places, ceilings = list[int](), list[float]()
    for folder in folders:
        with RunReader(folder) as reader:
            if not (work := find_missing_work(reader)).rollouts:
                continue
            agent = agents.get(reader.info.id) or agent_of_run(reader, run_env.environ, "resume")
            to_make[folder], count, settings = agent, count + work.count, reader.settings
        alone |= settings.engine == "ray" or agent.shared_mcp
        places.append(changes.get("concurrency", settings.concurrency))
        if (usd := changes.get("max_cost", settings.max_cost)) is not None:
            ceilings.append(usd)
    run_env.progress.total("rollouts", count, count)
    ceiling, made, parts = Ceiling(min(ceilings, default=None)), list[RunResult](), PartsOfWork(run_env.progress)

    ceiling.spent = spent

    async def make(folder: Path, agent: LoadedAgent, side: Alongside) -> None:
        part_env = replace(run_env, progress=parts, side=side)
        if run := await resume_run(folder, agent, part_env, changes=changes, named=named):
            made.append(run)
        side.leave()  # an error ends the others, too

    for together in [[item] for item in to_make.items()] if alone else [list(to_make.items())]:
        if ceiling.stopped or run_env.stop.asked or any(run.given_up for run in made):
            break
        sides = SideBySide(len(together), min(places, default=1), ceiling).sides
        try:
            async with anyio.create_task_group() as tasks:
                for (folder, agent), side in zip(together, sides, strict=True):
                    tasks.start_soon(make, folder, agent, side)
        except* errors.HarnessError as caught:
            raise errors.first_error(caught) from None
    return compare.ComparisonResult(
        comparison,
        spent=ceiling.spent,
        stopped=ceiling.stopped,
        given_up=next((run.given_up for run in made if run.given_up), None),
    )


def _why_stopped(stopped: str | None, spent_before: float) -> str | None:
    """Say why a part was stopped, whose ceiling was what the parts before it had left of --max-cost."""
    if not (stopped and spent_before):
        return stopped
    return f"${spent_before:.4f} of {errors.option('max_cost')} went to rollouts before, and {stopped}"


async def resume_comparison(
    folder: Path,
    run_env: RunEnvironment,
    *,
    runs_dir: Path,
    agents: Mapping[str, LoadedAgent] | None = None,
    folders: Sequence[Path] | None = None,
    changes: Mapping[str, Any] | None = None,
    named: NamedAddresses | None = None,
    rubric_word: str | None = None,
    trust_archive: bool = False,
    judge_agents: Mapping[str, LoadedAgent] | None = None,
    spent: float = 0.0,
) -> compare.ComparisonResult | None:
    """Do what is missing of a comparison, under its own settings; None if nothing is.

    Its sides are in `folders`, else looked for by their ids in `runs_dir` and beside the comparison, which may come
    from a stranger and names no folder. Rollouts are run only for a comparison that was begun on this machine, or with
    `trust_archive`: else it would write to runs that it merely names. `changes` are what today's user says of money.
    The agents of sides still to be run are in `agents`, by their runs' ids, or found as `resume` finds a run's.
    `judge_agents` judge, by identity, else those that a comparison which was begun here names.
    `spent` (USD) counts against --max-cost: what their models were asked before.
    Raises UsageError, Refused, CannotWrite, ArchiveLocked, ArchiveDamaged.
    """
    changes, named = changes or {}, named or NamedAddresses()
    with ComparisonReader(folder) as comparison:
        info = comparison.info
        trust = trust_in(comparison, run_env.environ, named.base_url, named.judge_base_url, trust_archive=trust_archive)
    folders = folders or [find_side(side, runs_dir, folder) for side in info.sides]
    run_env.progress.opened(folder)
    to_run = [run for run, side in zip(folders, info.sides, strict=True) if side.to_run and trust.is_given]
    at_agents = NamedAddresses(base_url=named.base_url)
    rolled_out = await _roll_out(folder, to_run, agents or {}, run_env, changes, at_agents, spent)
    if rolled_out.stopped or rolled_out.given_up or run_env.stop.asked:
        return rolled_out
    with open_sides(folders) as readers:
        plan = _as_begun(info, readers, changes, trust, folder, runs_dir, rubric_word)
        if judge_agents:
            judging = replace(plan.judging, judge_agents=judge_agents)
        else:
            judging = await with_agents(plan.judging, comparison, trust)
        plan = replace(plan, judging=judging)
        if not rolled_out.spent and planning.is_done(folder, plan.sides):
            return None
        NamedAddresses(judge_base_url=named.judge_base_url).check((None,), plan.judging.judge)
        settings = plan.judging.settings
        if settings.max_cost is not None:  # what the rollouts took is no longer there for the judge
            left = replace(settings, max_cost=max(0.0, settings.max_cost - rolled_out.spent))
            plan = replace(plan, judging=replace(plan.judging, settings=left))
        redact = make_redactor(None, trust.without_patterns(plan.judging.settings), run_env.environ)
        with (
            planning.open_verdict_sources(plan, readers, run_env) as reuse_sources,
            ComparisonStore(folder, run_env.clock(), versions=package_versions(), redact=redact) as store,
        ):
            result = await compare.judge_into(store, plan, readers, reuse_sources, run_env, new=False)
    stopped = _why_stopped(result.stopped, rolled_out.spent)
    return replace(result, spent=result.spent + rolled_out.spent, stopped=stopped)


def describe_resuming(comparison: ComparisonReader, runs_dir: Path) -> str | None:
    """Return in words what resuming a comparison runs, and whom that asks; None where nothing is missing."""
    info, parts = comparison.info, list[str]()
    with open_sides([find_side(side, runs_dir, comparison.folder) for side in info.sides]) as readers:
        for side, reader in zip(info.sides, readers, strict=True):
            if side.to_run and (missing := find_missing_work(reader).count):
                parts.append(f"{missing:,} to run of {side.label} ({places_of_begun(reader, None)})")
        if not parts and planning.is_done(comparison.folder, compared_sides(readers, match_queries(readers))):
            return None
    judge = recorded_judge(info.judge, comparison.folder / "compare.json")
    judging = f"what is missing of the judging (judge: {judge.places})"
    return f"{' and '.join(parts)}, then {judging}" if parts else judging


def find_side(side: ComparedSide, runs_dir: Path, comparison: Path) -> Path:
    """Return the run of a side as it was compared: in `runs_dir`, else beside the comparison. Raises UsageError."""
    whys: dict[Path, str] = {}
    lies_in = comparison.parent if comparison.name not in {"", ".."} else comparison.resolve().parent
    for parent in dict.fromkeys((runs_dir, lies_in)):
        folder = parent / side.run
        try:  # a link is no run, nor is a path out of the folder
            if folder not in list_runs(parent):
                whys[folder] = _NOT_THERE
                continue
            with RunReader(folder) as reader:
                if reader.info_sha256 == side.sha256:
                    return folder
            whys[folder] = "is another run now: its run.json has changed"
        except errors.NeedsUpgrade:
            raise
        except errors.ArchiveDamaged as exc:
            whys[folder] = f"cannot be read ({exc})"
    folder, why = next(((folder, why) for folder, why in whys.items() if why != _NOT_THERE), next(iter(whys.items())))
    raise errors.UsageError(
        f"the run of side {side.label}, {errors.on_a_line(folder)}, {why}; put the run back, or name where the runs "
        f"are now: {errors.call('compare', 'A', 'B')}"
    )


def _as_begun(
    info: ComparisonInfo,
    readers: Sequence[RunReader],
    changes: Mapping[str, Any],
    trust: Trust,
    folder: Path,
    runs_dir: Path,
    rubric_word: str | None,
) -> planning.ComparisonPlan:
    where = folder / "compare.json"
    settings = trust.priced(recorded_settings(info.settings, where), changes)
    if changes:
        settings = load(changed(asdict(settings), changes))
    judge = recorded_judge(info.judge, where)
    if info.task_from == "file" and info.task is None:
        raise errors.UsageError(f"{where} does not hold the text of {errors.option('task')}: compare the runs anew")
    rubric = rubric_as_begun(info, None, settings, rubric_word)
    check_rendering(info.rendering)
    queries = match_queries(readers)
    judging, sides = JudgingPlan(judge, rubric, settings, trust.credentials), compared_sides(readers, queries)
    options = planning.CompareOptions(
        runs_dir, pairs=info.pairs, task=info.task, cluster=info.cluster, allow_offline=True
    )
    return planning.ComparisonPlan(judging, sides, queries, trust, replace(options, early_stop=info.early_stop))


def settings_of_side(values: Mapping[str, Any], pairs: int, runs_dir: Path) -> Settings:
    """Return the settings of a side that is rolled out, to be judged only against the others. Raises UsageError."""
    kept = {name: value for name, value in values.items() if name != "budget"}
    needed = {"runs_dir": runs_dir, "judge": "pairwise", "topology": "none"}
    return load({"n": pairs + 1, **kept, **needed})


def queries_asked(sides: Sequence[object]) -> list[Query]:
    """Return the queries of the first run among the sides, where no others are named. Raises UsageError without one."""
    run = next((side for side in sides if isinstance(side, Path)), None)
    if run is None:
        raise errors.UsageError(f"agents are compared on queries: name them with {errors.option('queries', 'FILE')}")
    with RunReader(run) as reader:
        return list(reader.queries())


async def quote_sides(
    sides: Sequence[compare.AnySide],
    queries: Sequence[Query],
    run_env: RunEnvironment,
    options: planning.CompareOptions,
) -> compare.ComparisonQuote | compare.RollOutQuote:
    """Tell what `compare_sides` takes, without buying or writing anything. Raises UsageError."""
    if folders := _all_runs(sides):
        with open_sides(folders) as readers:
            plan = await planning.plan_comparison(readers, run_env.environ, options)
            with planning.open_verdict_sources(plan, readers, run_env) as reuse_sources:
                return await compare.quote_plan(plan, readers, reuse_sources, run_env)
    return await compare.quote_roll_out(sides, len(queries), run_env, options)


def _all_runs(sides: Sequence[compare.AnySide]) -> list[Path] | None:
    folders = [side for side in sides if isinstance(side, Path)]
    return folders if len(folders) == len(sides) else None


async def compare_sides(
    sides: Sequence[compare.AnySide],
    queries: Sequence[Query],
    run_env: RunEnvironment,
    options: planning.CompareOptions,
) -> compare.ComparisonResult:
    """Roll out the sides that are agents, each in a run of its own and asked `queries`, and compare all sides.

    Runs and comparison are on disk before anything is spent; with nothing spent an error takes them away again.
    """
    if folders := _all_runs(sides):
        return await compare.compare_runs(folders, run_env, options)
    await compare.quote_roll_out(sides, len(queries), run_env, options)  # refuses what cannot be compared
    made: dict[Path, LoadedAgent | None] = {}
    try:
        new = iter(settled := await with_ways([side for side in sides if not isinstance(side, Path)], run_env))
        folders = list[Path]()
        for given in sides:
            if isinstance(given, Path):
                folders.append(given)
                continue
            side = next(new)
            loaded = side.agent.loaded
            redact = make_redactor(loaded, side.settings, run_env.environ)
            info = new_run(side, run_env.clock, len(queries), redact)
            creating = RunStore.create(side.settings.runs_dir, info, queries, redact=redact)
            with creating as store, attested(store, run_env, loaded):
                folders.append(store.folder)
            made[store.folder] = loaded
        with open_sides(folders) as readers:
            plan = await planning.plan_comparison(readers, run_env.environ, replace(options, allow_offline=True))
            compared = zip(plan.sides, folders, strict=True)
            to_run = tuple(side.model_copy(update={"to_run": folder in made}) for side, folder in compared)
            redact, info = planning.new_comparison(replace(plan, sides=to_run), run_env)
            with ComparisonStore.create(options.runs_dir, info, redact=redact) as store, attested(store, run_env):
                comparison = store.folder
        made[comparison] = None
        agents = {folder.name: agent for folder, agent in made.items() if agent}
        runs_dir = options.runs_dir
        result = await resume_comparison(
            comparison,
            run_env,
            runs_dir=runs_dir,
            agents=agents,
            folders=folders,
            judge_agents=plan.judging.judge_agents,
            spent=sum(side.way_found.cost.known for side in settled if side.way_found),
        )
    except (errors.HarnessError, ExceptionGroup):
        paid_for = any((folder / part).is_dir() for folder in made for part in ("rollouts", "verdicts"))
        for folder in () if paid_for else made:
            is_run = (folder / "run.json").exists()
            with (RunStore if is_run else ComparisonStore)(folder, run_env.clock()) as store:
                store.discard()
            withdraw(folder.name, run_env.environ)
        raise
    assert result, "a comparison that has just begun has work to do"  # noqa: S101 - for the type checker
    return result
