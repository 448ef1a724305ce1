"""Comparisons in the archive: a new one's compare.json, the one that is there already, and those that lend verdicts."""

import secrets
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pydantic import JsonValue

from harness.archive.comparison_reader import ComparisonInfo, ComparisonReader
from harness.archive.layout import list_comparisons, new_run_id
from harness.archive.reader import FolderReader, RunReader
from harness.core.clock import Clock
from harness.core.comparisons import ComparedSide
from harness.core.errors import ArchiveDamaged, NeedsUpgrade, TooOld
from harness.core.redaction import Redactor
from harness.core.settings import as_written
from harness.pipeline.comparing.plan import ComparisonPlan
from harness.pipeline.resolve import redactor_of
from harness.pipeline.rubrics import text_to_keep, whole_text
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.run_info import package_versions

_SAME_SETTINGS = ("judge_budget", "judge_repeats", "jury", "show_instructions", "seed")
"""Settings that decide what is judged; the others decide how fast and how dear."""


def new_comparison_info(plan: ComparisonPlan, clock: Clock, redact: Redactor) -> ComparisonInfo:
    """Describe a comparison that begins now."""
    judging, at, task = plan.judging, clock(), plan.options.task
    judge = {"identity": judging.judge.identity, "counter": judging.judge.counter}
    shown = "file" if task is not None else "agent" if judging.settings.show_instructions else "nothing"
    return ComparisonInfo(
        schema_version=1,
        id=new_run_id("compare", at, secrets.token_hex(8)),
        created_at=at,
        sides=plan.sides,
        settings=as_written(judging.settings),
        judge=judging.judge.model_dump(mode="json") | judge,
        rubric=judging.rubric.label,
        rubric_text=text_to_keep(judging.rubric, redact),
        rendering=judging.rendering,
        task_from=shown,
        task=whole_text(task, redact),
        pairs=plan.options.pairs,
        cluster=plan.options.cluster,
        early_stop=plan.options.early_stop,
        offline=plan.offline,
        queries=len(plan.matched.queries),
        versions=package_versions(),
    )


def comparison_like(info: ComparisonInfo, runs_dir: Path, run_env: RunEnvironment) -> Path | None:
    """Return the newest comparison of the same runs, in their order, that is judged in the same way; None without."""
    wanted = _kind_of(info)
    if info.task_from == "file" and info.task is None:
        return None  # which text it was is not kept
    alike = [reader.folder for reader in _comparisons(runs_dir, run_env) if _kind_of(reader.info) == wanted]
    return alike[-1] if alike else None


def _kind_of(info: ComparisonInfo) -> Mapping[str, JsonValue]:
    """Return what makes two comparisons the same one."""
    kept = {"rubric", "rendering", "task_from", "task", "pairs", "cluster", "early_stop"}
    return {
        **info.model_dump(mode="json", include=kept),
        "sides": [[side.run, side.sha256] for side in info.sides],
        "judge": [info.judge.get("identity"), info.judge.get("counter")],
        "settings": [info.settings.get(name) for name in _SAME_SETTINGS],
    }


def is_complete(plan: ComparisonPlan, run_env: RunEnvironment) -> bool:
    """Tell whether the comparison that is planned is there already, with nothing missing."""
    redact = redactor_of(None, plan.trust.without_patterns(plan.judging.settings), run_env.environ)
    info = new_comparison_info(plan, run_env.clock, redact)
    folder = comparison_like(info, plan.options.runs_dir, run_env)
    return folder is not None and is_done(folder, plan.sides)


def is_done(folder: Path, sides: Sequence[ComparedSide]) -> bool:
    """Tell whether a comparison is whole, and rests on the sides as they are now."""
    with ComparisonReader(folder) as reader:
        newest = reader.newest()
        return newest is not None and newest.finished and not newest.incomplete and newest.head.sides == tuple(sides)


@contextmanager
def open_lending(
    plan: ComparisonPlan, readers: Sequence[RunReader], run_env: RunEnvironment
) -> Generator[list[FolderReader]]:
    """Open what holds verdicts that need not be bought again: earlier comparisons of these runs, --reuse, the runs."""
    runs = {side.sha256 for side in plan.sides}
    with ExitStack() as opened:
        reuse_sources: list[FolderReader] = [
            opened.enter_context(reader)
            for reader in _comparisons(plan.options.runs_dir, run_env)
            if len(runs.intersection(side.sha256 for side in reader.info.sides)) > 1
        ]
        reuse_sources += [opened.enter_context(RunReader(folder)) for folder in plan.options.reuse]
        for lender in reuse_sources:
            _ = lender.index  # damage is found before anything is spent
        yield [*reuse_sources, *readers]


def _comparisons(runs_dir: Path, run_env: RunEnvironment) -> Iterator[ComparisonReader]:
    """Yield the comparisons in a folder of runs, the oldest first; one that cannot be read is passed over, and told."""
    for folder in list_comparisons(runs_dir):
        try:
            reader = ComparisonReader(folder)
        except (ArchiveDamaged, NeedsUpgrade, TooOld) as exc:
            run_env.progress.note(f"passed over: {exc}")
            continue
        yield reader
