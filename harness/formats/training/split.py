"""Which file a query's lines go to: by a hash of the query's id, so the same in every export and of every run."""

import hashlib
import math
import re
from collections.abc import Mapping

from harness.core.errors import UsageError, quoted

_NAME = re.compile(r"[A-Za-z0-9_]{1,50}")
WHOLE = {"train": 1.0}
"""All queries in one file."""


def read_split(text: str) -> dict[str, float]:
    """Return shares by name from `train=0.9,test=0.1`. Raises UsageError."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (word.strip() for word in part.partition("="))
        try:
            share = float(number)
        except ValueError:
            share = math.nan
        if not _NAME.fullmatch(name) or name in shares or not 0 < share <= 1:
            raise UsageError(f"--split {quoted(text)}: expected names with shares, such as train=0.9,test=0.1")
        shares[name] = share
    if abs(sum(shares.values()) - 1) > 1e-6:
        raise UsageError(f"--split {quoted(text)}: the shares add up to {sum(shares.values()):g}, not to 1")
    return shares


def split_of(query_id: str, shares: Mapping[str, float]) -> str:
    """Return the name of the part that a query belongs to."""
    hashed = hashlib.sha256(query_id.encode("utf-8", "surrogatepass")).digest()
    place, total = int.from_bytes(hashed[:8], "big") / 2**64, 0.0
    for name, share in shares.items():
        total += share
        if place < total:
            return name
    return list(shares)[-1]  # the shares add up to a little less than 1
