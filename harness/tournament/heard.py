"""What the verdicts on a pair come to: each side's score, and the record of the match."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, cast, final

from harness.core.rankings import Match
from harness.core.verdicts import PairJudgment, Unjudged
from harness.judging.jury import Averaging, average
from harness.ranking.early_stop import JurorCall
from harness.ranking.topology import UNITS, Exact, Pairing, Played, exact_mean, in_units

Order = tuple[int, int]
"""Two rollouts, the first shown first."""


@final
class VerdictScore(NamedTuple):
    """What a tournament takes of a verdict that came out."""

    key: str
    score_first: float
    score_second: float
    identical: bool
    """The transcripts shown are identical. The verdict is then the same in both orders and counts in both, also where
    the design asks for one: the two tie."""
    cut: bool
    """An answer was cut to fit --judge-budget."""
    juror: int | None = None
    """The seat of the juror who gave it; None of a single judge."""


OrderVerdicts = tuple[PairJudgment | Unjudged | VerdictScore, ...]
"""What each juror gave in one order of a pair; a single judge is a jury of one."""
HeardOrFailed = tuple[VerdictScore | Unjudged, ...]
VerdictsByOrder = dict[Order, list[HeardOrFailed]]
"""The verdicts by order, one of each repeat."""
_ByOrder = Mapping[Order, Sequence[tuple[VerdictScore, ...]]]
"""What counts of one pair, by order: for each repeat the verdicts of the same jurors."""


class _Ones(NamedTuple):
    """What counts of a pair that a single judge judged once an order, as nearly all are."""

    orders: Sequence[Order]
    heard: Sequence[VerdictScore]
    """One for each order."""


Counted = _ByOrder | _Ones
"""What counts of one pair."""


def heard_of(verdicts: OrderVerdicts) -> HeardOrFailed:
    """Return what a tournament takes of the verdicts of one order."""
    if len(verdicts) == 1 and type(verdicts[0]) is VerdictScore:
        return (verdicts[0],)
    seats = (None,) if len(verdicts) == 1 else range(len(verdicts))
    return tuple([v if isinstance(v, Unjudged) else _taken(v, seat) for v, seat in zip(verdicts, seats, strict=True)])


def _taken(verdict: PairJudgment | VerdictScore, juror: int | None) -> VerdictScore:
    if type(verdict) is VerdictScore:
        return verdict._replace(juror=juror)
    return VerdictScore(
        key=verdict.key,
        score_first=verdict.a.combined,
        score_second=verdict.b.combined,
        identical=verdict.first == verdict.second,
        cut=bool(verdict.cut),
        juror=juror,
    )


def is_of_twins(verdicts: HeardOrFailed) -> bool:
    """Tell whether the transcripts that were shown are identical."""
    return any(type(v) is VerdictScore and v.identical for v in verdicts)


def has_failed(by_order: Mapping[Order, Sequence[HeardOrFailed]]) -> bool:
    """Tell whether a verdict failed."""
    for repeats in by_order.values():
        for verdicts in repeats:
            for verdict in verdicts:
                if type(verdict) is not VerdictScore:
                    return True
    return False


def failed_of(repeats: Iterable[HeardOrFailed]) -> list[Unjudged]:
    """Return the verdicts that failed."""
    return [v for verdicts in repeats for v in verdicts if type(v) is not VerdictScore]


def ones_of(orders: Iterable[Order], verdicts: VerdictsByOrder) -> Counted | None:
    """Return what counts of a pair that a single judge judged once an order; None where it is not as plain as that."""
    ones = list[VerdictScore]()
    for order in orders:
        repeats = verdicts[order]
        if len(repeats) > 1 or len(repeats[0]) != 1:
            return None
        (one,) = repeats[0]
        if type(one) is not VerdictScore or one.identical:
            return None
        ones.append(one)
    return _Ones(tuple(orders), ones)


def counted_of(by_order: Mapping[Order, Sequence[HeardOrFailed]]) -> _ByOrder:
    """Return the verdicts of the jurors that gave every one.

    A juror with half a pair is left out of it: its liking for one position would count without its counterweight.
    """
    if not has_failed(by_order):
        return cast("_ByOrder", by_order)
    by_juror = zip(*(verdicts for repeats in by_order.values() for verdicts in repeats), strict=True)
    seats = [n for n, verdicts in enumerate(by_juror) if not any(isinstance(v, Unjudged) for v in verdicts)]
    return {
        order: [tuple(v for n in seats if not isinstance(v := verdicts[n], Unjudged)) for verdicts in repeats]
        for order, repeats in by_order.items()
    }


def scores_of_sides(pairing: Pairing, counted: Counted, averaging: Averaging) -> tuple[Exact, Exact] | None:
    """Return each side's score in units: a juror's mean over orders and repeats, averaged over jurors.

    None without a juror.
    """
    if type(counted) is _Ones:
        a, b = zip(*map(_by_side, [pairing.a] * len(counted.heard), *counted), strict=True)
        return _mean(a), _mean(b)
    rows = [
        [_by_side(pairing.a, order, v) for v in verdicts]
        for order, repeats in cast("_ByOrder", counted).items()
        for verdicts in repeats
    ]
    by_juror = [tuple(zip(*of_seat, strict=True)) for of_seat in zip(*rows, strict=True)]
    if not by_juror:
        return None
    return _averaged([a for a, _ in by_juror], averaging), _averaged([b for _, b in by_juror], averaging)


def juror_calls(counted: Counted) -> list[JurorCall]:
    """Return what each juror of a jury says of a pair; nothing of a single judge."""
    if type(counted) is _Ones:
        return []
    return [
        (*order, heard.score_first, heard.score_second, heard.juror)
        for order, repeats in cast("_ByOrder", counted).items()
        for of_jurors in repeats
        for heard in of_jurors
        if heard.juror is not None
    ]


def _by_side(a: int, order: Order, heard: VerdictScore) -> tuple[float, float]:
    _, first, second, *_ = heard
    return (first, second) if order[0] == a else (second, first)


def _averaged(by_juror: Sequence[tuple[float, ...]], averaging: Averaging) -> Exact:
    if len(by_juror) == 1:
        return _mean(by_juror[0])
    return average([Fraction(_mean(scores)) for scores in by_juror], averaging)


@lru_cache(maxsize=1 << 14)  # judges give marks of one decimal, so that nearly all means come again and again
def _mean(scores: tuple[float, ...]) -> Exact:
    return exact_mean([in_units(score) for score in scores])


def match_of(played: Played, counted: Counted, averaging: Averaging) -> Match:
    """Return the record of a match."""
    pairing, score_a, score_b, repeated = played
    if type(counted) is _Ones:
        used, shown_first = counted.heard, tuple([first for first, _ in counted.orders])
        winners = set(map(_winner_of_one, *counted))
    else:
        used, shown_first, winners = _told_apart(pairing, cast("_ByOrder", counted), averaging)
    keys, firsts, seconds, _, are_cut, jurors = zip(*used, strict=True)
    several, half = len(winners) > 1, len(keys) // 2
    differ = several and keys[:half] != keys[half:]  # twins have one verdict for both orders
    return Match(
        round=pairing.round,
        a=pairing.a,
        b=pairing.b,
        verdicts=keys,
        shown_first=shown_first,
        score_a=float(score_a / UNITS),
        score_b=float(score_b / UNITS),
        winner=_higher(pairing, score_a, score_b),
        flipped=differ and None not in winners,
        inconsistent=several and None in winners,
        repeated=repeated,
        scores=tuple(zip(firsts, seconds, strict=True)),
        cut=True in are_cut,
        **({} if None in jurors else {"jurors": jurors}),
    )


def _told_apart(
    pairing: Pairing, by_order: _ByOrder, averaging: Averaging
) -> tuple[list[VerdictScore], tuple[int, ...], set[int | None]]:
    """Return the verdicts, for each the rollout that it showed first, and the winners that the orders name."""
    used, shown_first, winners = list[VerdictScore](), list[int](), set[int | None]()
    for order, repeats in by_order.items():
        of_order = [heard for of_jurors in repeats for heard in of_jurors]
        used += of_order
        shown_first += [order[0]] * len(of_order)
        winners.add(_winner(pairing, order, repeats, averaging))
    return used, tuple(shown_first), winners


def _higher(pairing: Pairing, score_a: Exact, score_b: Exact) -> int | None:
    """Return the rollout with the higher score; None for a tie."""
    if score_a == score_b:
        return None
    return pairing.a if score_a > score_b else pairing.b


def rests_on(pairing: Pairing, verdicts: VerdictsByOrder) -> Counted:
    """Return the verdicts that a repeated match rests on: the pair may have met the other way round before."""
    both = [(pairing.a, pairing.b), (pairing.b, pairing.a)]
    met = [order for order in dict.fromkeys((*pairing.orders, *both)) if order in verdicts]
    return ones_of(met, verdicts) or counted_of(
        {order: repeats for order in met if any(counted_of({order: (repeats := verdicts[order])})[order])}
    )


def _winner_of_one(order: Order, heard: VerdictScore) -> int | None:
    """Return the rollout that a verdict names; None for a tie."""
    _, first, second, *_ = heard
    return None if first == second else order[first < second]


def _winner(
    pairing: Pairing, order: Order, repeats: Sequence[tuple[VerdictScore, ...]], averaging: Averaging
) -> int | None:
    """Return the rollout that an order names, by the mean over its repeats, over all jurors; None for a tie."""
    if len(repeats) == len(repeats[0]) == 1:
        return _winner_of_one(order, repeats[0][0])
    means = scores_of_sides(pairing, {order: repeats}, averaging)
    return _higher(pairing, *means) if means else None
