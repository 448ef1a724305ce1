"""What a new run's `run.json` says: settings, agent, judge and versions."""

import secrets
from importlib.metadata import version

from harness.archive.layout import new_run_id
from harness.archive.run_info import RunInfo
from harness.core.addresses import without_credentials
from harness.core.clock import Clock
from harness.core.redaction import Redactor
from harness.core.settings import as_written
from harness.pipeline.plan import Prepared
from harness.pipeline.rubrics import text_to_keep, whole_text
from harness.transcripts.transcript import RENDERING

_PACKAGES = ("arena-harness", "openai-agents", "openai", "pydantic")


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that decide what a run does."""
    return {name: version(name) for name in _PACKAGES}


def new_run_info(prepared: Prepared, clock: Clock, queries: int | None, redact: Redactor) -> RunInfo:
    """Describe a run that begins now; `queries` is their number where it is known, `redact` the run's."""
    at, loaded, endpoint = clock(), prepared.agent.loaded, prepared.agent.endpoint
    return RunInfo(
        schema_version=1,
        id=new_run_id(loaded.name, at, secrets.token_hex(8)),
        created_at=at,
        agent=loaded.name,
        agent_file=loaded.file.name if loaded.file else None,
        settings=as_written(prepared.settings),
        judge=prepared.judge.model_dump(mode="json"),
        offline=prepared.offline,
        agent_offline=prepared.agent.offline,
        agent_api=endpoint.api if endpoint else None,
        endpoint=endpoint and {"base_url": without_credentials(endpoint.base_url), "api": endpoint.api},
        agent_word=loaded.word,
        rubric=prepared.rubric.label,
        rendering=RENDERING,
        rubric_text=text_to_keep(prepared.rubric, redact),
        instructions=whole_text(loaded.instructions, redact),
        queries=queries,
        versions=package_versions(),
    )
