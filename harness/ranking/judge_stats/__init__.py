"""How far a judge can be trusted, in figures: flips, first position, ties, cycles, length, noise, and what orders buy.

Sums over a group's verdicts that add up over groups, so that a run of any length is told in flat memory. Pure, as
the room around it: it reads records, and buys, ranks and words nothing.
"""

from harness.ranking.judge_stats.agreement import Share, kappa
from harness.ranking.judge_stats.orders import Advice, OrderSums
from harness.ranking.judge_stats.tally import JudgeCall, Tally, judge_calls, tally

__all__ = ["Advice", "JudgeCall", "OrderSums", "Share", "Tally", "judge_calls", "kappa", "tally"]
