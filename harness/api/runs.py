"""The main job in Python: make a run, go on with it, judge it again, replay it, check it, export it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Unpack

import anyio.to_thread

from harness.api.archived import AnyRun, Run, find_folder, runs_parent
from harness.api.outside import AnyAgent, door, door_at_once, read_run_env
from harness.archive.reader import RunReader
from harness.archive.run_info import Archived, find_archived
from harness.archive.run_state import last_unfinished
from harness.core.errors import UsageError, option
from harness.core.progress import Clock, Progress, now
from harness.core.records import Query
from harness.core.settings import Settings
from harness.core.settings_sources import check_names, environment, load
from harness.core.settings_types import ResumeSettings, RunSettings
from harness.core.sync import in_step
from harness.endpoints.costs import CostBounds
from harness.formats.queries import Asked, in_shard, make_queries
from harness.formats.training.rules import WHOLE, ExportRules, read_split
from harness.formats.trajectory_files import Format
from harness.pipeline.app_checks import judge_objects, loaded_agent
from harness.pipeline.exporting.export import ExportOptions, ExportResult, export_runs
from harness.pipeline.import_run import import_trajectories
from harness.pipeline.merging import merge_runs
from harness.pipeline.plan import NamedAddresses, RescoreOptions, prepare
from harness.pipeline.rescoring import Quote, quote_rescoring
from harness.pipeline.runs import RunResult, rescore_run, resume_run, run_queries
from harness.pipeline.trust import agent_of_run
from harness.pipeline.validation import Validation, replay_run, validate_parts
from harness.pipeline.waiting import refuse_idle_wait, refuse_idle_wait_for, stay_until_judged
from harness.report.html.run_page import write_page
from harness.report.text import SELF_TEST
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.replay import Replayed


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What a run would take."""

    queries: int
    agent_runs: int
    judge_calls: tuple[int, int]
    """The fewest and the most, repair turns aside."""
    judge: str
    agent_at: str
    judge_at: str
    """Where agent and judge would be asked: model@host."""
    cost: CostBounds | None
    """USD, from an estimate of the tokens; None where a price is unknown."""
    offline: bool
    """Whether the embedded model or judge is used."""


@door
async def run(
    agent: AnyAgent,
    queries: Asked | Iterable[Asked] | None = None,
    *,
    context: Any = None,
    run_config: Any = None,
    hooks: Any = None,
    session: Any = None,
    reuse: Sequence[AnyRun] = (),
    wait: bool = False,
    report: bool = True,
    progress: Progress | None = None,
    clock: Clock = now,
    **settings: Unpack[RunSettings],
) -> Run:
    """Run an agent `n` times on each query, judge and rank the rollouts, and archive everything, as `harness run` does.

    `queries` is a text, a Query, a mapping like a line of a JSONL file, several of these, or the Path of a file; None
    is the first of the agent's EXAMPLES. An iterator's queries are asked for as there is room. Verdicts that the runs
    in `reuse` hold are not bought. `context`, `run_config`, `hooks` and `session` are what the agent's app gives its
    runs, each a value, or a function of the query that is called once a rollout (see AppAgent). With `judge_batch`,
    `wait` stays until the batches are over. Without `report` no page is written.
    Raises UsageError for what cannot be used; Refused (out of quota: OutOfQuota) where the endpoint turned the first
    call down: then there is no run; CannotWrite. A run that is cancelled keeps what it has, and `resume` does the rest.
    """
    judges, chosen, run_env = judge_objects(settings), load(settings), read_run_env(progress, clock)
    if wait:
        refuse_idle_wait(by_batch=chosen.judge_batch)
    loaded = loaded_agent(agent, context=context, run_config=run_config, hooks=hooks, session=session)
    first = asked = _asked(loaded, queries, chosen)
    if isinstance(asked, Iterator):  # the first alone is looked at, and only where the agent's app needs it
        first = list(islice(asked, 1)) if loaded.has_run_parts else []
        asked = chain(first, asked)
    prepared = await prepare(loaded, chosen, run_env.environ, first, judges)
    if prepared.offline and not prepared.settings.offline:
        run_env.progress.note(SELF_TEST)
    elif not (prepared.settings.judge_model or prepared.judge_agents or prepared.offline) and chosen.topology != "none":
        run_env.progress.note(
            f"the judge is the agent's own model, {prepared.judge.model}; judges favour their own: name another with "
            f"{option('judge_model')}"
        )
    reuse_sources = [find_folder(source, chosen.runs_dir) for source in reuse]
    result = await run_queries(prepared, asked, run_env, reuse=reuse_sources)
    if wait:
        result = await stay_until_judged(result, loaded, run_env)
    return delivered(result, report=report)


@door
async def plan(
    agent: AnyAgent, queries: Asked | Iterable[Asked] | None = None, **settings: Unpack[RunSettings]
) -> RunPlan:
    """Check everything that can be checked for free and return what `run` would take, as `harness run --dry-run` does.

    Raises UsageError as `run`.
    """
    loaded, judges, chosen = loaded_agent(agent), judge_objects(settings), load(settings)
    asked = list(_asked(loaded, queries, chosen))
    prepared = await prepare(loaded, chosen, environment(), asked, judges)
    count = len(asked)
    return RunPlan(
        queries=count,
        agent_runs=prepared.settings.n * count,
        judge_calls=prepared.judge_calls(count),
        judge=prepared.judge.model,
        agent_at=prepared.agent.place,
        judge_at=prepared.judge.places,
        cost=prepared.cost(count),
        offline=prepared.offline,
    )


@door
async def resume(
    run: AnyRun | None = None,
    agent: AnyAgent | None = None,
    *,
    retry_failed: bool = False,
    accept_changed_agent: bool = False,
    trust_archive: bool = False,
    wait: bool = False,
    report: bool = True,
    runs_dir: str | Path | None = None,
    progress: Progress | None = None,
    clock: Clock = now,
    **settings: Unpack[ResumeSettings],
) -> Run:
    """Do what is missing of a run, as `harness resume` does, and return the run; a finished one costs nothing.

    None is the last unfinished run, else the last. `agent` says where the run's agent is now; a run of an Agent object
    needs it. `rubric` names the run's rubric where the run does not hold its text. A run that this machine has no
    record of gets keys only with its addresses as `base_url` and `judge_base_url`, or with `trust_archive`. What is
    said of money holds in place of the run's own, but prices are added to those. `wait` and `report` are as in `run`.
    Raises UsageError, Refused, CannotWrite, NeedsUpgrade, ArchiveLocked, ArchiveDamaged.
    """
    unfinished = last_unfinished(runs_parent(runs_dir), only_runs=True) if run is None else None
    folder = unfinished.folder if unfinished else find_folder(run or "last", runs_dir)
    run_env = read_run_env(progress, clock)
    check_names(settings, ResumeSettings.__annotations__)
    if wait:
        refuse_idle_wait_for(folder, settings, resuming=True)

    def load_now() -> LoadedAgent:
        if agent is not None:
            return loaded_agent(agent)
        with RunReader(folder) as reader:
            return agent_of_run(reader, run_env.environ, "resume")

    rubric = settings.pop("rubric", None)
    named, changes = NamedAddresses.split({name: value for name, value in settings.items() if value is not None})
    result = await resume_run(
        folder,
        load_now,
        run_env,
        retry_failed=retry_failed,
        accept_changed_agent=accept_changed_agent,
        changes=changes,
        rubric_word=rubric,
        named=named,
        trust_archive=trust_archive,
    )
    if result and wait:
        result = await stay_until_judged(result, load_now, run_env)
    return delivered(result, report=report) if result else Run(folder)


@door
async def rescore(
    run: AnyRun = "last",
    *,
    reuse: Sequence[AnyRun] = (),
    free: bool = False,
    trust_archive: bool = False,
    wait: bool = False,
    report: bool = True,
    progress: Progress | None = None,
    clock: Clock = now,
    **settings: Unpack[RunSettings],
) -> Run:
    """Judge an archived run again under changed settings, as `harness rescore` does; `run.ranking()` is the new one.

    Only verdicts that neither the run nor the runs in `reuse` hold are bought; with `free` none is bought. Keys
    go to the judge's address of a run that this machine has no record of only if `settings` name that address, or with
    `trust_archive`. Raises UsageError, Refused, CannotWrite, NeedsUpgrade, ArchiveLocked, ArchiveDamaged.
    """
    runs_dir = settings.pop("runs_dir", None)
    reuse_sources = [find_folder(source, runs_dir) for source in reuse]
    agents = judge_objects(settings)
    options = RescoreOptions(reuse_sources, free=free, trust_archive=trust_archive, judge_agents=agents)
    run_env = read_run_env(progress, clock)
    folder = find_folder(run, runs_dir)
    if wait:
        refuse_idle_wait_for(folder, settings)
    result = await rescore_run(folder, settings, run_env, options)
    if wait:
        result = await stay_until_judged(result, None, run_env)
    return delivered(result, report=report)


@door
async def quote(
    run: AnyRun = "last",
    *,
    reuse: Sequence[AnyRun] = (),
    free: bool = False,
    trust_archive: bool = False,
    **settings: Unpack[RunSettings],
) -> Quote:
    """Return what `rescore` would reuse and buy, as `harness rescore --dry-run` does. Raises as `rescore`."""
    runs_dir = settings.pop("runs_dir", None)
    reuse_sources = [find_folder(source, runs_dir) for source in reuse]
    agents = judge_objects(settings)
    options = RescoreOptions(reuse_sources, free=free, trust_archive=trust_archive, judge_agents=agents)
    return await quote_rescoring(find_folder(run, runs_dir), settings, read_run_env(None), options)


@door
async def replay(
    run: AnyRun = "last",
    agent: AnyAgent | None = None,
    *,
    query: str | None = None,
    rollout: int | None = None,
    live_tools: bool = False,
    trust_archive: bool = False,
    runs_dir: str | Path | None = None,
) -> Sequence[Replayed]:
    """Drive the agent's code again on what a run recorded, as `harness replay` does: free, and nothing is written.

    Returns the outcome for each rollout, of the query with the id `query` or the index `rollout` where given; one is
    identical where its `divergence` is None. Raises UsageError, ArchiveDamaged.
    """
    folder, loaded = find_folder(run, runs_dir), None if agent is None else loaded_agent(agent)
    outcomes = replay_run(
        folder, loaded, environment(), query=query, rollout=rollout, live_tools=live_tools, trust_archive=trust_archive
    )
    return [outcome async for outcome in outcomes]


@door
async def validate(
    run: AnyRun = "last", *, repair: bool = False, runs_dir: str | Path | None = None, clock: Clock = now
) -> Validation:
    """Check every line, checksum, hash, reference and ranking of all that is archived, as `harness validate` does.

    With `repair` damaged lines are moved aside. Raises UsageError, CannotWrite, ArchiveLocked; ArchiveDamaged for an
    improvement whose own files are.
    """
    archived = Archived(run.path, "run") if isinstance(run, Run) else find_archived(str(run), runs_parent(runs_dir))
    found = await anyio.to_thread.run_sync(lambda: validate_parts(archived, clock, repair=repair))
    whole = [(each.findings, each.remaining) for each in found.values()]
    return Validation(*(tuple(chain.from_iterable(each)) for each in zip(*whole, strict=True)))


@door_at_once
def import_run(
    files: Path | str | Sequence[Path | str],
    *,
    format: Format | None = None,  # noqa: A002 - the option's name
    first_is_anchor: bool = False,
    name: str = "imported",
    redact: Sequence[str] = (),
    runs_dir: str | Path | None = None,
) -> Run:
    """Make a run of trajectories made elsewhere, as `harness import` does; `rescore` judges it. Raises UsageError."""
    paths = [Path(file) for file in ([files] if isinstance(files, str | Path) else files)]
    settings = load({"redact": redact, "runs_dir": runs_parent(runs_dir)})
    folder, _ = import_trajectories(
        paths, settings, read_run_env(None), format=format, first_is_anchor=first_is_anchor, name=name
    )
    return Run(folder)


def _asked(
    loaded: LoadedAgent, queries: Asked | Iterable[Asked] | None, settings: Settings
) -> Sequence[Query] | Iterator[Query]:
    """Return the queries to run: those of today's shard. Raises UsageError where none falls into it."""
    if queries is None and not loaded.examples:
        raise UsageError(f"agent {loaded.name!r} lists no EXAMPLES: give a query")
    asked = in_shard(make_queries(loaded.examples[0] if queries is None else queries), settings.shard)
    if not isinstance(asked, Iterator) and not asked:
        raise UsageError(f"no query falls into {option('shard', settings.shard)}: there is nothing to run")
    return asked


def delivered(result: RunResult, *, report: bool) -> Run:
    """Return the run that a result is of; with `report` its page is written, if it was ranked."""
    done = Run(result.path, result)
    if not report:
        return done
    with RunReader(result.path) as reader:
        if any(head.id == result.ranking_id for head in reader.heads()):
            write_page(reader, reader.ranking(result.ranking_id), done.page)
    return done


run_sync = in_step(run)
plan_sync = in_step(plan)
resume_sync = in_step(resume)
rescore_sync = in_step(rescore)
quote_sync = in_step(quote)
replay_sync = in_step(replay)
validate_sync = in_step(validate)


@door_at_once
def merge(
    runs: Sequence[AnyRun],
    *,
    output: str | Path | None = None,
    runs_dir: str | Path | None = None,
    progress: Progress | None = None,
    clock: Clock = now,
) -> Run:
    """Make one run of several runs of one agent, judge, rubric and settings, as `harness merge` does.

    `output` is its name in `runs_dir`, or a path; None: an id. Nothing is bought, and `runs` stay as they are. Rankings
    that all have finished become ones of all groups; `progress` gets a note on what is left out. Raises UsageError for
    runs that differ or share a query; ArchiveLocked, ArchiveDamaged, CannotWrite.
    """
    parent, run_env = runs_parent(runs_dir), read_run_env(progress, clock)
    folders = [find_folder(run, runs_dir) for run in runs]
    merged = merge_runs(folders, None if output is None else str(output), parent, run_env)
    for note in merged.notes:
        run_env.progress.note(note)
    made = Run(merged.path)
    if merged.rankings:
        made.write_page()
    return made


@door_at_once
def export_run(
    run: AnyRun,
    to: Path | str,
    rules: ExportRules,
    *,
    split: str | None = None,
    ranking: str | None = None,
    allow_offline: bool = False,
    force: bool = False,
    runs_dir: str | Path | None = None,
) -> ExportResult:
    """Write a ranked run as training data into the folder `to`, as `harness export` does.

    `split` names the shares of a split by query: "train=0.9,test=0.1". The result lists the files, and counts what was
    left out; where nothing is left, there is no file. Raises NothingRankable for a run without ranking, UsageError,
    CannotWrite, ArchiveDamaged.
    """
    shares = read_split(split) if split else WHOLE
    options = ExportOptions(rules=rules, split=shares, ranking=ranking, allow_offline=allow_offline, force=force)
    return export_runs([find_folder(run, runs_dir)], Path(to), options)
