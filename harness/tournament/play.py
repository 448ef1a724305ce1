"""One tournament played: a topology names the pairs, a source gives verdicts, and matches are the result."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from harness.core.rankings import Match
from harness.core.tracebacks import start_child
from harness.core.turns import my_turn
from harness.ranking.comparisons import Fit
from harness.ranking.early_stop import EarlyStop
from harness.ranking.topology import Pairing, Standing, Topology, standings_in_units
from harness.tournament.matches import (
    Order,
    PairVerdicts,
    complete_jurors,
    each_verdict,
    record_match,
    repeated_verdicts,
    score_sides,
)
from harness.tournament.sources import JudgingSource, VerdictScore, VerdictSource

_Waiting = tuple[Pairing, list[tuple[Order, int]]]
"""A match, and its verdicts that are not cached."""


@dataclass(frozen=True)
class PlayedTournament:
    """What a tournament left."""

    topology: str
    """The name of its design."""
    matches: tuple[Match, ...]
    """In the design's own order."""
    standings: Sequence[Standing]
    """Where each entrant got to; the points are in units."""
    open_verdicts: tuple[str, ...] = ()
    """Keys of the failed verdicts that left a match open."""
    absent_verdicts: tuple[str, ...] = ()
    """Keys of jurors' failed verdicts where the other jurors' stand."""
    saved_calls: int = 0
    """Planned calls that were not made because they could not change who is best."""
    last_fit: Fit | None = None
    """The fit that ended the judging, if one did."""


async def play(topology: Topology, source: JudgingSource) -> PlayedTournament:
    """Play `topology` to its end, or as far as verdicts can be had.

    The scores of a match are means over orders and repeats, averaged over jurors. A pair on which no juror gave every
    verdict leaves its match open, and only what depends on that match is not played. What is returned does not depend
    on which reply comes first.
    """
    tournament = _Tournament(topology, source)
    if waiting := tournament.advance():
        async with anyio.create_task_group() as tasks:
            _start(tournament, waiting, source, tasks)
    return tournament.result()


def play_cached(topology: Topology, source: VerdictSource) -> PlayedTournament | None:
    """Return what `play` would where every verdict is cached, and None otherwise: nothing is waited for."""
    tournament = _Tournament(topology, source)
    return None if tournament.advance() else tournament.result()


def _start(tournament: "_Tournament", waiting: Sequence[_Waiting], source: JudgingSource, tasks: TaskGroup) -> None:
    """Judge the matches that have to wait for verdicts, and what follows from them, in `tasks`."""

    async def judge(order: Order, repeat: int) -> None:
        tournament.verdicts[order][repeat] = await source.judge(*order, repeat)

    async def judge_match(pairing: Pairing, missing: Sequence[tuple[Order, int]]) -> None:
        async with anyio.create_task_group() as calls:
            for order, repeat in missing:
                start_child(calls, judge, order, repeat)
        await my_turn()  # what the result decides may take a fit
        tournament.settle(pairing)
        _start(tournament, tournament.advance(), source, tasks)

    for pairing, missing in waiting:
        start_child(tasks, judge_match, pairing, missing)


@dataclass
class _Tournament:
    """A tournament under way."""

    topology: Topology
    source: VerdictSource
    verdicts: dict[Order, list[Sequence[VerdictScore]]] = field(
        default_factory=dict[Order, list[Sequence[VerdictScore]]]
    )
    """Of the matches begun, for each repeat of an order; empty where one is not there yet."""
    counted: dict[Pairing, PairVerdicts] = field(default_factory=dict[Pairing, PairVerdicts])
    """What the matches settled rest on."""
    opened: set[str] = field(default_factory=set[str])
    """Keys of the failed verdicts that left a match open."""
    started: set[Pairing] = field(default_factory=set[Pairing])

    def advance(self) -> list[_Waiting]:
        """Begin every match that can be played now, and return those that have to wait for verdicts.

        Matches whose verdicts are cached are settled at once, and may open others. A task, which costs more than all
        the rest, is for what has to wait.
        """
        waiting = list[_Waiting]()
        while True:
            playable = self.topology.pairings()
            if len(playable) == len(self.started) - len(self.counted):  # all under way: there may be thousands
                return waiting
            if not (fresh := [pairing for pairing in playable if pairing not in self.started]):
                return waiting
            self.started.update(fresh)
            for pairing in fresh:
                if missing := self._missing(pairing):
                    waiting.append((pairing, missing))
                else:
                    self.settle(pairing)

    def _missing(self, pairing: Pairing) -> list[tuple[Order, int]]:
        """Return the verdicts of a match that are not cached, and note the others."""
        repeats, cached = range(self.source.repeats), self.source.cached
        for order in pairing.orders:
            self.verdicts[order] = [cached(*order, repeat) or () for repeat in repeats]
        return [(order, repeat) for order in pairing.orders for repeat in repeats if not self.verdicts[order][repeat]]

    def settle(self, pairing: Pairing) -> None:
        """Record the result of a match whose verdicts are there, or leave it open."""
        verdicts: PairVerdicts = {order: self.verdicts[order] for order in pairing.orders}
        for (first, second), repeats in list(verdicts.items()):
            if any(v.identical for v in repeats[0]):
                verdicts[second, first] = self.verdicts[second, first] = repeats
        counted = complete_jurors(verdicts)
        if scores := score_sides(pairing.a, counted, self.source.averaging):
            self.counted[pairing] = counted
            if isinstance(self.topology, EarlyStop):
                self.topology.add_juror_scores(
                    pairing,
                    [
                        (*order, v.score_first, v.score_second, v.juror)
                        for order, v in each_verdict(counted)
                        if v.juror is not None
                    ],
                )
            self.topology.record(pairing, *scores)
        else:
            self.opened.update(v.key for _, v in each_verdict(verdicts) if v.failed)

    def result(self) -> PlayedTournament:
        """Return what was played."""
        stopped = self.topology if isinstance(self.topology, EarlyStop) else None
        failed = {v.key for _, v in each_verdict(self.verdicts) if v.failed}
        averaging = self.source.averaging
        return PlayedTournament(
            topology=self.topology.name,
            matches=tuple(
                record_match(m, self.counted.get(m.pairing) or repeated_verdicts(m.pairing, self.verdicts), averaging)
                for m in self.topology.matches
            ),
            standings=standings_in_units(self.topology),
            open_verdicts=tuple(sorted(self.opened)),
            absent_verdicts=tuple(sorted(failed - self.opened)),
            saved_calls=stopped.saved_calls if stopped else 0,
            last_fit=stopped and stopped.last_fit,
        )
