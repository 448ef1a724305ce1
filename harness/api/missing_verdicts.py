"""Why verdicts that a ranking waits for are missing, in words."""

from collections.abc import Iterable

import anyio

from harness.archive import MemoryStore, RunStore, Store
from harness.core.rankings import GroupRanking
from harness.core.verdicts import AnyVerdict
from harness.endpoints import Ceiling
from harness.pipeline import Surroundings


def why_missing(ranking: GroupRanking, store: Store, surroundings: Surroundings, ceiling: Ceiling) -> str | None:
    """Return what a failed verdict says, else why none was bought, as far as that is known."""
    missing = set(ranking.failed_verdicts)
    failed = (v.failure.message for v in _verdicts(store) if v.status == "failed" and v.key in missing)
    why = next(failed, None) if missing else None
    late = surroundings.lateness if anyio.current_time() >= surroundings.deadline.at else None
    return why or late or surroundings.gates.given_up or ceiling.stopped


def _verdicts(store: Store) -> Iterable[AnyVerdict]:
    if isinstance(store, MemoryStore):
        return store.verdicts
    return store.reader.verdicts() if isinstance(store, RunStore) else ()
