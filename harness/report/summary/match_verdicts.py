"""A match and its verdicts, from the side of one of its two rollouts."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from harness.core.rankings import Match
from harness.core.verdicts import Judged, PairJudgment, SideScores

VerdictLookup = Callable[[str], Judged | None]
"""Returns the verdict with a key; None if the archive no longer has that verdict."""
ScoresLookup = Callable[[str], PairJudgment | None]
"""The same where the verdict's marks and words are not needed, nor read."""


MATCH_FLAGS = {
    "tie": "level scores; in the bracket the better seed goes on",
    "flipped": "the two orders name opposite winners",
    "inconsistent": "one order names a winner, the other a tie",
    "met before": "the pair had met; its scores were used again",
    "answer cut": "an answer was too long for --judge-budget: the judge saw it without its middle",
}
"""The flags that a match may have, and what each means."""


def match_flags(match: Match) -> tuple[str, ...]:
    """Return the flags of a match: names in `MATCH_FLAGS`."""
    holds = (match.winner is None, match.flipped, match.inconsistent, match.repeated, match.cut)
    return tuple(name for name, held in zip(MATCH_FLAGS, holds, strict=True) if held)


def score_of(match: Match, entrant: int) -> float:
    """Return the mean score of one side of a match."""
    return match.score_a if match.a == entrant else match.score_b


def opponent_of(match: Match, entrant: int) -> int:
    """Return the other side of a match."""
    return match.b if match.a == entrant else match.a


def verdict_keys(matches: Iterable[Match]) -> Iterable[str]:
    """Return the keys of the verdicts of matches, each key once, in the order of the matches."""
    return dict.fromkeys(chain.from_iterable([match.verdicts for match in matches]))


def judged_orders(match: Match, verdicts: VerdictLookup) -> Iterator[tuple[int, Judged | None]]:
    """Yield the rollout that each order showed first, and the verdict of that order."""
    for first, key in zip(match.shown_first, match.verdicts, strict=True):
        yield first, verdicts(key)


def marks_of_sides(match: Match, verdicts: VerdictLookup) -> Iterator[tuple[SideScores, SideScores]]:
    """Yield the scores of the match's `a` and `b`, in this order, by each verdict that the archive has."""
    for first, verdict in judged_orders(match, verdicts):
        if verdict:
            yield (verdict.a, verdict.b) if first == match.a else (verdict.b, verdict.a)
