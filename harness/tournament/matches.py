"""What the verdicts on a pair come to: each side's score, and the record of the match."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

from harness.core.rankings import Match
from harness.core.records import record_of
from harness.judging.jury import Averaging, average
from harness.ranking.topology import UNITS, Exact, Pairing, Played, exact_mean, in_units
from harness.tournament.sources import VerdictScore

Order = tuple[int, int]
"""Two rollouts, the first shown first."""
PairVerdicts = Mapping[Order, Sequence[Sequence[VerdictScore]]]
"""The verdicts on a pair by order: for each repeat those of the jurors, in the order of their seats."""


def each_verdict(verdicts: PairVerdicts) -> Iterator[tuple[Order, VerdictScore]]:
    """Yield every verdict with the order in which it was shown."""
    return ((order, v) for order, repeats in verdicts.items() for jury in repeats for v in jury)


def complete_jurors(verdicts: PairVerdicts) -> PairVerdicts:
    """Return the verdicts of the jurors that gave every one.

    A juror with half a pair is left out of it: its liking for one position would count without its counterweight.
    """
    if not any(v.failed for _, v in each_verdict(verdicts)):
        return verdicts
    by_juror = zip(*(jury for repeats in verdicts.values() for jury in repeats), strict=True)
    seats = [seat for seat, given in enumerate(by_juror) if not any(v.failed for v in given)]
    return {order: [[jury[seat] for seat in seats] for jury in repeats] for order, repeats in verdicts.items()}


def repeated_verdicts(pairing: Pairing, played: PairVerdicts) -> PairVerdicts:
    """Return the verdicts that a repeated match rests on: the pair may have met the other way round before."""
    both = [(pairing.a, pairing.b), (pairing.b, pairing.a)]
    met = {order: played[order] for order in dict.fromkeys((*pairing.orders, *both)) if order in played}
    return complete_jurors({order: of for order, of in met.items() if complete_jurors({order: of})[order][0]})


def score_sides(a: int, verdicts: PairVerdicts, averaging: Averaging) -> tuple[Exact, Exact] | None:
    """Return the scores of `a` and the other side in units: a juror's mean over orders and repeats, then over jurors.

    None without a juror.
    """
    rows = [
        [(v.score_first, v.score_second) if first == a else (v.score_second, v.score_first) for v in jury]
        for (first, _), repeats in verdicts.items()
        for jury in repeats
    ]
    sides = [tuple(zip(*of_juror, strict=True)) for of_juror in zip(*rows, strict=True)]
    if not sides:
        return None
    of_a, of_b = zip(*sides, strict=True)
    return _average(of_a, averaging), _average(of_b, averaging)


def _average(by_juror: Sequence[tuple[float, ...]], averaging: Averaging) -> Exact:
    if len(by_juror) == 1:
        return _mean(by_juror[0])
    return average([Fraction(_mean(scores)) for scores in by_juror], averaging)


@lru_cache(maxsize=1 << 14)  # judges give marks of one decimal, so that nearly all means come again and again
def _mean(scores: tuple[float, ...]) -> Exact:
    return exact_mean([in_units(score) for score in scores])


def record_match(played: Played, verdicts: PairVerdicts, averaging: Averaging) -> Match:
    """Return the record of a match and of the verdicts that it rests on."""
    pairing, score_a, score_b, repeated = played
    winners = {_winner(pairing, score_sides(pairing.a, {order: of}, averaging)) for order, of in verdicts.items()}
    orders, used = zip(*each_verdict(verdicts), strict=True)
    keys, jurors = tuple([v.key for v in used]), tuple([v.juror for v in used])
    several, half = len(winners) > 1, len(keys) // 2
    differ = several and keys[:half] != keys[half:]  # identical transcripts have one verdict for both orders
    match = {
        "round": pairing.round,
        "a": pairing.a,
        "b": pairing.b,
        "verdicts": keys,
        "shown_first": tuple([first for first, _ in orders]),
        "score_a": float(score_a / UNITS),
        "score_b": float(score_b / UNITS),
        "winner": _winner(pairing, (score_a, score_b)),
        "flipped": differ and None not in winners,
        "inconsistent": several and None in winners,
        "repeated": repeated,
        "scores": tuple([(v.score_first, v.score_second) for v in used]),
        "cut": any(v.cut for v in used),
        "jurors": () if None in jurors else jurors,
    }
    return record_of(Match, match)


def _winner(pairing: Pairing, scores: tuple[Exact, Exact] | None) -> int | None:
    """Return the rollout with the higher score; None for a tie."""
    if scores is None or scores[0] == scores[1]:
        return None
    return pairing.a if scores[0] > scores[1] else pairing.b
