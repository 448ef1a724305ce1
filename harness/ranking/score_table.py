"""Ranking without a judge: tables of pairwise scores, one or many, played and ranked as the scores of a run are."""

import math
from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any, get_args

import numpy as np

from harness.core.errors import UsageError, counted, did_you_mean, quoted
from harness.core.judge_profile import JudgeProfile, profile_in
from harness.core.rankings import Match, Signal
from harness.core.records import Record
from harness.core.settings import EstimatorName, OrderPolicy, TopologyName
from harness.ranking.comparisons import Fit, ceiling_note, share_at_ends
from harness.ranking.conclusions import Conclusion, Rule, collect_calls, conclude, is_level
from harness.ranking.estimators import rests_on_pooled
from harness.ranking.fixed_pairs import GivenPairs
from harness.ranking.pooled import fit_pooled
from harness.ranking.profile import lent_prior
from harness.ranking.topologies import TOPOLOGIES, Entry, Sampler, make_topology
from harness.ranking.topology import (
    UNITS,
    Played,
    Topology,
    count_points,
    exact_mean,
    in_units,
    standings_in_units,
    winner,
)


class Drawn:
    """A sampler that gives the same for the same seed."""

    def __init__(self, *seed: int) -> None:
        """Begin at a seed; its numbers are not negative."""
        self._rng = np.random.default_rng(seed[0] if len(seed) == 1 else seed)

    def sample(self, population: Sequence[int], k: int) -> list[int]:
        """Return k of the population in random order."""
        return [population[i] for i in self._rng.permutation(len(population))[:k].tolist()]

    def coins(self, n: int) -> list[bool]:
        """Return n tosses of a coin."""
        return (self._rng.random(n) < 0.5).tolist()


OrderedPair = tuple[int, int]
"""Two entrants, the first shown first."""
ScorePair = tuple[float, float]
LookUp = Callable[[int, int], ScorePair]
"""From (i, j), i shown first, to (score of i, score of j); greater is better."""


def play_table(
    topology: Topology, look_up: LookUp, stored: Callable[[OrderedPair], OrderedPair] = lambda order: order
) -> tuple[Match, ...]:
    """Play a tournament to its end by a table; return the matches, without keys of verdicts. Scores are in units.

    `stored` says which order the table has for the one that the topology asks for: a table may hold one of the two.
    """
    scores: dict[OrderedPair, ScorePair] = {}
    while pairings := topology.pairings():
        for pairing in pairings:
            orders = dict.fromkeys(map(stored, pairing.orders))
            scores |= {order: look_up(*order) for order in orders}
            sides = [[in_units(scores[o][o.index(entrant)]) for o in orders] for entrant in (pairing.a, pairing.b)]
            topology.record(pairing, *map(exact_mean, sides))
    return tuple(_match(played, scores, stored) for played in topology.matches)


def _match(
    played: Played, scores: Mapping[OrderedPair, ScorePair], stored: Callable[[OrderedPair], OrderedPair]
) -> Match:
    pairing, a, b = played.pairing, played.pairing.a, played.pairing.b
    both = ((a, b), (b, a)) if played.repeated else ()  # the pair may have met in other orders before
    used = [order for order in dict.fromkeys((*map(stored, pairing.orders), *both)) if order in scores]
    winners = {winner(*order, scores[order]) for order in used}
    return Match(
        round=pairing.round,
        a=a,
        b=b,
        verdicts=(),
        shown_first=tuple(first for first, _ in used),
        scores=tuple(scores[order] for order in used),
        score_a=float(played.score_a / UNITS),
        score_b=float(played.score_b / UNITS),
        winner=winner(a, b, (played.score_a, played.score_b)),
        repeated=played.repeated,
        flipped={a, b} <= winners,
        inconsistent=None in winners and len(winners) > 1,
    )


Table = Mapping[tuple[int, int], ScorePair] | LookUp
"""(i, j), i shown first, to (score of i, score of j); greater is better."""

_ENTRANTS_OF_FEW_PAIRS = 1000
_HIGHEST = 1e9
"""Far beyond any scale of scores; sums of squares of much greater ones are beyond computing."""
_JUDGED_TOPOLOGIES = tuple(name for name in get_args(TopologyName) if name != "none")


class RankedScores(Record):
    """A ranked table; the sequences hold one value an entrant."""

    ranks: tuple[float | None, ...]
    """0 is best; ties share the average; None where the matches do not connect all."""
    rewards: tuple[float | None, ...]
    advantages: tuple[float | None, ...]
    uncertainty: tuple[float | None, ...]
    """Posterior standard deviations: of `scores` where a fit ranks (margins, bt, pooled), else of `margins`."""
    matches: tuple[Match, ...]
    scores: tuple[float | None, ...]
    """The estimates: V for tiers, the share of wins, points above the mean, logits."""
    margins: tuple[float | None, ...]
    """By the secondary fit: points above the mean, by `pooled` beside tiers and wins, else by `margins`."""
    p_best: tuple[float | None, ...]
    p_above_mean: tuple[float | None, ...]
    signal: Signal
    topology: str
    estimator: str
    notes: tuple[str, ...] = ()
    """What has to be known before the probabilities are believed, as of a run's groups."""


def rank_scores(
    table: Table,
    topology: str = "arena",
    estimator: str = "pooled",
    order: str = "both",
    rng: Sampler | int = 0,
    *,
    n: int | None = None,
) -> RankedScores:
    """Rank entrants 0..n-1 by pairwise scores, by the topologies and estimators that runs use; entrant 0 is the anchor.

    `n` is read off a mapping's keys unless given; a function needs it. Seeds that a topology draws come from `rng`
    (or from an integer seed). Scores are best on the rubric's scale, 0 to 10: the prior of `margins` takes a call's
    noise to be about a point. Raises UsageError: unknown names, no entrants, a missing pair, a score that is no finite
    number. Judged in both orders, every pair has to be in the table both ways round; in one order, at least one way
    (`anchor` and `cyclic`: only the pairs that they ask for). So it never depends on the scores whether a table can be
    ranked.
    """
    check_name(topology, _JUDGED_TOPOLOGIES, "topology")
    check_name(estimator, get_args(EstimatorName), "estimator")
    check_name(order, get_args(OrderPolicy), "order")
    n = entrant_count(table) if n is None else n
    if n < 1:
        raise UsageError("there is nothing to rank: no entrants")
    if not callable(table) and n > max(_ENTRANTS_OF_FEW_PAIRS, 2 * len(table)):
        pairs = counted(len(table), "pair")
        raise UsageError(f"{quoted(n)} entrants, but scores of {pairs}: most entrants have none")
    look_up = _checked(table, n, order, whole=TOPOLOGIES[topology].all_pairs)  # pyright: ignore[reportArgumentType] - checked above
    sampler = Drawn(abs(rng)) if isinstance(rng, int) else rng
    tournament = make_topology(topology, Entry(range(n), 0, order, sampler))  # pyright: ignore[reportArgumentType] - checked above
    matches = play_table(tournament, look_up)
    conclusion = conclude(standings_in_units(tournament), matches, rule=Rule(estimator))  # pyright: ignore[reportArgumentType]
    at_ends = share_at_ends([conclusion.fit.of] if conclusion.fit else [])
    return ranked_scores(conclusion, matches, n, tournament.name, estimator, at_ends)


def ranked_scores(
    conclusion: Conclusion, matches: tuple[Match, ...], n: int, topology: str, estimator: str, at_ends: float
) -> RankedScores:
    """Return the record of what was concluded on entrants 0..n-1.

    `at_ends`: the share of the judge's scores at an end of the scale, of which the intervals of `pooled` know nothing.
    """
    ceiling = ceiling_note(at_ends) if rests_on_pooled(estimator) else None  # pyright: ignore[reportArgumentType] - checked before
    ranked = [conclusion.ranked[i] for i in range(n)]
    return RankedScores(
        ranks=tuple(r.rank for r in ranked),
        rewards=tuple(r.reward for r in ranked),
        advantages=tuple(r.advantage for r in ranked),
        uncertainty=tuple(r.uncertainty for r in ranked),
        matches=matches,
        scores=tuple(r.score for r in ranked),
        margins=tuple(r.margin for r in ranked),
        p_best=tuple(r.p_best for r in ranked),
        p_above_mean=tuple(r.p_above_mean for r in ranked),
        signal=conclusion.signal,
        topology=topology,
        estimator=estimator,
        notes=tuple(filter(None, (conclusion.note, ceiling))),
    )


def entrant_count(table: Table) -> int:
    """Return how many entrants a table has. Raises UsageError for a function, which does not say."""
    if callable(table):
        raise UsageError("a function of (i, j) does not say how many entrants there are: give n")
    return 1 + max((i for pair in table for i in _pair(pair)), default=-1)


def _checked(table: Table, n: int, order: str, *, whole: bool) -> LookUp:
    """Return how to look a pair up. Raises UsageError for a table that does not fit `n`, or is not `whole`."""
    if callable(table):
        return lambda i, j: _scores(table(i, j), i, j)
    checked = checked_scores(table, n)
    for later in range(n if whole else 0):
        for sooner in range(later):
            ways = ((sooner, later) in checked, (later, sooner) in checked)
            if not (all(ways) if order == "both" else any(ways)):
                raise _missing(*((later, sooner) if ways[0] else (sooner, later)), order)

    def look_up(i: int, j: int) -> ScorePair:
        if (i, j) not in checked:
            raise _missing(i, j, order)
        return checked[i, j]

    return look_up


def checked_scores(table: Mapping[tuple[int, int], ScorePair], n: int) -> dict[tuple[int, int], ScorePair]:
    """Return a table's scores as numbers. Raises UsageError for a key or a value that is none of `n` entrants'."""
    for i, j in map(_pair, table):
        if not (0 <= i < n and 0 <= j < n and i != j):
            raise UsageError(f"the pair ({i}, {j}) is not two different entrants out of 0..{n - 1}")
    return {(i, j): _scores(scores, i, j) for (i, j), scores in table.items()}


def _pair(key: Any) -> tuple[int, int]:
    try:
        i, j = (index(entrant) for entrant in key)
    except (TypeError, ValueError):
        raise UsageError(f"the key {quoted(key)} is not a pair (i, j) of entrants") from None
    return i, j


def _scores(pair: Any, i: int, j: int) -> ScorePair:
    try:
        first, second = (float(score) for score in pair)
    except (TypeError, ValueError, OverflowError):
        expected = f"expected two numbers, the scores of {i} and {j}"
        raise UsageError(f"the pair ({i}, {j}) has {quoted(pair)}; {expected}") from None
    if not (math.isfinite(first) and math.isfinite(second)):
        raise UsageError(f"the pair ({i}, {j}) has the scores ({first}, {second}); NaN and infinities cannot be ranked")
    if max(abs(first), abs(second)) > _HIGHEST:
        raise UsageError(f"the pair ({i}, {j}) has the scores ({first:g}, {second:g}); stretch scores to 0 to 10")
    return first, second


def _missing(i: int, j: int, order: str) -> UsageError:
    orders = "; judged in both orders, every pair has to be there both ways round" if order == "both" else ""
    return UsageError(f"no scores for {i} shown before {j}{orders}")


def check_name(name: str, names: tuple[str, ...], what: str) -> None:
    """Raise UsageError for a name that is none of `names`."""
    if name not in names:
        raise UsageError(f"no {what} {quoted(name)}; there are: {', '.join(names)}{did_you_mean(name, names)}")


ScoreTable = Mapping[tuple[int, int], ScorePair | Mapping[str, ScorePair]]
"""(i, j), i shown first, to (score of i, score of j), greater is better; of a jury, to these of each juror by name."""
_Table = Mapping[tuple[int, int], Any]
"""One whose values are known to be of one kind."""
_ESTIMATORS = ("pooled", "margins", "bt", "wins")


def rank_many(
    tables: Sequence[ScoreTable], estimator: str = "pooled", *, profile: JudgeProfile | None = None
) -> list[RankedScores]:
    """Rank the entrants of each table by the calls that it holds, and return the rankings in order.

    A table holds one group's calls as they were made: no topology plays, no pair has to be there, and a pair may be
    there in one order or in both. Its entrants are 0 to the greatest named. `pooled` learns the judge's noise, its bias
    and how much of a score's level is real from all the tables, so give those of one judge and one rubric together;
    with the `profile` of that judge, learnt elsewhere, a few tables do. Of a jury, whose tables name the juror of each
    score, it learns each juror by itself (harness.ranking.juror_weights). The other estimators rank each table by
    itself; beside `wins` the probabilities and the signal are those of `pooled`.
    Scores are best on the rubric's scale, 0 to 10; `scores` and `uncertainty` are about the group's mean, in its points
    (`bt`: logits, `wins`: the share of points). Ranks are None where the calls do not connect all entrants. Raises
    UsageError: an unknown estimator, what is no profile, a profile for another than `pooled` or for a jury, a table
    without a pair, a key that is no pair of entrants, a score that is no finite number, jurors named for some scores
    alone.
    """
    check_name(estimator, _ESTIMATORS, "estimator of tables as they stand")
    given: Any = profile
    if given is not None and not isinstance(given, JudgeProfile):
        raise UsageError(f"profile={quoted(given)}: expected a JudgeProfile, such as `run.judge_profiles()` gives")
    if profile:
        profile_in(profile.model_dump_json(), "profile")  # it may have been changed into none
    if profile and estimator != "pooled":
        raise UsageError(f"a judge's profile is for the estimator pooled, not {estimator}")
    for place, table in enumerate(tables):
        if not isinstance(table, Mapping) or not table:  # pyright: ignore[reportUnnecessaryIsInstance] - a user's value
            raise UsageError(f"table {place} is {quoted(table)}: give a mapping of (i, j) to the scores of i and j")
    jurors = _jurors(tables)
    if profile and jurors:
        raise UsageError("a judge's profile is of one judge, not of a jury")
    played = [
        _of_jury(table, jurors, place) if jurors else _as_matches(table, f"table {place}")
        for place, table in enumerate(tables)
    ]
    fits: Sequence[Fit | None] = [None] * len(played)
    calls = [collect_calls(range(n), matches) for matches, n in played]
    if estimator in {"pooled", "wins"}:
        fits = fit_pooled(calls, lent_prior(profile))
    rule = Rule(estimator)  # pyright: ignore[reportArgumentType] - checked above
    rankings, at_ends = list[RankedScores](), share_at_ends(calls)
    for (matches, n), fit in zip(played, fits, strict=True):
        # `wins`, unlike the fits, would rank entrants whom no calls connect; where no scores differ all share one rank
        finished = estimator != "wins" or is_level(matches) or fit is None or fit.connected
        conclusion = conclude(count_points(range(n), matches), matches, rule=rule, finished=finished, fit=fit)
        rankings.append(ranked_scores(conclusion, matches, n, "given", estimator, at_ends))
    return rankings


def _jurors(tables: Sequence[ScoreTable]) -> list[str]:
    """Return who sits in the jury whose scores these are; nobody where no scores name a juror."""
    named = [(place, pair, value) for place, table in enumerate(tables) for pair, value in table.items()]
    of_jury = [value for _, _, value in named if isinstance(value, Mapping)]
    for place, pair, value in named if of_jury else ():
        by_name = isinstance(value, Mapping) and all(isinstance(name, str) for name in value)  # pyright: ignore[reportUnnecessaryIsInstance] - a user's value
        if not by_name or not value:
            asked = "give the scores of a juror at least, by name, as for the other pairs"
            raise UsageError(f"table {place}: the pair {quoted(pair)} has {quoted(value)}; {asked}")
    return sorted({name for value in of_jury for name in value})


def _as_matches(table: _Table, where: str) -> tuple[tuple[Match, ...], int]:
    """Return a table's matches, and how many entrants it has. Raises UsageError, which begins with `where`."""
    n, scores = _checked_tables(table, where)
    pairs = [(a, b) for a, b in scores if a < b or (b, a) not in scores]
    in_orders = {(a, b): ((a, b), (b, a)) if (b, a) in scores else ((a, b),) for a, b in pairs}
    return play_table(GivenPairs(pairs, in_orders), lambda i, j: scores[i, j]), n


def _checked_tables(table: _Table, where: str) -> tuple[int, dict[tuple[int, int], ScorePair]]:
    """Return how many entrants a table has, and its scores as numbers."""
    try:
        n = entrant_count(table)
        return n, checked_scores(table, n)
    except UsageError as exc:
        raise UsageError(f"{where}: {exc}") from None


def _of_jury(table: _Table, jurors: Sequence[str], place: int) -> tuple[tuple[Match, ...], int]:
    """Return the same of a jury's table: a match's scores are the mean of its jurors'."""
    seated: dict[tuple[int, int], dict[int, ScorePair]] = {pair: {} for pair in table}
    for seat, name in enumerate(jurors):
        own = {pair: of[name] for pair, of in table.items() if name in of}
        for pair, scores in _checked_tables(own, f"table {place}, juror {quoted(name)}")[1].items():
            seated[pair][seat] = scores
    means = {pair: [math.fsum(s) / len(s) for s in zip(*of.values(), strict=True)] for pair, of in seated.items()}
    matches, n = _as_matches(means, f"table {place}")
    jury_matches: list[Match] = []
    for match in matches:
        orders = [(first, match.b if first == match.a else match.a) for first in match.shown_first]
        calls = [(order[0], scores, seat) for order in orders for seat, scores in seated[order].items()]
        first, scores, seats = zip(*calls, strict=True)
        jury_matches.append(match.model_copy(update={"shown_first": first, "scores": scores, "jurors": seats}))
    return tuple(jury_matches), n
