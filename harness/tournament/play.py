"""One tournament played: a topology names the pairs, a source (jury or cache) gives verdicts, matches result."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import NamedTuple, final

import anyio
from anyio.abc import TaskGroup

from harness.core.group_cache import CachedGroup
from harness.core.rankings import Match, PairJudgment, Unjudged
from harness.core.records import record_of
from harness.core.sync import start_child
from harness.core.turns import my_turn
from harness.judging.prompt import Task
from harness.judging.verdict_cache import NOT_NEEDED, Averaging, PairJury, PairLedger, average
from harness.ranking.comparisons import Fit
from harness.ranking.margins import EarlyStop
from harness.ranking.topology import (
    UNITS,
    Exact,
    Pairing,
    Played,
    Standing,
    Topology,
    exact_mean,
    in_units,
    standings_in_units,
    winner,
)
from harness.transcripts.transcript import Transcript


@final
class VerdictScore(NamedTuple):
    """What a tournament takes of a verdict."""

    key: str
    score_first: float
    """Not a number where it failed."""
    score_second: float
    identical: bool = False
    """The transcripts shown are identical. The verdict is then the same in both orders and counts in both, also where
    the design asks for one: the two tie."""
    cut: bool = False
    """An answer was cut to fit --judge-budget."""
    juror: int | None = None
    """The seat of the juror who gave it; None of a single judge."""
    failed: bool = False
    skipped: bool = False
    """It failed because nobody needed it."""


@dataclass(frozen=True)
class JurySource:
    """The verdicts of a jury on two of `texts`; `ledger` notes which were bought and which were there."""

    jury: PairJury
    texts: Mapping[int, Transcript]
    task: Task
    ledger: PairLedger
    repeats: int

    @property
    def averaging(self) -> Averaging:
        """How the scores of several jurors become one."""
        return self.jury.averaging

    async def judge(self, first: int, second: int, repeat: int) -> Sequence[VerdictScore]:
        """Return each juror's verdict."""
        task = replace(self.task, repeat=repeat)
        return score_verdicts(await self.jury.verdicts(self.ledger, task, self.texts[first], self.texts[second]))

    def cached(self, first: int, second: int, repeat: int) -> Sequence[VerdictScore] | None:
        """Return each juror's verdict if that needs no waiting; None otherwise."""
        task = replace(self.task, repeat=repeat) if repeat else self.task
        verdicts = self.jury.cached(self.ledger, task, self.texts[first], self.texts[second])
        return score_verdicts(verdicts) if verdicts else None


class CacheSource:
    """The verdicts of a single judge that the cache of a group holds."""

    averaging: Averaging = "mean"

    def __init__(self, group: CachedGroup, repeats: int) -> None:
        """Take them from `group`, each order `repeats` times."""
        self.repeats = repeats
        self.used = set[str]()
        """Keys of the verdicts that were taken."""
        self._verdicts = group.verdicts
        self._shown = {rollout.number: (rollout.shown, rollout.cut) for rollout in group.rollouts}

    def cached(self, first: int, second: int, repeat: int) -> Sequence[VerdictScore] | None:
        """Return the judge's verdict, or None."""
        verdicts = self._verdicts.get((first, second, repeat))
        if not verdicts:
            return None
        verdict = verdicts[0]
        self.used.add(verdict.key)
        (text, text_cut), (other, other_cut) = self._shown[first], self._shown[second]
        score = VerdictScore(
            verdict.key, verdict.score_first, verdict.score_second, text == other, text_cut or other_cut
        )
        return (score,)


VerdictSource = JurySource | CacheSource
"""Has verdicts on two rollouts in an order, each order `repeats` times."""


def score_verdicts(verdicts: Sequence[PairJudgment | Unjudged]) -> Sequence[VerdictScore]:
    """Return what a tournament takes of the verdicts of a jury, which stand in the order of its seats."""
    scores: list[VerdictScore] = []
    for seat, v in enumerate(verdicts):
        juror = seat if len(verdicts) > 1 else None
        if isinstance(v, Unjudged):
            skipped = v.failure.type == NOT_NEEDED.type
            scores.append(VerdictScore(v.key, float("nan"), float("nan"), juror=juror, failed=True, skipped=skipped))
        else:
            scores.append(VerdictScore(v.key, v.a.combined, v.b.combined, v.first == v.second, bool(v.cut), juror))
    return scores


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
    by_order = (score_sides(pairing.a, {order: of}, averaging) for order, of in verdicts.items())
    winners = {scores and winner(pairing.a, pairing.b, scores) for scores in by_order}
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
        "winner": winner(pairing.a, pairing.b, (score_a, score_b)),
        "flipped": differ and None not in winners,
        "inconsistent": several and None in winners,
        "repeated": repeated,
        "scores": tuple([(v.score_first, v.score_second) for v in used]),
        "cut": any(v.cut for v in used),
        "jurors": () if None in jurors else jurors,
        "features": (),
    }
    return record_of(Match, match)


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

    def with_features(self, features: Mapping[int, tuple[float, ...]]) -> "PlayedTournament":
        """Return it with the features of both sides in each match."""
        matches = (m.model_copy(update={"features": (features[m.a], features[m.b])}) for m in self.matches)
        return replace(self, matches=tuple(matches))


async def play(topology: Topology, source: JurySource) -> PlayedTournament:
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


def _start(tournament: "_Tournament", waiting: Sequence[_Waiting], source: JurySource, tasks: TaskGroup) -> None:
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
        waiting, repeats, cached = list[_Waiting](), range(self.source.repeats), self.source.cached
        while True:
            playable = self.topology.pairings()
            if len(playable) == len(self.started) - len(self.counted):  # all under way: there may be thousands
                return waiting
            if not (fresh := [pairing for pairing in playable if pairing not in self.started]):
                return waiting
            self.started.update(fresh)
            for pairing in fresh:
                for order in pairing.orders:
                    self.verdicts[order] = [cached(*order, repeat) or () for repeat in repeats]
                asked = product(pairing.orders, repeats)
                if missing := [(order, repeat) for order, repeat in asked if not self.verdicts[order][repeat]]:
                    waiting.append((pairing, missing))
                else:
                    self.settle(pairing)

    def settle(self, pairing: Pairing) -> None:
        """Record the result of a match whose verdicts are there, or leave it open."""
        verdicts: PairVerdicts = {order: self.verdicts[order] for order in pairing.orders}
        for (first, second), repeats in list(verdicts.items()):
            if all(v.identical for v in repeats[0] if not v.failed) and not all(v.failed for v in repeats[0]):
                verdicts[second, first] = self.verdicts[second, first] = repeats
        counted = complete_jurors(verdicts)
        if scores := score_sides(pairing.a, counted, self.source.averaging):
            self.counted[pairing] = counted
            if isinstance(self.topology, EarlyStop):
                each = each_verdict(counted)
                of_jurors = [(*o, v.score_first, v.score_second, v.juror) for o, v in each if v.juror is not None]
                self.topology.add_juror_scores(pairing, of_jurors)
            self.topology.record(pairing, *scores)
        else:
            self.opened.update(v.key for _, v in each_verdict(verdicts) if v.failed and not v.skipped)

    def result(self) -> PlayedTournament:
        """Return what was played."""
        stopped = self.topology if isinstance(self.topology, EarlyStop) else None
        failed = {v.key for _, v in each_verdict(self.verdicts) if v.failed and not v.skipped}
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
