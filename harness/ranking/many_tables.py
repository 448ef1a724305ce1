"""Ranking many tables of pairwise scores at once, each as its calls stand, so that the judge is learnt from all."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from harness.core.errors import UsageError, quoted
from harness.core.judge_profile import JudgeProfile, profile_in
from harness.core.rankings import Match
from harness.ranking.comparisons import Fit
from harness.ranking.conclusions import Rule, collect_calls, conclude, is_level
from harness.ranking.fixed_pairs import GivenPairs
from harness.ranking.pooled import fit_pooled
from harness.ranking.profile import lent_prior
from harness.ranking.score_table import (
    RankedScores,
    ScorePair,
    check_name,
    checked_scores,
    entrant_count,
    play_table,
    ranked_scores,
)
from harness.ranking.topology import count_points

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
    if estimator in {"pooled", "wins"}:
        fits = fit_pooled([collect_calls(range(n), matches) for matches, n in played], lent_prior(profile))
    rule = Rule(estimator)  # pyright: ignore[reportArgumentType] - checked above
    rankings: list[RankedScores] = []
    for (matches, n), fit in zip(played, fits, strict=True):
        # `wins`, unlike the fits, would rank entrants whom no calls connect; where no scores differ all share one rank
        finished = estimator != "wins" or is_level(matches) or fit is None or fit.connected
        conclusion = conclude(count_points(range(n), matches), matches, rule=rule, finished=finished, fit=fit)
        rankings.append(ranked_scores(conclusion, matches, n, "given", estimator))
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
    n, scores = _checked(table, where)
    pairs = [(a, b) for a, b in scores if a < b or (b, a) not in scores]
    in_orders = {(a, b): ((a, b), (b, a)) if (b, a) in scores else ((a, b),) for a, b in pairs}
    return play_table(GivenPairs(pairs, in_orders), lambda i, j: scores[i, j]), n


def _checked(table: _Table, where: str) -> tuple[int, dict[tuple[int, int], ScorePair]]:
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
        for pair, scores in _checked(own, f"table {place}, juror {quoted(name)}")[1].items():
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
