"""A run made of trajectories from elsewhere."""

import secrets
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path

from harness.archive.run_info import RunInfo, new_run_id
from harness.archive.store import RunStore
from harness.archive.typed_records import RankingHead
from harness.core.settings import Settings, as_written
from harness.formats.imported import ImportedRun
from harness.formats.trajectory_files import Format, read_trajectories
from harness.pipeline.resolve import make_redactor
from harness.pipeline.run_environment import RunEnvironment, package_versions
from harness.pipeline.trust import attested

_MOST_JUDGES = 8


def import_trajectories(
    files: Sequence[Path],
    settings: Settings,
    run_env: RunEnvironment,
    *,
    format: Format | None = None,  # noqa: A002 - the option's name
    first_is_anchor: bool = False,
    name: str = "imported",
) -> tuple[Path, ImportedRun]:
    """Make a run of trajectories made elsewhere; return its folder and what was counted. Raises UsageError."""
    at = run_env.clock()
    counting = ImportedRun("", at)
    for foreign in read_trajectories(files, format):
        counting.rollout(foreign)
    settings = replace(settings, n=min(max(counting.counts.values()), 256))
    info = RunInfo(
        schema_version=1,
        id=new_run_id(name, at, secrets.token_hex(8)),
        created_at=at,
        agent=name,
        judge={},
        settings=as_written(settings),
        offline=False,
        versions=package_versions(),
    )
    redact = make_redactor(None, settings, run_env.environ)
    with RunStore.create(settings.runs_dir, info, redact=redact) as store, attested(store, run_env):
        importing = ImportedRun(info.id, at, first_is_anchor, store.put_blob)
        for foreign in read_trajectories(files, format):
            if query := importing.query(foreign):
                store.add_query(query.model_copy(update={"metadata": counting.shared[query.id]}))
            if rollout := importing.rollout(foreign):
                store.add_rollout(rollout)
        if not importing.places:
            return store.folder, importing
        judges = dict.fromkeys(places.origin.judge for places in importing.places.values() if places.origin.judge)
        head = RankingHead(  # of the places that came with the rollouts, for which no judge was asked
            id=f"{at:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}",
            created_at=at,
            settings=as_written(settings),
            judge={"model": ", ".join(islice(judges, _MOST_JUDGES)) or "imported"},
            rubric="imported",
        )
        with closing(store.open_ranking(head)) as writer:
            for query, places in importing.places.items():
                writer.add(places.ranking(query))
            writer.finish()
        return store.folder, importing
