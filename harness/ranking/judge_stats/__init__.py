"""How far a judge can be trusted, in figures: flips, first position, ties, cycles, length, noise, and what orders buy.

The figures are sums over a group's verdicts that add up over groups, so that memory stays flat however long a run is.
Pure, as `harness.ranking` is: nothing here buys a verdict, ranks a rollout or writes a sentence.
"""

from harness.ranking.judge_stats.agreement import Share, kappa
from harness.ranking.judge_stats.orders import Advice, OrderSums
from harness.ranking.judge_stats.tally import JudgeCall, Tally, judge_calls, tally

__all__ = ["Advice", "JudgeCall", "OrderSums", "Share", "Tally", "judge_calls", "kappa", "tally"]
