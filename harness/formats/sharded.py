"""The queries of one shard, out of all of them."""

from collections.abc import Iterator, Sequence

from harness.core.records import Query
from harness.core.shards import shard_in

Queries = Sequence[Query] | Iterator[Query]


def in_shard(queries: Queries, shard: str | None) -> Queries:
    """Return the queries that fall into a shard such as `3/8`, in their order; None: all. A stream stays a stream."""
    if shard is None:
        return queries
    part = shard_in(shard)
    chosen = (query for query in queries if part.holds(query.id))
    return chosen if isinstance(queries, Iterator) else list(chosen)
