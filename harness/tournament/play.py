"""One tournament played: a topology names the pairs, a jury gives verdicts, and matches are the result."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, Protocol, cast, final

import anyio
from anyio.abc import TaskGroup

from harness.core.rankings import Match
from harness.core.tracebacks import start_child
from harness.core.turns import my_turn
from harness.core.verdicts import PairJudgment, Unjudged
from harness.judging import Averaging, average
from harness.ranking import UNITS, Exact, Pairing, Played, Standing, Topology, exact_mean, in_units, standings_in_units

Order = tuple[int, int]
"""Two rollouts, the first shown first."""


@final
class Heard(NamedTuple):
    """What a tournament takes of a verdict that came out."""

    key: str
    score_first: float
    score_second: float
    of_twins: bool
    """The transcripts shown are identical. The verdict is then the same in both orders and counts in both, also where
    the design asks for one: the two tie."""
    cut: bool
    """An answer was cut to fit --judge-budget."""


OrderVerdicts = tuple[PairJudgment | Unjudged | Heard, ...]
"""What each juror gave in one order of a pair; a single judge is a jury of one."""
_HeardOrFailed = tuple[Heard | Unjudged, ...]
_VerdictsByOrder = dict[Order, list[_HeardOrFailed]]
"""The verdicts by order, one of each repeat."""
_CountedByOrder = Mapping[Order, Sequence[tuple[Heard, ...]]]
"""What counts of one pair, by order: for each repeat the verdicts of the same jurors."""


_Waiting = tuple[Pairing, list[tuple[Order, int]]]
"""A match, and its verdicts that are not at hand."""


class VerdictsAtHand(Protocol):
    """Has verdicts on two rollouts in an order, each order `repeats` times."""

    @property
    def repeats(self) -> int:
        """How often each order is judged."""
        ...

    @property
    def averaging(self) -> Averaging:
        """How the scores of several jurors become one."""
        ...

    def at_hand(self, first: int, second: int, repeat: int) -> OrderVerdicts | None:
        """Return each juror's verdict if that needs no waiting; None otherwise."""
        ...


class OrderJury(VerdictsAtHand, Protocol):
    """Judges two rollouts in an order, too."""

    async def hear(self, first: int, second: int, repeat: int) -> OrderVerdicts:
        """Return each juror's verdict."""
        ...


@dataclass(frozen=True)
class PlayedTournament:
    """What a tournament left."""

    matches: tuple[Match, ...]
    """In the design's own order."""
    standings: Sequence[Standing]
    """Where each entrant got to; the points are in units."""
    open_verdicts: tuple[str, ...]
    """Keys of the failed verdicts that left a match open."""
    absent_verdicts: tuple[str, ...]
    """Keys of jurors' failed verdicts where the other jurors' stand."""


async def play(topology: Topology, jury: OrderJury) -> PlayedTournament:
    """Play `topology` to its end, or as far as verdicts can be had.

    The scores of a match are means over orders and repeats, averaged over jurors. A pair on which no juror gave every
    verdict leaves its match open, and only what depends on that match is not played. What is returned does not depend
    on which reply comes first.
    """
    playing = _Playing(topology, jury)
    if waiting := playing.go_on():
        async with anyio.create_task_group() as tasks:
            playing.wait(waiting, tasks, jury)
    return playing.result()


def play_at_hand(topology: Topology, verdicts: VerdictsAtHand) -> PlayedTournament | None:
    """Return what `play` would where every verdict is at hand, and None otherwise: nothing is waited for."""
    playing = _Playing(topology, verdicts)
    return None if playing.go_on() else playing.result()


@dataclass
class _Playing:
    """A tournament under way."""

    topology: Topology
    jury: VerdictsAtHand
    verdicts: _VerdictsByOrder = field(default_factory=dict[Order, list[_HeardOrFailed]])
    counted: dict[Pairing, _CountedByOrder] = field(default_factory=dict[Pairing, _CountedByOrder])
    """What the matches settled rest on."""
    opened: set[str] = field(default_factory=set[str])
    started: set[Pairing] = field(default_factory=set[Pairing])
    recorded: int = 0

    def go_on(self) -> list[_Waiting]:
        """Begin every match that can be played now, and return those that have to wait for verdicts.

        Matches whose verdicts are at hand are settled at once, and may open others. A task, which costs more than all
        the rest, is for what has to wait.
        """
        waiting = list[_Waiting]()
        while True:
            playable = self.topology.pairings()
            if len(playable) == len(self.started) - self.recorded:  # all under way: there may be thousands
                return waiting
            if not (fresh := [pairing for pairing in playable if pairing not in self.started]):
                return waiting
            self.started.update(fresh)
            for pairing in fresh:
                if missing := self._missing(pairing):
                    waiting.append((pairing, missing))
                else:
                    self._settle(pairing)

    def wait(self, waiting: Sequence[_Waiting], tasks: TaskGroup, jury: OrderJury) -> None:
        """Play the matches that have to wait for verdicts, and what follows from them, in `tasks`."""
        for pairing, missing in waiting:
            start_child(tasks, self._play, pairing, missing, tasks, jury)

    def _missing(self, pairing: Pairing) -> list[tuple[Order, int]]:
        """Return the verdicts of a match that are not at hand, and note the others."""
        missing: list[tuple[Order, int]] = []
        at_hand, repeats = self.jury.at_hand, range(self.jury.repeats)
        for order in pairing.orders:
            heard: list[_HeardOrFailed] = []
            self.verdicts[order] = heard
            for repeat in repeats:
                if verdicts := at_hand(*order, repeat):
                    heard.append(_heard(verdicts))
                else:
                    heard.append(())
                    missing.append((order, repeat))
        return missing

    async def _play(
        self, pairing: Pairing, missing: Sequence[tuple[Order, int]], tasks: TaskGroup, jury: OrderJury
    ) -> None:
        async with anyio.create_task_group() as both:
            for order, repeat in missing:
                start_child(both, self._judge, order, repeat, jury)
        await my_turn()  # what the result decides may take a fit
        self._settle(pairing)
        self.wait(self.go_on(), tasks, jury)

    async def _judge(self, order: Order, repeat: int, jury: OrderJury) -> None:
        self.verdicts[order][repeat] = _heard(await jury.hear(*order, repeat))

    def _settle(self, pairing: Pairing) -> None:
        by_order = {order: self.verdicts[order] for order in pairing.orders}
        for (first, second), repeats in list(by_order.items()):
            if _is_of_twins(repeats[0]):
                by_order[second, first] = self.verdicts[second, first] = repeats
        counted = _counted(by_order)
        if means := _means(pairing, counted, self.jury.averaging):
            self.counted[pairing] = counted
            self.topology.record(pairing, *means)
            self.recorded += 1
        else:
            self.opened.update(v.key for repeats in by_order.values() for v in _failed(repeats))

    def result(self) -> PlayedTournament:
        """Return what was played."""
        every = self.verdicts
        failed = {v.key for repeats in every.values() for v in _failed(repeats)} if _has_failed(every) else set[str]()
        return PlayedTournament(
            matches=tuple(map(self._match, self.topology.matches)),
            standings=standings_in_units(self.topology),
            open_verdicts=tuple(sorted(self.opened)),
            absent_verdicts=tuple(sorted(failed - self.opened)),
        )

    def _match(self, played: Played) -> Match:
        counted = self.counted.get(played.pairing) or _rests_on(played.pairing, self.verdicts)
        return _match(played, counted, self.jury.averaging)


def _heard(verdicts: OrderVerdicts) -> _HeardOrFailed:
    if len(verdicts) == 1 and type(verdicts[0]) is Heard:
        return (verdicts[0],)
    return tuple([v if type(v) is Heard or isinstance(v, Unjudged) else _taken(v) for v in verdicts])


def _taken(verdict: PairJudgment) -> Heard:
    return Heard(
        key=verdict.key,
        score_first=verdict.a.combined,
        score_second=verdict.b.combined,
        of_twins=verdict.first == verdict.second,
        cut=bool(verdict.cut),
    )


def _is_of_twins(verdicts: _HeardOrFailed) -> bool:
    for verdict in verdicts:
        if type(verdict) is Heard and verdict.of_twins:
            return True
    return False


def _has_failed(by_order: Mapping[Order, Sequence[_HeardOrFailed]]) -> bool:
    for repeats in by_order.values():
        for verdicts in repeats:
            for verdict in verdicts:
                if type(verdict) is not Heard:
                    return True
    return False


def _failed(repeats: Iterable[_HeardOrFailed]) -> list[Unjudged]:
    return [v for verdicts in repeats for v in verdicts if type(v) is not Heard]


def _counted(by_order: Mapping[Order, Sequence[_HeardOrFailed]]) -> _CountedByOrder:
    """Return the verdicts of the jurors that gave every one.

    A juror with half a pair is left out of it: its liking for one position would count without its counterweight.
    """
    if not _has_failed(by_order):
        return cast("_CountedByOrder", by_order)  # as nearly always
    by_juror = zip(*(verdicts for repeats in by_order.values() for verdicts in repeats), strict=True)
    seats = [n for n, verdicts in enumerate(by_juror) if not any(isinstance(v, Unjudged) for v in verdicts)]
    return {
        order: [tuple(v for n in seats if not isinstance(v := verdicts[n], Unjudged)) for verdicts in repeats]
        for order, repeats in by_order.items()
    }


def _means(pairing: Pairing, counted: _CountedByOrder, averaging: Averaging) -> tuple[Exact, Exact] | None:
    """Return each side's score in units: a juror's mean over orders and repeats, averaged over jurors.

    None without a juror.
    """
    rows = [
        [(v.score_first, v.score_second) if first == pairing.a else (v.score_second, v.score_first) for v in verdicts]
        for (first, _), repeats in counted.items()
        for verdicts in repeats
    ]
    if len(rows[0]) == 1:  # a single judge
        a, b = zip(*[only for (only,) in rows], strict=True)
        return _mean(a), _mean(b)
    by_juror = [tuple(zip(*of_seat, strict=True)) for of_seat in zip(*rows, strict=True)]
    if not by_juror:
        return None
    return _averaged([a for a, _ in by_juror], averaging), _averaged([b for _, b in by_juror], averaging)


def _averaged(by_juror: Sequence[tuple[float, ...]], averaging: Averaging) -> Exact:
    if len(by_juror) == 1:
        return _mean(by_juror[0])
    return average([Fraction(_mean(scores)) for scores in by_juror], averaging)


@lru_cache(maxsize=1 << 14)  # judges give marks of one decimal, so that nearly all means come again and again
def _mean(scores: tuple[float, ...]) -> Exact:
    return exact_mean([in_units(score) for score in scores])


def _match(played: Played, counted: _CountedByOrder, averaging: Averaging) -> Match:
    pairing = played.pairing
    used, shown_first, winners = list[Heard](), list[int](), set[int | None]()
    for order, repeats in counted.items():
        before = len(used)
        for of_jurors in repeats:
            used += of_jurors
        shown_first += [order[0]] * (len(used) - before)
        winners.add(_winner(pairing, order, repeats, averaging))
    keys, firsts, seconds, _, are_cut = zip(*used, strict=True)
    return Match(
        round=pairing.round,
        a=pairing.a,
        b=pairing.b,
        verdicts=keys,
        shown_first=tuple(shown_first),
        score_a=float(played.score_a / UNITS),
        score_b=float(played.score_b / UNITS),
        winner=_higher(pairing, played.score_a, played.score_b),
        flipped=len(winners) > 1 and len(winners - {None}) > 1 and _differ(counted),
        inconsistent=len(winners) > 1 and None in winners,
        repeated=played.repeated,
        scores=tuple(zip(firsts, seconds, strict=True)),
        cut=True in are_cut,
    )


def _higher(pairing: Pairing, score_a: Exact, score_b: Exact) -> int | None:
    """Return the rollout with the higher score; None for a tie."""
    if score_a == score_b:
        return None
    return pairing.a if score_a > score_b else pairing.b


def _rests_on(pairing: Pairing, verdicts: _VerdictsByOrder) -> _CountedByOrder:
    """Return the verdicts that a repeated match rests on: the pair may have met the other way round before."""
    both = [(pairing.a, pairing.b), (pairing.b, pairing.a)]
    met = {order: verdicts[order] for order in dict.fromkeys((*pairing.orders, *both)) if order in verdicts}
    return _counted({order: repeats for order, repeats in met.items() if any(_counted({order: repeats})[order])})


def _differ(counted: _CountedByOrder) -> bool:
    """Tell whether the orders rest on different verdicts: two identical transcripts have the same in both."""
    return len({tuple(v.key for row in repeats for v in row) for repeats in counted.values()}) > 1


def _winner(pairing: Pairing, order: Order, repeats: Sequence[tuple[Heard, ...]], averaging: Averaging) -> int | None:
    """Return the rollout that an order names, by the mean over its repeats, over all jurors; None for a tie."""
    if len(repeats) == len(repeats[0]) == 1:
        only = repeats[0][0]
        return None if only.score_first == only.score_second else order[only.score_first < only.score_second]
    means = _means(pairing, {order: repeats}, averaging)
    return _higher(pairing, *means) if means else None
