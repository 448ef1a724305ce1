"""Going on with a run that is on disk, in Python."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from harness.api.outside import surroundings_of
from harness.core.clock import Clock, now
from harness.core.progress import Progress
from harness.pipeline import NamedAddresses, RescoreOptions, RunResult, rescore_run, resume_run
from harness.rollouts import LoadedAgent
from harness.transcripts import RENDERING


class Spending(TypedDict, total=False):
    """What today's user says of money when a run goes on."""

    max_cost: float | None
    prices: Mapping[str, str | Sequence[float]]
    price_by_name: bool


async def resume(
    folder: Path,
    loaded: LoadedAgent | Callable[[], LoadedAgent],
    *,
    retry_failed: bool = False,
    accept_changed_agent: bool = False,
    rubric: str | None = None,
    base_url: str | None = None,
    judge_base_url: str | Sequence[str] | None = None,
    trust_archive: bool = False,
    progress: Progress | None = None,
    clock: Clock = now,
    **spending: Unpack[Spending],
) -> RunResult | None:
    """Do what is missing of a run, as `harness resume` does. None if nothing is missing.

    `loaded` is the run's agent, or a function that loads the agent; it is called only if rollouts are missing.
    `spending` (`max_cost`, `prices`, `price_by_name`) holds in place of the run's own, but prices are added to those.
    `rubric` names the run's rubric where the run does not hold its text. A run that this machine has no record of gets
    keys only with its addresses as `base_url` and `judge_base_url`, or with `trust_archive`. Raises UsageError,
    ArchiveLocked, ArchiveDamaged.
    """
    judge_urls = judge_base_url if isinstance(judge_base_url, str | None) else tuple(judge_base_url)
    return await resume_run(
        folder,
        loaded,
        surroundings_of(progress, clock),
        retry_failed=retry_failed,
        accept_changed_agent=accept_changed_agent,
        changes={name: value for name, value in spending.items() if value is not None},
        rubric_word=rubric,
        named=NamedAddresses(base_url, judge_urls),
        trust_archive=trust_archive,
    )


async def rescore(
    folder: Path,
    changes: Mapping[str, Any],
    *,
    reuse: Sequence[Path] = (),
    free: bool = False,
    rendering: int = RENDERING,
    trust_archive: bool = False,
    progress: Progress | None = None,
    clock: Clock = now,
) -> RunResult:
    """Judge an archived run again under `changes` to its settings, as `harness rescore` does.

    Only verdicts that neither the run nor the runs in `reuse` hold are bought; with `free` none is bought. With
    `rendering=1` transcripts are written as version 0.1.0 wrote them, so that its verdicts are reused. Keys go to the
    judge's address of a run that this machine has no record of only if `changes` name that address, or with
    `trust_archive`. Raises UsageError, ArchiveLocked, ArchiveDamaged.
    """
    surroundings = surroundings_of(progress, clock)
    options = RescoreOptions(reuse, free=free, rendering=rendering, trust_archive=trust_archive)
    return await rescore_run(folder, changes, surroundings, options)
