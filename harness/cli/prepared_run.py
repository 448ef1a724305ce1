"""What `run` and `best` do before they spend: load the agent, read the queries, check all that can be checked free."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from harness.cli.process import stdout_for_results
from harness.core.errors import UsageError
from harness.core.records import Query
from harness.core.settings import Settings
from harness.core.user_files import text_lines
from harness.formats import PackedQueries, query_from, read_queries
from harness.pipeline import Prepared, prepare
from harness.rollouts import LoadedAgent, load_agent


def prepare_run(
    agent: str, query: str | None, queries: str | None, settings: Settings, environ: Mapping[str, str]
) -> tuple[Sequence[Query], Prepared]:
    """Return the queries to ask and the checked run. Raises UsageError."""
    with stdout_for_results():  # what an agent's file prints must not stand among the results
        loaded = load_agent(agent, Path.cwd())
        return _queries(loaded, query, queries), anyio.run(prepare, loaded, settings, environ)


def _queries(loaded: LoadedAgent, query: str | None, queries: str | None) -> Sequence[Query]:
    """Return the queries to run: those given, else the agent's first example. Raises UsageError."""
    if queries is not None and query is not None:
        raise UsageError("give a QUERY or --queries FILE, not both")
    if query == "-":
        return [query_from("".join(line for _, line in text_lines(None, "QUERY -")).strip())]
    if queries is not None:
        return PackedQueries(read_queries(queries))
    if query is None and not loaded.examples:
        raise UsageError(
            f'agent {loaded.name!r} lists no EXAMPLES: give a query, as in `harness run --agent {loaded.name} "..."`'
        )
    return [query_from(loaded.examples[0] if query is None else query)]
