"""One tournament played: a topology names the pairs, a jury gives verdicts, and matches are the result."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from harness.core.rankings import Match
from harness.core.tracebacks import start_child
from harness.core.turns import my_turn
from harness.judging.jury import Averaging
from harness.ranking.comparisons import Comparisons, Fit
from harness.ranking.early_stop import EarlyStop
from harness.ranking.topology import Pairing, Played, Standing, Topology, standings_in_units
from harness.tournament.heard import (
    Counted,
    HeardOrFailed,
    Order,
    OrderVerdicts,
    VerdictsByOrder,
    counted_of,
    failed_of,
    has_failed,
    heard_of,
    is_of_twins,
    juror_calls,
    match_of,
    ones_of,
    rests_on,
    scores_of_sides,
)

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
    calls: Comparisons | None = None
    """The judged calls behind the matches, where they are told already."""


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
    verdicts: VerdictsByOrder = field(default_factory=dict[Order, list[HeardOrFailed]])
    counted: dict[Pairing, Counted] = field(default_factory=dict[Pairing, Counted])
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
            heard: list[HeardOrFailed] = []
            self.verdicts[order] = heard
            for repeat in repeats:
                if verdicts := at_hand(*order, repeat):
                    heard.append(heard_of(verdicts))
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
        self.verdicts[order][repeat] = heard_of(await jury.hear(*order, repeat))

    def _settle(self, pairing: Pairing) -> None:
        counted = ones_of(pairing.orders, self.verdicts) or self._counted(pairing)
        if scores := scores_of_sides(pairing, counted, self.jury.averaging):
            self.counted[pairing] = counted
            if isinstance(self.topology, EarlyStop) and (of_jurors := juror_calls(counted)):
                self.topology.hear(pairing, of_jurors)
            self.topology.record(pairing, *scores)
            self.recorded += 1
        else:
            self.opened.update(v.key for order in pairing.orders for v in failed_of(self.verdicts[order]))

    def _counted(self, pairing: Pairing) -> Counted:
        by_order = {order: self.verdicts[order] for order in pairing.orders}
        for (first, second), repeats in list(by_order.items()):
            if is_of_twins(repeats[0]):
                by_order[second, first] = self.verdicts[second, first] = repeats
        return counted_of(by_order)

    def result(self) -> PlayedTournament:
        """Return what was played."""
        every = self.verdicts
        failed = {v.key for repeats in every.values() for v in failed_of(repeats)} if has_failed(every) else set[str]()
        stopped = self.topology if isinstance(self.topology, EarlyStop) else None
        return PlayedTournament(
            topology=self.topology.name,
            matches=tuple(map(self._match, self.topology.matches)),
            standings=standings_in_units(self.topology),
            open_verdicts=tuple(sorted(self.opened)),
            absent_verdicts=tuple(sorted(failed - self.opened)),
            saved_calls=stopped.saved_calls if stopped else 0,
            last_fit=stopped and stopped.last_fit,
        )

    def _match(self, played: Played) -> Match:
        counted = self.counted.get(played.pairing) or rests_on(played.pairing, self.verdicts)
        return match_of(played, counted, self.jury.averaging)
