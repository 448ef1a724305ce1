"""Comparing in Python: is one run, or one agent, better than another?"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Unpack

from harness.api.archived import AnyRun, Run, find_folder, runs_parent
from harness.api.outside import AnyAgent, door, door_at_once, read_run_env
from harness.archive.comparison_reader import ComparisonReader
from harness.archive.run_info import a_kind, find_archived, list_archived, list_comparisons
from harness.core.comparisons import Comparison
from harness.core.errors import ArchiveDamaged, NothingRankable, UsageError, call, on_a_line, option, quoted
from harness.core.progress import Clock, Progress, now
from harness.core.settings import OF_JUDGING
from harness.core.settings_sources import check_names
from harness.core.settings_types import CompareSettings
from harness.core.sync import in_step
from harness.formats.queries import Asked, make_queries
from harness.pipeline.app_checks import judge_objects, loaded_agent
from harness.pipeline.comparing.compare import AnySide
from harness.pipeline.comparing.labels import PeoplesWord
from harness.pipeline.comparing.outcome import comparison_of
from harness.pipeline.comparing.planning import CompareOptions
from harness.pipeline.comparing.resuming import compare_sides, queries_asked, settings_of_side
from harness.pipeline.plan import prepare
from harness.pipeline.trust import what_is_kept
from harness.report.html.comparison_page import write_comparison_page
from harness.rollouts.loading import LoadedAgent

_MOST_PAIRS = 1000


@door
async def compare(
    *sides: AnyRun | AnyAgent,
    queries: Asked | Iterable[Asked] | None = None,
    pairs: int = 2,
    task: str | None = None,
    cluster: str | None = None,
    labels: str | Path | None = None,
    reuse: Sequence[AnyRun] = (),
    allow_offline: bool = False,
    trust_archive: bool = False,
    progress: Progress | None = None,
    clock: Clock = now,
    **settings: Unpack[CompareSettings],
) -> Comparison:
    """Compare two runs or agents, or more, as `harness compare` does: every figure speaks of the second one.

    A side is a Run, its folder or id, or an agent, which is rolled out on `queries` (by default those of a run among
    the sides). On each query that all sides have, `pairs` cross pairs of samples are judged in both orders, and the
    anchors' pair. `task` is what the judge is shown in place of the agents' instructions; `cluster` is the metadata's
    key of alike queries; `labels` is a file of people's labels (default: those that `harness label` kept). Verdicts
    that are there are reused. Where `max_cost` or an endpoint ends the work the comparison is incomplete, and the same
    call goes on with it.
    Raises UsageError, Refused, CannotWrite, NeedsUpgrade, ArchiveLocked, ArchiveDamaged; NothingRankable where
    nothing could be compared.
    """
    check_names(settings, CompareSettings.__annotations__)
    if not 1 <= pairs <= _MOST_PAIRS:
        raise UsageError(f"{option('pairs', pairs)}: give a whole number from 1 to {_MOST_PAIRS}")
    people = PeoplesWord.read(Path(labels) if labels is not None else None)
    runs_dir, run_env = runs_parent(settings.get("runs_dir")), read_run_env(progress, clock)
    named = [run_or_agent(side, runs_dir) for side in sides]
    judges = judge_objects(settings)
    options = CompareOptions(
        runs_dir,
        {name: value for name, value in settings.items() if name in OF_JUDGING},
        pairs=pairs,
        task=task,
        cluster=cluster,
        reuse=[find_folder(source, runs_dir) for source in reuse],
        allow_offline=allow_offline or bool(settings.get("offline")),
        trust_archive=trust_archive,
        judge_agents=judges,
    )
    if all(isinstance(side, Path) for side in named):
        idle = [name for name in settings if name not in {*OF_JUDGING, "runs_dir"}]
        idle += ["queries"] if queries is not None else []
        if idle:
            raise UsageError(f"{option(idle[0])} says how agents are rolled out, but every side is an archived run")
    prepared: list[AnySide] = [
        side
        if isinstance(side, Path)
        else await prepare(
            side, settings_of_side(settings, pairs, runs_dir), run_env.environ, judge_agents=judges, alone=False
        )
        for side in named
    ]
    asked = queries_asked(prepared) if queries is None else list(make_queries(queries))
    result = await compare_sides(prepared, asked, run_env, options)
    with ComparisonReader(result.path) as reader:
        if reader.newest() is None:
            raise NothingRankable(f"{result.stopped or result.given_up}. {what_is_kept(result.path)}")
        comparison = comparison_of(reader, people)
        write_comparison_page(reader, comparison)
        return comparison


@door_at_once
def open_comparison(comparison: str | Path = "last", runs_dir: str | Path | None = None) -> Comparison:
    """Return an archived comparison: a folder, an id or a prefix of it in `runs_dir` (default: runs), or `last`.

    `last` is the newest comparison. Raises UsageError where there is none such; ArchiveDamaged, NeedsUpgrade.
    """
    parent = runs_parent(runs_dir)
    folders = list_comparisons(parent)
    if str(comparison) == "last" and not folders:
        raise UsageError(f"no comparison in {on_a_line(parent)}/ yet; {call('compare', 'RUN_A', 'RUN_B')} makes one")
    word = str(folders[-1] if str(comparison) == "last" else comparison)
    folder, kind = find_archived(word, parent)
    if kind != "comparison":
        shown = f"{call('open', folder)} opens it" if kind == "run" else f"{call('show', folder)} shows it"
        raise UsageError(f"{on_a_line(folder.name)} is {a_kind(kind)}, not a comparison: {shown}")
    with ComparisonReader(folder) as reader:
        return comparison_of(reader)


@door_at_once
def list_of_comparisons(runs_dir: str | Path | None = None) -> Sequence[Path]:
    """Return the folders of all comparisons in `runs_dir` (default: runs), oldest first."""
    return list_comparisons(runs_parent(runs_dir))


def run_or_agent(side: AnyRun | AnyAgent, runs_dir: Path) -> Path | LoadedAgent:
    """Return the run that a side is or names, else its agent. Raises UsageError where it names neither."""
    if isinstance(side, Run):
        return side.path
    if not isinstance(side, str | Path):
        return loaded_agent(side)
    try:
        return find_folder(side, runs_dir)
    except ArchiveDamaged:
        raise
    except UsageError as no_run:
        try:
            return loaded_agent(side)
        except UsageError as no_agent:
            if str(side).endswith(".py") or ":" in str(side):
                raise no_agent from None
            if any(folder.name.startswith(str(side)) for folder, _ in list_archived(runs_dir)):
                raise no_run from None
            raise UsageError(f"{quoted(str(side))} is neither a run nor an agent: {no_run}; {no_agent}") from None


compare_sync = in_step(compare)
