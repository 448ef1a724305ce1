"""The tournament: a group of rollouts becomes a ranking, by matches of two or by one list.

It asks judges and ranks what they say. It must not know how rollouts are made, nor where rankings are kept.
"""

from harness.tournament.group import Rules
from harness.tournament.listwise import (
    ESTIMATOR,
    LIST_BUDGET,
    TOPOLOGY,
    Listed,
    clipped,
    rank_list,
    scale_notes,
    score_list,
)
from harness.tournament.pairwise import rank_group

__all__ = [
    "ESTIMATOR",
    "LIST_BUDGET",
    "TOPOLOGY",
    "Listed",
    "Rules",
    "clipped",
    "rank_group",
    "rank_list",
    "scale_notes",
    "score_list",
]
