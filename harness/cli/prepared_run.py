"""What `run` and `best` do before they spend: load the agent, read the queries, check all that can be checked free."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from harness.cli.process import stdout_for_results
from harness.core.errors import UsageError
from harness.core.records import Query
from harness.core.settings import Settings
from harness.core.user_files import text_lines
from harness.formats.queries import PackedQueries, in_shard, query_from, read_queries
from harness.pipeline.plan import Prepared, prepare
from harness.rollouts.loading import LoadedAgent, load_agent


def prepare_run(
    agent: str,
    query: str | None,
    queries: str | None,
    settings: Settings,
    environ: Mapping[str, str],
    *,
    shard: str | None = None,
) -> tuple[Sequence[Query], Prepared]:
    """Return the queries to ask, of all those that fall into `shard`, and the checked run. Raises UsageError."""
    with stdout_for_results():  # what an agent's file prints must not stand among the results
        loaded = load_agent(agent, Path.cwd())
        return _queries(loaded, query, queries, shard), anyio.run(prepare, loaded, settings, environ)


def _queries(loaded: LoadedAgent, query: str | None, queries: str | None, shard: str | None) -> Sequence[Query]:
    """Return the queries of a shard: of those given, else of the agent's first example. Raises UsageError."""
    if queries is None:
        return list(in_shard([_one_query(loaded, query)], shard))
    if query is not None:
        raise UsageError("give a QUERY or --queries FILE, not both")
    return PackedQueries(in_shard(read_queries(queries), shard))


def _one_query(loaded: LoadedAgent, query: str | None) -> Query:
    if query == "-":
        return query_from("".join(line for _, line in text_lines(None, "QUERY -")).strip())
    if query is None and not loaded.examples:
        raise UsageError(
            f'agent {loaded.name!r} lists no EXAMPLES: give a query, as in `harness run --agent {loaded.name} "..."`'
        )
    return query_from(loaded.examples[0] if query is None else query)
