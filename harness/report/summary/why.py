"""How the explanation of a pair is put together from a group's records."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.core.errors import NothingRankable, UsageError
from harness.core.rankings import GroupRanking, Match
from harness.core.records import Group, Query
from harness.core.verdicts import Judged, SideScores
from harness.core.wording import call
from harness.ranking.pair_probability import pair_estimate, pair_of_fit
from harness.report.summary.match_verdicts import (
    VerdictLookup,
    judged_orders,
    marks_of_sides,
    opponent_of,
    rollout_flags,
    score_of,
)
from harness.report.summary.pair_table import JudgedPair, judged_pairs, sided_scores, win_cycles
from harness.report.summary.paths import first_parting
from harness.report.summary.pooled_fit import PooledFit, pooled_fit
from harness.report.summary.ranking import group_of, is_offline
from harness.report.summary.rollouts import PlacedRollout, place_of, placed_rollouts, score_name, with_a_rank
from harness.report.summary.why_records import (
    CommonOpponent,
    DimensionLead,
    JudgeSentence,
    Meeting,
    PairExplanation,
    PairSide,
)

_END = re.compile(r"(?<=[.!?])(?=\s)|(?<=[。！？])")
_LONGEST = 300
"""Characters of a sentence that are kept."""
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|Dr|Mr|Ms|St|No|Fig)|\b[A-Za-z]|\d)\.$")


def judge_sentence(match: Match, number: int, side: int, verdicts: VerdictLookup) -> JudgeSentence | None:
    """Return a sentence of the judge on `side`; None where no verdict of the match says anything on it.

    The verdict is the first that names the match's winner, else the first; the sentence is the first on that block,
    answer or path, in which the two are further apart.
    """
    judged = [(first, verdict) for first, verdict in judged_orders(match, verdicts) if verdict]
    for first, verdict in sorted(judged, key=lambda order: not _agrees(match, *order)):
        for text in _remarks(verdict, side_was_first=first == side):
            return JudgeSentence(text, number, first, opponent_of(match, side))
    return None


def _agrees(match: Match, first: int, verdict: Judged) -> bool:
    named = {"A": first, "B": opponent_of(match, first)}.get(verdict.winner)
    return named == match.winner


def _remarks(verdict: Judged, *, side_was_first: bool) -> Iterator[str]:
    gap = {block: _gap(verdict, block) for block in ("answer", "path")}
    for block in sorted(gap, key=lambda name: -gap[name]):
        if text := first_sentence(verdict.analysis.get(f"{block}_{'A' if side_was_first else 'B'}", "")):
            yield text


def _gap(verdict: Judged, block: str) -> float:
    a, b = getattr(verdict.a, block), getattr(verdict.b, block)
    return -1.0 if a is None or b is None else abs(a - b)


def first_sentence(text: str) -> str:
    """Return the first sentence of a text on one line, cut where it is very long."""
    flat = " ".join(text[: 20 * _LONGEST].split())
    ends = (match.start() for match in _END.finditer(flat))
    end = next((at for at in ends if not _ABBREVIATION.search(flat[:at][-12:])), len(flat))
    sentence = flat[:end]
    return sentence if len(sentence) <= _LONGEST else sentence[: _LONGEST - 1].rstrip() + "…"


def dimension_leads(sides: Sequence[tuple[SideScores, SideScores]]) -> tuple[DimensionLead, ...]:
    """Return the dimensions that both sides were marked on, in the rubric's order; `sides` is a pair a verdict."""
    marks: dict[str, list[tuple[int, int]]] = {}
    for a, b in sides:
        for name, mark in a.dimensions.items():
            if name in b.dimensions:
                marks.setdefault(name, []).append((mark, b.dimensions[name]))
    means = {name: (_mean([a for a, _ in pairs]), _mean([b for _, b in pairs])) for name, pairs in marks.items()}
    lead = sum(a.combined - b.combined for a, b in sides)
    decisive = decided({name: a - b for name, (a, b) in means.items()}, lead)
    return tuple(DimensionLead(name, pair, name in decisive) for name, pair in means.items())


def decided(differences: Mapping[str, float], lead: float) -> set[str]:
    """Return the dimensions that decided: the fewest, greatest first, that outweigh all that speak against the winner.

    `lead` is by how much the winner's side leads, below 0 where the other side won. Where nothing speaks against the
    winner that is the greatest lead alone; leads of one size count together. Empty where nobody won.
    """
    way = (lead > 0) - (lead < 0)
    towards = {name: way * difference for name, difference in differences.items()}
    against = -sum(difference for difference in towards.values() if difference < 0)
    chosen: set[str] = set()
    total, smallest = 0.0, 0.0
    for name, difference in sorted(towards.items(), key=lambda item: -item[1]):
        if difference <= 0 or (chosen and total > against and difference < smallest):
            break
        chosen.add(name)
        total, smallest = total + difference, difference
    return chosen


def _mean(marks: Sequence[int]) -> float:
    return sum(marks) / len(marks)


_DIGITS = 6


@dataclass(frozen=True)
class ChosenPair:
    """Two rollouts of a ranked group."""

    group: Group
    ranking: GroupRanking
    a: int
    b: int


def judged_ranking(reader: RunReader, ranking_id: str | None = None) -> RankingFile:
    """Return the newest ranking, or the one named. Raises NothingRankable without any; UsageError for another name."""
    if ranking_id is None and reader.newest_head() is None:
        model = {} if reader.info.judge else {"judge_model": "MODEL"}
        how = call("rescore", reader.typed_name, **model)
        raise NothingRankable(f"run {reader.info.id} is not judged yet: {how} judges it")
    return reader.ranking(ranking_id)


def find_pair(
    reader: RunReader, ranking: RankingFile, query: Query, a: int | None = None, b: int | None = None
) -> ChosenPair:
    """Return two rollouts of a query: by default the first two places, beside one that is named the best other.

    Raises UsageError for a rollout that there is not, or one named twice; NothingRankable where nothing was judged.
    """
    ranked = ranking.of(query.id)
    if ranked is None or not (ranked.matches or ranked.verdicts):
        raise NothingRankable(
            f"query {query.id!r} of run {reader.info.id} is not judged in ranking {ranking.head.id}; "
            f"{call('rescore', reader.typed_name, **_to_judge(ranking))} judges it"
        )
    group = group_of(reader, query, ranked)
    there = [r.index for r in group.rollouts]
    for index in (a, b):
        if index is not None and index not in there:
            raise UsageError(f"run {reader.info.id} has no rollout {index}; there are: {', '.join(map(str, there))}")
    if a is not None and a == b:
        others = ", ".join(str(index) for index in there if index != a)
        raise UsageError(f"rollout {a} is named twice: name another one beside it; there are: {others}")
    best = [p.rollout.index for p in with_a_rank(group, ranked)]
    chosen = [index for index in (a, b) if index is not None]
    chosen += [index for index in best if index not in chosen][: 2 - len(chosen)]
    if len(chosen) < 2:
        raise UsageError(
            f"no two rollouts of query {query.id!r} have a place: name two of them; there are: "
            f"{', '.join(map(str, there))}"
        )
    return ChosenPair(group, ranked, chosen[0], chosen[1])


def _to_judge(ranking: RankingFile) -> dict[str, str]:
    return {"topology": "arena"} if ranking.head.settings.get("topology") == "none" else {}


def explain_pair(reader: RunReader, ranking: RankingFile, pair: ChosenPair) -> PairExplanation:
    """Return why one of two rollouts is above the other, without what would make them meet if they never did."""
    group, ranked, verdicts = pair.group, pair.ranking, cache(reader.verdict)
    placed = placed_rollouts(pair.group, pair.ranking)
    by_index = {p.rollout.index: _side(p, placed) for p in placed}
    a, b = by_index[pair.a], by_index[pair.b]
    met = [(number, match) for number, match in enumerate(ranked.matches, 1) if {match.a, match.b} == {pair.a, pair.b}]
    pooled = pooled_fit(ranking, ranked, pair.a, pair.b)
    difference, sd, p_above = _difference(pooled, pair, a, b)
    by_differences = pair_of_fit(pooled.by_differences, pooled.entrants, pair.a, pair.b) if pooled else None
    paths = {r.index: r.trajectory.path for r in group.rollouts}
    pairs = judged_pairs(ranked.matches, verdicts)
    return PairExplanation(
        run=reader.info.id,
        ranking=ranking.head.id,
        offline=is_offline(reader, ranking),
        query=group.query,
        topology=ranked.topology,
        estimator=ranked.estimator,
        score_name=score_name(ranked),
        signal=ranked.signal,
        listwise=bool(ranked.verdicts),
        a=a,
        b=b,
        difference=difference,
        sd=sd,
        p_above=p_above,
        by_differences=round(by_differences.difference, _DIGITS) + 0.0 if by_differences else None,
        matches=tuple(_meeting(number, match, pair, verdicts) for number, match in met),
        dimensions=dimension_leads([sides for _, match in met for sides in _marks(match, pair.a, verdicts)]),
        first_parting=first_parting(paths[pair.a], paths[pair.b]),
        judge=_sentences(pair, pairs, verdicts),
        flags=tuple(flag for flag in rollout_flags(ranked, verdicts) if flag.rollout in {pair.a, pair.b}),
        common=()
        if met
        else tuple(
            [
                CommonOpponent(index, _means(pair, pair.a, index, pairs), _means(pair, pair.b, index, pairs))
                for index in _shared(pair, pairs)
            ]
        ),
        cycles=tuple(cycle for cycle in win_cycles(pairs.values()) if {pair.a, pair.b} <= set(cycle)),
    )


def _side(placed: PlacedRollout, group: Sequence[PlacedRollout]) -> PairSide:
    rollout, ranked = placed.rollout, placed.ranked
    return PairSide(
        index=rollout.index,
        role=rollout.role,
        place=place_of(placed, group),
        rank=ranked.rank,
        score=ranked.score,
        uncertainty=ranked.uncertainty,
        failure=rollout.failure.kind if rollout.failure else None,
        explanation=ranked.explanation,
    )


def _difference(
    pooled: PooledFit | None, pair: ChosenPair, a: PairSide, b: PairSide
) -> tuple[float | None, float | None, float | None]:
    """Return A less B, its standard deviation and the probability that A is above, as far as anything tells."""
    if pooled:
        estimate = pair_of_fit(pooled.fit, pooled.entrants, pair.a, pair.b)
    else:
        estimate = pair_estimate(pair.ranking.matches, pair.a, pair.b)
    if estimate:
        figures = (estimate.difference, estimate.sd, estimate.p_above)
        return round(figures[0], _DIGITS) + 0.0, round(figures[1], _DIGITS), round(figures[2], _DIGITS)
    if a.score is None or b.score is None or any(match.scores for match in pair.ranking.matches):
        return None, None, None
    return round(a.score - b.score, _DIGITS) + 0.0, None, None


def _meeting(number: int, match: Match, pair: ChosenPair, verdicts: VerdictLookup) -> Meeting:
    sided = list(sided_scores(match, pair.a, verdicts))
    return Meeting(
        number=number,
        round=match.round,
        shown_first=match.shown_first,
        scores=tuple(scores for _, scores in sided) if len(sided) == len(match.shown_first) else (),
        mean=(score_of(match, pair.a), score_of(match, pair.b)),
        winner=match.winner,
        flipped=match.flipped,
        inconsistent=match.inconsistent,
        repeated=match.repeated,
    )


def _marks(match: Match, a: int, verdicts: VerdictLookup) -> list[tuple[SideScores, SideScores]]:
    """Return what each verdict of a match gave A and the other; nothing of a match whose scores were used before."""
    if match.repeated:
        return []
    return [(x, y) if match.a == a else (y, x) for x, y in marks_of_sides(match, verdicts)]


def _sentences(
    pair: ChosenPair, pairs: dict[tuple[int, int], JudgedPair], verdicts: VerdictLookup
) -> tuple[JudgeSentence | None, JudgeSentence | None]:
    """Return a sentence on each side, of their own match, else of each one's match with an opponent of both."""
    if _of(pairs, pair.a, pair.b):
        return _said_of(pair.a, pair.b, pair, verdicts), _said_of(pair.b, pair.a, pair, verdicts)
    other = next(iter(_shared(pair, pairs)), None)
    return _said_of(pair.a, other, pair, verdicts), _said_of(pair.b, other, pair, verdicts)


def _said_of(side: int, opponent: int | None, pair: ChosenPair, verdicts: VerdictLookup) -> JudgeSentence | None:
    """Return a sentence on a side out of its latest match with an opponent in which the judge said anything of it."""
    numbered = [(n, match) for n, match in enumerate(pair.ranking.matches, 1) if not match.repeated]
    for number, match in reversed(numbered):
        if {match.a, match.b} == {side, opponent} and (said := judge_sentence(match, number, side, verdicts)):
            return said
    return None


def _shared(pair: ChosenPair, pairs: dict[tuple[int, int], JudgedPair]) -> list[int]:
    """Return the rollouts that both met, by number."""
    met = [{e for both in pairs if side in both for e in both} - {side} for side in (pair.a, pair.b)]
    return sorted(met[0] & met[1])


def _of(pairs: dict[tuple[int, int], JudgedPair], a: int, b: int) -> JudgedPair | None:
    return pairs.get((min(a, b), max(a, b)))


def _means(pair: ChosenPair, side: int, opponent: int, pairs: dict[tuple[int, int], JudgedPair]) -> tuple[float, float]:
    """Return the mean scores of a side and its opponent, over the matches that count."""
    judged = _of(pairs, side, opponent)
    numbers = judged.matches if judged else ()
    matches = [match for n in numbers if not (match := pair.ranking.matches[n - 1]).repeated]
    means = [sum(score_of(match, e) for match in matches) / max(1, len(matches)) for e in (side, opponent)]
    return means[0], means[1]
