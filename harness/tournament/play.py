"""One tournament played: a topology names the pairs, whoever is asked gives verdicts, matches come out."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count, takewhile

import anyio
from anyio.abc import TaskGroup

from harness.core.rankings import Match
from harness.core.verdicts import Judged, Unjudged
from harness.judging import Averaging, average
from harness.ranking import Pairing, Played, Topology, exact

Bench = tuple[Judged | Unjudged, ...]
"""What each juror said of one order of a pair; a single judge is a jury of one."""
Ask = Callable[[int, int], Awaitable[Bench]]
"""Judges two rollouts, the first named shown first."""
AtHand = Callable[[int, int, int], Bench | None]
"""Tells without waiting what an order's first and second, in a repeat (the last), were judged before; None: ask."""
_Found = dict[tuple[tuple[int, int], int], Bench]
"""What was said, by order and repeat."""
_Whole = Mapping[tuple[int, int], Sequence[tuple[Judged, ...]]]
"""What counts of one pair, by order: for each repeat the verdicts of the same jurors."""


Outcome = tuple[tuple[Match, ...], tuple[str, ...], tuple[str, ...]]
"""What a tournament left: its matches, the keys of the failed verdicts that left a match open, and of those of jurors
that others stood in for."""


async def play(topology: Topology, *asks: Ask, averaging: Averaging = "mean", at_hand: AtHand | None = None) -> Outcome:
    """Play `topology` to its end, or as far as verdicts can be had.

    Each of `asks` judges every pair and order; the means of their scores count, averaged over jurors by `averaging`.
    Returns the matches in the design's own order. A pair on which no juror gave every verdict leaves its match open,
    and only what depends on that match is not played. The outcome does not depend on which reply comes first.
    """
    playing = _Playing(topology, asks, averaging, at_hand or _nothing, anyio.create_task_group())
    async with playing.tasks:
        playing.go_on()
    return playing.outcome()


def _nothing(_first: int, _second: int, _repeat: int) -> None:
    return None


@dataclass
class _Playing:
    """A tournament under way."""

    topology: Topology
    asks: Sequence[Ask]
    averaging: Averaging
    at_hand: AtHand
    tasks: TaskGroup
    verdicts: _Found = field(default_factory=dict[tuple[tuple[int, int], int], Bench])
    opened: set[str] = field(default_factory=set[str])
    started: set[Pairing] = field(default_factory=set[Pairing])
    recorded: int = 0

    def go_on(self) -> None:
        """Begin every match that can be played now; those settled at once may open others."""
        while True:
            found = self.topology.pairings()
            if len(found) == len(self.started) - self.recorded:  # all under way: there may be thousands
                return
            if not (fresh := [pairing for pairing in found if pairing not in self.started]):
                return
            self.started.update(fresh)
            for pairing in fresh:
                self._begin(pairing)

    def _begin(self, pairing: Pairing) -> None:
        """Settle a match whose verdicts are at hand; a task, which costs more than all the rest, is for the others."""
        missing: list[tuple[tuple[int, int], int]] = []
        for order in pairing.orders:
            for repeat in range(len(self.asks)):
                if known := self.at_hand(*order, repeat):
                    self.verdicts[order, repeat] = known
                else:
                    missing.append((order, repeat))
        if missing:
            self.tasks.start_soon(self._play, pairing, missing)
        else:
            self._settle(pairing)

    async def _play(self, pairing: Pairing, missing: Sequence[tuple[tuple[int, int], int]]) -> None:
        async with anyio.create_task_group() as both:
            for order, repeat in missing:
                both.start_soon(self._judge, order, repeat)
        self._settle(pairing)
        self.go_on()

    async def _judge(self, order: tuple[int, int], repeat: int) -> None:
        self.verdicts[order, repeat] = await self.asks[repeat](*order)

    def _settle(self, pairing: Pairing) -> None:
        said = {order: [self.verdicts[order, k] for k in range(len(self.asks))] for order in pairing.orders}
        means = _means(pairing, _whole(said), self.averaging)
        if means is None:
            self.opened.update(v.key for benches in said.values() for v in _failed(benches))
        else:
            self.topology.record(pairing, *means)
            self.recorded += 1

    def outcome(self) -> Outcome:
        """Return what was played."""
        failed = {v.key for v in _failed(self.verdicts.values())}
        matches = tuple(_match(played, self.verdicts, self.averaging) for played in self.topology.matches)
        return matches, tuple(sorted(self.opened)), tuple(sorted(failed - self.opened))


def _failed(benches: Iterable[Bench]) -> list[Unjudged]:
    return [v for bench in benches for v in bench if isinstance(v, Unjudged)]


def _whole(said: Mapping[tuple[int, int], Sequence[Bench]]) -> _Whole:
    """Return the verdicts of the jurors that gave every one.

    A juror with half a pair is left out of it: its liking for one position would count without its counterweight.
    """
    seats = [
        n
        for n, own in enumerate(zip(*(bench for benches in said.values() for bench in benches), strict=True))
        if all(isinstance(v, Judged) for v in own)
    ]
    return {
        order: [tuple(v for n in seats if isinstance(v := bench[n], Judged)) for bench in benches]
        for order, benches in said.items()
    }


def _means(pairing: Pairing, whole: _Whole, averaging: Averaging) -> tuple[Fraction, Fraction] | None:
    """Return each side's score, exact: a juror's mean over orders and repeats, averaged over jurors.

    None without a juror.
    """
    rows = [_scores(pairing, first, bench) for (first, _), benches in whole.items() for bench in benches]
    jurors = list(zip(*rows, strict=True))  # by juror, then by verdict: the scores of a and b
    if not jurors:
        return None
    a, b = ([sum((pair[side] for pair in said), Fraction()) / len(said) for said in jurors] for side in (0, 1))
    return average(a, averaging), average(b, averaging)


def _scores(pairing: Pairing, first: int, bench: Sequence[Judged]) -> list[tuple[Fraction, Fraction]]:
    """Return the scores of the pairing's a and b by each juror, in one order."""
    shown = [(exact(v.a.combined), exact(v.b.combined)) for v in bench]
    return shown if first == pairing.a else [(b, a) for a, b in shown]


def _match(played: Played, verdicts: _Found, averaging: Averaging) -> Match:
    pairing = played.pairing
    found = _judged(played, verdicts)
    used = [(v, first) for (first, _), benches in found.items() for bench in benches for v in bench]
    winners = [_winner(pairing, order, benches, averaging) for order, benches in found.items()]
    a, b = played.score_a, played.score_b
    return Match(
        round=pairing.round,
        a=pairing.a,
        b=pairing.b,
        verdicts=tuple(v.key for v, _ in used),
        shown_first=tuple(first for _, first in used),
        score_a=float(a),
        score_b=float(b),
        winner=None if a == b else pairing.a if a > b else pairing.b,
        flipped=_differ(found) and len({w for w in winners if w is not None}) > 1,
        inconsistent=None in winners and any(w is not None for w in winners),
        repeated=played.repeated,
        scores=tuple((v.a.combined, v.b.combined) for v, _ in used),
        cut=any(v.cut for v, _ in used),
    )


def _judged(played: Played, verdicts: _Found) -> _Whole:
    """Return the verdicts that a match rests on: a repeated pair may have met the other way round before."""
    pairing = played.pairing
    both = [(pairing.a, pairing.b), (pairing.b, pairing.a)]
    said = dict[tuple[int, int], list[Bench]]()
    for order in dict.fromkeys((*pairing.orders, *(both if played.repeated else ()))):
        benches = [verdicts[order, k] for k in takewhile(lambda k, o=order: (o, k) in verdicts, count())]
        if any(_whole({order: benches})[order]):
            said[order] = benches
    return _whole(said)


def _differ(found: _Whole) -> bool:
    """Tell whether the orders rest on different verdicts: two identical transcripts have the same in both."""
    return len({tuple(v.key for bench in benches for v in bench) for benches in found.values()}) > 1


def _winner(
    pairing: Pairing, order: tuple[int, int], benches: Sequence[tuple[Judged, ...]], averaging: Averaging
) -> int | None:
    """Return the rollout that an order names, by the mean over its repeats, over all jurors; None for a tie."""
    if len(benches) == len(benches[0]) == 1:
        score_first, score_second = benches[0][0].a.combined, benches[0][0].b.combined
        return None if score_first == score_second else order[score_first < score_second]
    means = _means(pairing, {order: benches}, averaging)
    if means is None or means[0] == means[1]:
        return None
    return pairing.a if means[0] > means[1] else pairing.b
