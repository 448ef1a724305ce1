"""The tournament: a group of rollouts becomes a ranking, by matches of two or by one list.

It asks judges and ranks what they say. It must not know how rollouts are made, nor where rankings are kept.
"""

from harness.tournament.at_hand import RankerAtHand
from harness.tournament.cross import CrossPair, play_cross, shared_task
from harness.tournament.early import EarlyVerdicts
from harness.tournament.group import Rules, rules_of
from harness.tournament.list_scores import LIST_BUDGET, JuryScores, clipped, scale_notes, score_list
from harness.tournament.pairwise import TournamentRanker
from harness.tournament.pooling import learnt_from_all, told_by
from harness.tournament.ranker import METHODS, AnyRubric, Ranker
from harness.tournament.result import TournamentResult

__all__ = [
    "LIST_BUDGET",
    "METHODS",
    "AnyRubric",
    "CrossPair",
    "EarlyVerdicts",
    "JuryScores",
    "Ranker",
    "RankerAtHand",
    "Rules",
    "TournamentRanker",
    "TournamentResult",
    "clipped",
    "learnt_from_all",
    "play_cross",
    "rules_of",
    "scale_notes",
    "score_list",
    "shared_task",
    "told_by",
]
