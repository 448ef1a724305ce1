"""Why verdicts that a ranking waits for are missing, in words."""

from collections.abc import Iterable

import anyio

from harness.archive.folder_store import VerdictFolder
from harness.archive.run_store import RunStore
from harness.archive.store import MemoryStore, VerdictStore
from harness.core.rankings import GroupRanking
from harness.core.verdicts import AnyVerdict
from harness.endpoints.costs import Ceiling
from harness.pipeline.run_environment import RunEnvironment
from harness.report.summary.notes import open_reasons


def why_missing(ranking: GroupRanking, store: VerdictStore, run_env: RunEnvironment, ceiling: Ceiling) -> str | None:
    """Return what a failed verdict says, else why none was bought, as far as that is known."""
    why = next(iter(open_reasons(_verdicts(store), [ranking])), None) if ranking.failed_verdicts else None
    late = run_env.lateness if anyio.current_time() >= run_env.deadline.at else None
    return why or late or run_env.gates.given_up or ceiling.stopped


def _verdicts(store: VerdictStore) -> Iterable[AnyVerdict]:
    if isinstance(store, MemoryStore):
        return store.verdicts
    if isinstance(store, VerdictFolder):
        return store.failed
    return store.reader.verdicts() if isinstance(store, RunStore) else ()
