"""A ranked group in brief, read from its line without the matches, which are three quarters of it."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from harness.core.rankings import Ranked


class RankedQuery(NamedTuple):
    """Which query's group a line of a ranking holds, whether that is ranked in full, and the places."""

    query: str
    is_open: bool
    """Whether something is missing of it."""
    provisional: bool
    ranks: Sequence[tuple[int, float]]
    """The index and the rank of each rollout that has one."""


_BEFORE = re.compile(
    rb'[^[]*,"kind":"group","query":"([ !#-[\]-~]*)","topology":"\w*","estimator":"\w*",'
    rb'"status":"(complete|incomplete)","signal":"\w*","provisional":(true|false),"secondary_fit":"\w*","matches":\['
)
_BEGIN, _END = b'],"rollouts":[', b'],"failed_verdicts":['
_PLACE = re.compile(rb'\{"index":(\d{1,9}),"score":[^,]*,"rank":(null|\d{1,9}\.\d),')
_QUOTES = 2 * len(Ranked.model_fields)
"""In a place without a text: those around the names."""


def read_in_brief(line: bytes) -> RankedQuery | None:
    """Return what a line says of its group, or None for one that is not just as this version writes it."""
    before = _BEFORE.match(line)
    at = line.find(_BEGIN, before.end() - 1) if before else -1
    end = line.find(_END, at)
    if before is None or at < 0 or end < 0 or line.rfind(_BEGIN) != at:
        return None
    places = line[at + len(_BEGIN) : end]
    read = _PLACE.findall(places)
    if places.count(b"{") != len(read) or places.count(b'"') != _QUOTES * len(read):
        return None
    query, status, provisional = before.groups()
    ranks = [(int(index), float(rank)) for index, rank in read if rank != b"null"]
    return RankedQuery(query.decode(), status == b"incomplete", provisional == b"true", ranks)
