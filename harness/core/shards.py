"""A part of the queries, K of N: which queries are in it follows from their ids alone, on every machine alike."""

import hashlib
import re
from typing import NamedTuple

_WRITTEN = re.compile(r"([0-9]{1,7})/([0-9]{1,7})")
MOST_SHARDS = 100_000


class Shard(NamedTuple):
    """Part `number`, from 1, of so many parts `of` all queries."""

    number: int
    of: int

    def __str__(self) -> str:
        """Return it as a user writes it, `3/8`."""
        return f"{self.number}/{self.of}"

    def holds(self, query_id: str) -> bool:
        """Tell whether a query falls into this part."""
        return int.from_bytes(hashlib.sha256(query_id.encode()).digest()[:8]) % self.of == self.number - 1


def shard_in(text: str) -> Shard:
    """Return the part that a text such as `3/8` names. Raises ValueError."""
    written = _WRITTEN.fullmatch(text)
    shard = Shard(*map(int, written.groups())) if written else None
    if shard is None or not 1 <= shard.number <= shard.of <= MOST_SHARDS:
        raise ValueError(f"expected K/N, part K of N, such as 3/8: K from 1 to N, N up to {MOST_SHARDS:,}")
    return shard


def shard_word(text: str | None) -> str | None:
    """Return a setting's text as it is kept: `03/8` is `3/8`; None: all queries. Raises ValueError as `shard_in`."""
    return None if text is None else str(shard_in(text))
