"""How far a judge can be trusted, in figures: flips, first position, ties, cycles, length, noise, and what orders buy.

The figures are sums over a group's verdicts that add up over groups, so that memory stays flat however long a run is.
Pure, as `harness.ranking` is: nothing here buys a verdict, ranks a rollout or writes a sentence.
"""
