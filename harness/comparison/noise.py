"""Whether a judge's verdicts on two sides are noise: how the two orders of the same pair agree."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.comparison.intervals import scipy
from harness.comparison.outcomes import paired_rollouts
from harness.core.comparisons import ComparedQuery
from harness.core.rounded import percent_half_up
from harness.core.wording import counted

COIN = 0.5
"""The share of decided pairs that a judge decides differently in the other order if this judge tosses a coin.

A judge's verdicts are noise unless the 95 % interval of this judge's share (Wilson's) ends below it.
"""


@dataclass(frozen=True)
class Reversals:
    """How the two orders agree on pairs of different transcripts."""

    judged: int
    """Pairs that were judged in both orders."""
    decided: int
    """Pairs of which both orders name a winner."""
    flipped: int
    """Pairs of which the two orders name opposite winners."""

    def noise(self) -> str | None:
        """Return in words why the verdicts say nothing; None where they do, and where nothing was judged."""
        if not self.judged:
            return None
        if not self.decided:
            return (
                f"in none of {counted(self.judged, 'pair')} of different transcripts does the judge name a winner in "
                "both orders: the judge tells nothing apart"
            )
        flips = scipy("stats").binomtest(self.flipped, self.decided).proportion_ci(method="wilson")
        if flips.high < COIN:
            return None
        share, low, high = map(percent_half_up, (self.flipped / self.decided, flips.low, flips.high))
        return (
            f"in {self.flipped:,} of {counted(self.decided, 'decided pair')} the judge names the other winner when the "
            f"order is reversed ({share} % [{low}, {high}]); a coin does so in "
            f"{100 * COIN:.0f} %: such verdicts are noise"
        )


def reversals(queries: Sequence[ComparedQuery]) -> Reversals:
    """Count how the orders agree on the pairs of two sides; the anchors' pairs count too."""
    in_both_orders = [
        (match, *(rollout and rollout.transcript for rollout in paired_rollouts(query, match)))
        for query in queries
        for match in query.matches
        if match.sides == (0, 1) and match.winner is not None and len(set(match.shown_first)) == 2
    ]
    matches = [match for match, first, second in in_both_orders if first is None or first != second]
    decided = [match for match in matches if match.flipped or (not match.inconsistent and match.winner != "tie")]
    return Reversals(len(matches), len(decided), sum(match.flipped for match in decided))
