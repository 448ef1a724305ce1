"""Driving the agent of an archived run again, on what the run recorded."""

import random
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from harness.archive.reader import RunReader
from harness.core.errors import UsageError, did_you_mean, quoted
from harness.core.records import Query, Rollout
from harness.core.settings import Api
from harness.pipeline.resolve import make_redactor
from harness.pipeline.trust import agent_of_run, trust_in
from harness.rollouts.environment import AgentEnv
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.raw import RawCall, unpack
from harness.rollouts.replay import Replayed, ReplayOptions, replay_rollout


async def replay_run(
    folder: Path,
    loaded: LoadedAgent | None,
    environ: Mapping[str, str],
    *,
    query: str | None = None,
    rollout: int | None = None,
    live_tools: bool = False,
    trust_archive: bool = False,
) -> AsyncGenerator[Replayed]:
    """Drive the agent's code again on what an archived run recorded: free, offline, and nothing is written.

    Yields each outcome, of one query or rollout where named. Raises UsageError, ArchiveDamaged.
    """
    with RunReader(folder) as reader:
        if next(_chosen(reader, query, rollout))[1].origin:
            raise UsageError(f"run {reader.info.id} was imported: it holds no model calls to replay")
        trust = trust_in(reader, environ, trust_archive=trust_archive)
        loaded = loaded or agent_of_run(reader, environ, "replay")
        loaded = replace(loaded, instructions=reader.info.instructions)
        settings = trust.checked(reader.settings) if live_tools else trust.replayed(reader.settings)
        redact = make_redactor(loaded, settings, environ)
        for of_query, recorded in _chosen(reader, query, rollout):
            calls, name = list[RawCall](), recorded.raw_calls
            if name:
                calls = unpack(reader.blobs.get(name), reader.blobs.get, reader.blobs.place(name))
            # a run that does not say which API it spoke shows it: Chat Completions gives the SDK no response id
            spoke: Api = "responses" if any(call.reply.response_id for call in calls) else "chat"
            env = AgentEnv(
                api=reader.info.agent_api or settings.api or spoke,
                offline=reader.info.agent_offline,
                corpus=settings.corpus,
                model=settings.model,
                rng=random.Random(f"{settings.seed}/{recorded.query}/{recorded.index}"),
            )
            options = ReplayOptions(settings.max_turns, settings.timeout, redact, live_tools)
            yield await replay_rollout(loaded, env, of_query, recorded, calls, options)


def _chosen(reader: RunReader, query: str | None, rollout: int | None) -> Iterator[tuple[Query, Rollout]]:
    """Yield the rollouts of a run that are meant. Raises UsageError where there are none."""
    queries = list(reader.queries())
    if query is not None and query not in (ids := [q.id for q in queries]):
        raise UsageError(f"no query {quoted(query)} in run {reader.info.id}{did_you_mean(query, ids)}")
    pairs = (
        (asked, recorded)
        for asked in queries
        if query in (None, asked.id)
        for recorded in reader.group(asked).rollouts
        if rollout in (None, recorded.index)
    )
    if (first := next(pairs, None)) is None:
        raise UsageError(f"run {reader.info.id} has no rollout {'at all' if rollout is None else rollout}")
    yield first
    yield from pairs
