"""Groups ranked by what is kept of them: no text is read, nothing is waited for, and many are fitted at once.

Only of groups in which all is as plain as it mostly is: one verdict for each order, two different transcripts, nothing
cut. All others are played one by one (`harness.tournament.at_hand`); the two give the same records.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.group_cache import CachedGroup, CachedRollout, CachedVerdict, OrderAsked
from harness.core.rankings import GroupRanking, Match
from harness.core.records import record_of
from harness.judging.jury import Averaging, PairLedger
from harness.ranking.comparisons import Comparisons, with_chances
from harness.ranking.many_arenas import ManyArenas, play_arenas
from harness.ranking.pooled import LearntJudge, fit_by
from harness.ranking.profile import prior_of
from harness.ranking.ranked_calls import learnt_from_calls, learnt_from_queries
from harness.ranking.topology import UNITS, Exact, Standing, exact_mean
from harness.tournament.designs import topologies_of
from harness.tournament.group import Lineup, Rules, classes_to_judge
from harness.tournament.heard import VerdictScore
from harness.tournament.play import PlayedTournament, play_at_hand
from harness.tournament.result import LearntFits, TournamentResult, ranking_of

_DECIMALS = 10**4
"""Scores of four decimals are whole numbers of units, and so is the mean of two."""
_HIGHEST = 10**6
_Floats = NDArray[np.float64]
_Shape = tuple[tuple[int, ...], int]
"""The entrants, and which of them, counted from 0, is the anchor."""
_MOST = 32
"""Entrants: tables of more take memory, and time by the square."""
_Verdicts = Mapping[OrderAsked, tuple[CachedVerdict, ...]]
"""By the rollout shown first and the other one; each with one verdict at least, and none of a repeat."""

_Facts = tuple[int, int, int, float, float, int, bool, bool, bool]
"""Of a match: its round, who met, counted from 0, their scores, 1 where the first has the higher one (-1: the other),
whether the orders name opposite winners, whether only one names a tie, whether the two had met before."""


def arenas_at_hand(extracts: Sequence[CachedGroup | None], rules: Rules) -> list[PlayedTournament | None]:
    """Return the tournaments of groups; None for a group that is not plain, or of which a verdict is not at hand."""
    played: list[PlayedTournament | None] = [None] * len(extracts)
    if (rules.topology, rules.order or "both", rules.repeats, rules.judge_when) != ("arena", "both", 1, "always"):
        return played
    shapes: dict[_Shape, dict[int, _Verdicts]] = {}
    for place, extract in enumerate(extracts):
        if extract and (shape := _shape_of(extract)) and (verdicts := _verdicts_of(extract, shape[0])):
            shapes.setdefault(shape, {})[place] = verdicts
    for shape, groups in shapes.items():
        for place, tournament in zip(groups, _played(shape, list(groups.values())), strict=True):
            played[place] = tournament
    return played


def _shape_of(extract: CachedGroup) -> _Shape | None:
    """Return who takes part; None without an anchor, and where transcripts are alike, were cut or are not known."""
    ok = [rollout for rollout in extract.rollouts if rollout.status == "ok"]
    shown, cut = {rollout.shown for rollout in ok}, [rollout for rollout in extract.rollouts if rollout.cut]
    if not 2 <= len(ok) <= _MOST or len(shown) < len(ok) or None in shown or cut:
        return None
    entrants, roles = tuple([rollout.number for rollout in ok]), [rollout.role for rollout in ok]
    in_order = all(one < next_one for one, next_one in pairwise(entrants))
    return (entrants, roles.index("anchor")) if in_order and "anchor" in roles else None


def _verdicts_of(extract: CachedGroup, entrants: Sequence[int]) -> _Verdicts | None:
    """Return the verdicts; None where there are others than first ones on two entrants in an order."""
    verdicts, one_of = extract.verdicts, set(entrants)
    first, second, repeats = zip(*verdicts, strict=True) if verdicts else ((), (), ())
    is_plain = one_of.issuperset(first) and one_of.issuperset(second) and {*repeats} == {0} and all(verdicts.values())
    return verdicts if is_plain else None


def _played(shape: _Shape, groups: Sequence[_Verdicts]) -> list[PlayedTournament | None]:
    """Return the tournaments of groups of one shape."""
    (entrants, anchor), marks = shape, _marks(shape[0], groups)
    whole = np.rint(np.clip(marks, -_HIGHEST, _HIGHEST) * _DECIMALS)
    fits = (whole / _DECIMALS == marks).all(axis=-1)
    units = np.where(fits[..., None], whole, 0).astype(np.int64) * (UNITS // _DECIMALS)
    arenas = play_arenas((units[..., 0] + units[..., 1].swapaxes(1, 2)) // 2, anchor)
    met = np.arange(len(groups))[:, None], arenas.a, arenas.b
    is_there = (fits & fits.swapaxes(1, 2))[met].all(axis=1).tolist()
    facts = _facts(arenas, np.sign(marks[..., 0] - marks[..., 1]))
    columns = zip(is_there, groups, facts, _standings(shape, arenas), _calls(arenas, marks), strict=True)
    return [
        PlayedTournament("arena", _matches(entrants, verdicts, of_matches), standings, calls=calls) if there else None
        for there, verdicts, of_matches, standings, calls in columns
    ]


def _marks(entrants: Sequence[int], groups: Sequence[_Verdicts]) -> _Floats:
    """Return what was given to who stood first and to the other one, (G, n, n, 2); nan where there is no verdict."""
    n = len(entrants)
    place_of: dict[OrderAsked, int] = {(*pair, 0): at for at, pair in enumerate(product(entrants, entrants))}
    marks = np.full((len(groups) * n * n, 2), np.nan)
    at = [begin + place_of[order] for begin, group in zip(count(0, n * n), groups, strict=False) for order in group]
    marks[at] = [(of_order[0].score_first, of_order[0].score_second) for group in groups for of_order in group.values()]
    return marks.reshape(len(groups), n, n, 2)


def _facts(arenas: ManyArenas, said: _Floats) -> Iterator[Iterator[_Facts]]:
    """Yield what the records of each group's matches say.

    `said` (G, n, n) is 1 where the verdict names who stood first, -1 where the other one, 0 for a tie.
    """
    pairs = np.arange(len(said))[:, None], arenas.a, arenas.b
    turned = np.arange(len(said))[:, None], arenas.b, arenas.a
    for_a, for_b = said[pairs], said[turned]
    flipped, differ = for_a * for_b > 0, for_a != -for_b
    scores = arenas.score_a / UNITS, arenas.score_b / UNITS, np.sign(arenas.score_a - arenas.score_b)
    columns: Any = (arenas.a, arenas.b, *scores, flipped, differ & ~flipped, arenas.repeated)
    rounds: list[int] = arenas.rounds.tolist()
    return (
        zip(rounds, *of_group, strict=True) for of_group in zip(*(column.tolist() for column in columns), strict=True)
    )


def _matches(entrants: Sequence[int], verdicts: _Verdicts, facts: Iterable[_Facts]) -> tuple[Match, ...]:
    matches = list[Match]()
    for number, a, b, score_a, score_b, higher, flipped, inconsistent, repeated in facts:
        first, second = entrants[a], entrants[b]
        one, other = verdicts[first, second, 0][0], verdicts[second, first, 0][0]
        match = {
            "round": number,
            "a": first,
            "b": second,
            "verdicts": (one.key, other.key),
            "shown_first": (first, second),
            "score_a": score_a,
            "score_b": score_b,
            "winner": (None, first, second)[higher],
            "flipped": flipped and one.key != other.key,
            "inconsistent": inconsistent,
            "repeated": repeated,
            "scores": ((one.score_first, one.score_second), (other.score_first, other.score_second)),
            "cut": False,
            "jurors": (),
        }
        matches.append(record_of(Match, match))
    return tuple(matches)


def _standings(shape: _Shape, arenas: ManyArenas) -> Iterator[list[Standing]]:
    (entrants, anchor), samples = shape, len(shape[0]) - 1
    columns = (column.tolist() for column in (arenas.a, arenas.b, arenas.score_a, arenas.score_b, arenas.reached))
    for a, b, score_a, score_b, reached in zip(*columns, strict=True):
        points = dict[int, list[Exact]](zip(a[:samples], ([score] for score in score_a), strict=False))
        points[anchor] = [exact_mean(score_b[:samples])]
        for first, second, of_first, of_second in list(zip(a, b, score_a, score_b, strict=True))[samples:]:
            points[first].append(of_first)
            points[second].append(of_second)
        yield [
            Standing(entrant, reached[at], tuple(points[at]), points[at][0], UNITS)
            for at, entrant in enumerate(entrants)
        ]


def _calls(arenas: ManyArenas, marks: _Floats) -> Iterator[Comparisons]:
    """Yield the judged calls of each group, each once."""
    n, fresh = marks.shape[1], ~arenas.repeated
    group, a, b = np.nonzero(fresh)[0], arenas.a[fresh], arenas.b[fresh]
    first, second = np.stack([a, b], axis=-1), np.stack([b, a], axis=-1)
    scores = marks[group[:, None], first, second].reshape(-1, 2)
    ends = np.cumsum(2 * fresh.sum(axis=1)).tolist()
    for begin, end in zip([0, *ends], ends, strict=False):
        part = slice(begin, end)
        yield Comparisons(n, first.ravel()[part], second.ravel()[part], scores[part, 0], scores[part, 1])


class _Failed(NamedTuple):
    kind: str


@dataclass(frozen=True, slots=True)
class _Kept:
    """A rollout as `Lineup` asks for it."""

    index: int
    role: str
    status: str
    verified: float | None
    failure: _Failed | None


@dataclass(frozen=True)
class CachedRanker:
    """Ranks groups by tournaments of a single judge whose verdicts are kept in their extracts."""

    rules: Rules

    def play_all(self, extracts: Sequence[CachedGroup | None]) -> list[TournamentResult | None]:
        """Return the tournaments of groups; None where not all that one needs is at hand."""
        return [
            extract and (_result_of(extract, arena, self.rules) if arena else self.play(extract))
            for extract, arena in zip(extracts, arenas_at_hand(extracts, self.rules), strict=True)
        ]

    def play(self, extract: CachedGroup) -> TournamentResult | None:
        """Return the group's tournament; None where not all that it needs is at hand."""
        rules, lineup = self.rules, _lineup_of(extract)
        if any(rollout.status == "ok" and rollout.shown is None for rollout in extract.rollouts):
            return None  # whether its answer was cut is not known
        classes, verdicts = classes_to_judge(lineup.ok, rules), _KeptVerdicts(extract, rules.repeats)
        topologies = topologies_of(lineup, classes, rules, rules.rng(extract.query))
        played = [tournament for topology in topologies if (tournament := play_at_hand(topology, verdicts))]
        if len(played) < len(topologies):
            return None
        return TournamentResult(lineup, classes, played, taken=len(verdicts.taken))

    def training_queries(self, queries: Sequence[str]) -> list[str]:
        """Return the queries whose groups teach the judge."""
        return learnt_from_queries(queries, self.rules.fit_version)

    def learn(self, calls: Sequence[Comparisons]) -> LearntJudge:
        """Return the judge as the calls of groups show them."""
        return learnt_from_calls(calls, prior_of(self.rules.profile, self.rules.fit_version))

    def rank(self, results: Sequence[TournamentResult], judge: LearntJudge | None) -> Iterator[GroupRanking]:
        """Yield the rankings of groups, which are fitted together by a judge that is learnt from all of the ranking.

        Without a judge each group is ranked by itself.
        """
        if judge is None:
            return (ranking_of(result, PairLedger(), self.rules) for result in results)
        calls, rules = [result.calls for result in results], replace(self.rules, one_of_many=False)
        fits = iter(with_chances(fit_by(judge, [of_class for of_group in calls for of_class in of_group])))
        told = [LearntFits([next(fits) for _ in of_group], judge.at_ends) if of_group else None for of_group in calls]
        return (
            ranking_of(result, PairLedger(), rules if of else self.rules, of)
            for result, of in zip(results, told, strict=True)
        )


class _KeptVerdicts:
    """What an extract has of a single judge's verdicts."""

    averaging: Averaging = "mean"

    def __init__(self, extract: CachedGroup, repeats: int) -> None:
        self.repeats = repeats
        self.taken = set[str]()
        self._extract = extract
        self._shown = {rollout.number: (rollout.shown, rollout.cut) for rollout in extract.rollouts}
        shown = [rollout.shown for rollout in extract.rollouts if rollout.shown]
        self._all_differ = len({*shown}) == len(shown) and not any(rollout.cut for rollout in extract.rollouts)

    def at_hand(self, first: int, second: int, repeat: int) -> tuple[VerdictScore] | None:
        """Return the judge's verdict, or None."""
        verdicts = self._extract.verdicts.get((first, second, repeat))
        if not verdicts:
            return None
        verdict = verdicts[0]
        self.taken.add(verdict.key)
        identical = cut = False
        if not self._all_differ:
            (text, text_cut), (other, other_cut) = self._shown[first], self._shown[second]
            identical, cut = text == other, text_cut or other_cut
        return (VerdictScore(verdict.key, verdict.score_first, verdict.score_second, identical, cut),)


def _result_of(extract: CachedGroup, arena: PlayedTournament, rules: Rules) -> TournamentResult:
    lineup = _lineup_of(extract)
    taken = set[str]().union(*[match.verdicts for match in arena.matches])
    return TournamentResult(lineup, classes_to_judge(lineup.ok, rules), [arena], taken=len(taken))


def _lineup_of(extract: CachedGroup) -> Lineup:
    cut = [rollout.number for rollout in extract.rollouts if rollout.cut]
    return Lineup(extract.query, [_kept(rollout) for rollout in extract.rollouts], cut)


def _kept(rollout: CachedRollout) -> _Kept:
    failure = _Failed(rollout.failure) if rollout.failure else None
    return _Kept(rollout.number, rollout.role, rollout.status, rollout.verified, failure)
