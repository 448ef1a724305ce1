"""Why one of two rollouts is above the other: the explanation is put together from a group's records."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.core.errors import NothingRankable, UsageError, call
from harness.core.rankings import GroupRanking, Judged, Match, SideScores
from harness.core.records import Group, Query
from harness.ranking.conclusions import pair_estimate, pair_of_fit
from harness.report.summary import match_verdicts, why_records
from harness.report.summary.credit import RunCredit
from harness.report.summary.pair_table import judged_pairs, sided_scores, win_cycles
from harness.report.summary.pooled_fit import judge_at_need, pooled_fit
from harness.report.summary.ranking import group_of, is_offline
from harness.report.summary.rollouts import place_of, placed_rollouts, score_name, with_a_rank

_END = re.compile(r"(?<=[.!?])(?=\s)|(?<=[。！？])")
_LONGEST = 300
"""Characters of a sentence that are kept."""
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|Dr|Mr|Ms|St|No|Fig)|\b[A-Za-z]|\d)\.$")


def judge_sentence(
    match: Match, number: int, side: int, verdicts: match_verdicts.VerdictLookup
) -> why_records.JudgeSentence | None:
    """Return a sentence of the judge on `side`; None where no verdict of the match says anything on it.

    The verdict is the first that names the match's winner, else the first; the sentence is the first on that block,
    answer or path, in which the two are further apart.
    """

    def gap(verdict: Judged, block: str) -> float:
        a, b = getattr(verdict.a, block), getattr(verdict.b, block)
        return -1.0 if a is None or b is None else abs(a - b)

    judged = [(first, verdict) for first, verdict in match_verdicts.judged_orders(match, verdicts) if verdict]
    names = {first: {"A": first, "B": match_verdicts.opponent_of(match, first)} for first, _ in judged}
    for first, verdict in sorted(judged, key=lambda order: names[order[0]].get(order[1].winner) != match.winner):
        for block in sorted(("answer", "path"), key=lambda name: -gap(verdict, name)):
            name = f"{block}_{'A' if first == side else 'B'}"
            if text := first_sentence(verdict.analysis.get(name, "")):
                text += f" {match_verdicts.CITES_NOTHING}" if name in match_verdicts.bare_remarks(verdict) else ""
                return why_records.JudgeSentence(text, number, first, match_verdicts.opponent_of(match, side))
    return None


def first_sentence(text: str) -> str:
    """Return the first sentence of a text on one line, cut where it is very long."""
    flat = " ".join(text[: 20 * _LONGEST].split())
    ends = (match.start() for match in _END.finditer(flat))
    end = next((at for at in ends if not _ABBREVIATION.search(flat[:at][-12:])), len(flat))
    sentence = flat[:end]
    return sentence if len(sentence) <= _LONGEST else sentence[: _LONGEST - 1].rstrip() + "…"


def dimension_leads(sides: Sequence[tuple[SideScores, SideScores]]) -> tuple[why_records.DimensionLead, ...]:
    """Return the dimensions that both sides were marked on, in the rubric's order; `sides` is a pair a verdict."""
    marks: dict[str, list[tuple[int, int]]] = {}
    for a, b in sides:
        for name, mark in a.dimensions.items():
            if name in b.dimensions:
                marks.setdefault(name, []).append((mark, b.dimensions[name]))
    means = {
        name: (sum(a for a, _ in pairs) / len(pairs), sum(b for _, b in pairs) / len(pairs))
        for name, pairs in marks.items()
    }
    lead = sum(a.combined - b.combined for a, b in sides)
    decisive = decided({name: a - b for name, (a, b) in means.items()}, lead)
    return tuple(why_records.DimensionLead(name, pair, name in decisive) for name, pair in means.items())


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
        raise NothingRankable(f"run {reader.info.id} is not judged yet: {reader.how_to_rank} judges it")
    return reader.ranking(ranking_id)


def find_pair(
    reader: RunReader, ranking: RankingFile, query: Query, a: int | None = None, b: int | None = None
) -> ChosenPair:
    """Return two rollouts of a query, by default the first two places. Raises UsageError and NothingRankable."""
    ranked = ranking.of(query.id)
    if ranked is None or not (ranked.matches or ranked.verdicts):
        topology = {"topology": "arena"} if ranking.head.settings.get("topology") == "none" else {}
        raise NothingRankable(
            f"query {query.id!r} of run {reader.info.id} is not judged in ranking {ranking.head.id}; "
            f"{call('rescore', reader.typed_name, **topology)} judges it"
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
        every = ", ".join(map(str, there))
        raise UsageError(f"no two rollouts of query {query.id!r} have a place: name two of them; there are: {every}")
    return ChosenPair(group, ranked, chosen[0], chosen[1])


def explain_pair(reader: RunReader, ranking: RankingFile, pair: ChosenPair) -> why_records.PairExplanation:
    """Return why one of two rollouts is above the other, without what would make them meet if they never did."""
    group, ranked, verdicts = pair.group, pair.ranking, cache(reader.verdict)
    a, b = _side(pair, pair.a), _side(pair, pair.b)
    met = [(number, match) for number, match in enumerate(ranked.matches, 1) if {match.a, match.b} == {pair.a, pair.b}]
    judge = judge_at_need(ranking)
    pooled = pooled_fit(ranking, ranked, pair.a, pair.b, judge)
    by_differences = pair_of_fit(pooled.by_differences, pooled.entrants, pair.a, pair.b) if pooled else None
    estimate = pair_of_fit(pooled.fit, pooled.entrants, pair.a, pair.b) if pooled else None
    if pooled is None:
        estimate = pair_estimate(ranked.matches, pair.a, pair.b)
    difference = estimate.difference if estimate else None
    if estimate is None and a.score is not None and b.score is not None and not ranked.matches:
        difference = a.score - b.score
    paths = {r.index: r.trajectory.path for r in group.rollouts}
    marks = [
        (x, y) if match.a == pair.a else (y, x)
        for _, match in met
        if not match.repeated  # else its scores were used before
        for x, y in match_verdicts.marks_of_sides(match, verdicts)
    ]
    meetings: list[why_records.Meeting] = []
    for number, match in met:
        scores = tuple(of_sides for _, of_sides in sided_scores(match, pair.a))
        mean = match_verdicts.score_of(match, pair.a), match_verdicts.score_of(match, pair.b)
        flags = match.flipped, match.inconsistent, match.repeated
        meetings.append(why_records.Meeting(number, match.round, match.shown_first, scores, mean, match.winner, *flags))
    cycles = win_cycles(judged_pairs(ranked.matches).values())
    credited = RunCredit(reader, ranking, judge=judge).of_readable(group.query)
    return why_records.PairExplanation(
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
        difference=None if difference is None else round(difference, _DIGITS) + 0.0,
        sd=round(estimate.sd, _DIGITS) if estimate else None,
        p_above=round(estimate.p_above, _DIGITS) if estimate else None,
        by_differences=round(by_differences.difference, _DIGITS) + 0.0 if by_differences else None,
        matches=tuple(meetings),
        dimensions=dimension_leads(marks),
        first_parting=why_records.first_parting(paths[pair.a], paths[pair.b]),
        judge=_sentences(pair, verdicts),
        flags=tuple(
            flag for flag in match_verdicts.rollout_flags(ranked, verdicts) if flag.rollout in {pair.a, pair.b}
        ),
        common=tuple(
            why_records.CommonOpponent(index, _means(pair, pair.a, index), _means(pair, pair.b, index))
            for index in ([] if met else _opponents_of_both(pair))
        ),
        credit=(credited.of(pair.a), credited.of(pair.b)) if credited else None,
        cycles=tuple(cycle for cycle in cycles if {pair.a, pair.b} <= set(cycle)),
    )


def _side(pair: ChosenPair, index: int) -> why_records.PairSide:
    every = placed_rollouts(pair.group, pair.ranking)
    placed = next(p for p in every if p.rollout.index == index)
    rollout, ranked = placed.rollout, placed.ranked
    return why_records.PairSide(
        index=index,
        role=rollout.role,
        place=place_of(placed, every),
        rank=ranked.rank,
        score=ranked.score,
        uncertainty=ranked.uncertainty,
        failure=rollout.failure.kind if rollout.failure else None,
        explanation=ranked.explanation,
        files=rollout.trajectory.files,
        branch=rollout.branch,
    )


def _sentences(
    pair: ChosenPair, verdicts: match_verdicts.VerdictLookup
) -> tuple[why_records.JudgeSentence | None, why_records.JudgeSentence | None]:
    """Return a sentence on each side, of their own match, else of each one's match with an opponent of both."""
    they_met = any({match.a, match.b} == {pair.a, pair.b} for match in pair.ranking.matches)
    numbered = [(n, match) for n, match in enumerate(pair.ranking.matches, 1) if not match.repeated]
    other = next(iter(_opponents_of_both(pair)), None)

    def said(side: int, opponent: int | None) -> why_records.JudgeSentence | None:
        met = [(n, m) for n, m in reversed(numbered) if {m.a, m.b} == {side, opponent}]  # the latest first
        return next(filter(None, (judge_sentence(match, number, side, verdicts) for number, match in met)), None)

    return said(pair.a, pair.b if they_met else other), said(pair.b, pair.a if they_met else other)


def _opponents_of_both(pair: ChosenPair) -> list[int]:
    """Return the rollouts that both met, by number."""
    pairs = [{match.a, match.b} for match in pair.ranking.matches]
    met = [{e for both in pairs if side in both for e in both} - {side} for side in (pair.a, pair.b)]
    return sorted(met[0] & met[1])


def _means(pair: ChosenPair, side: int, opponent: int) -> tuple[float, float]:
    """Return the mean scores of a side and its opponent, over the matches that count."""
    sides = {side, opponent}
    matches = [match for match in pair.ranking.matches if not match.repeated and {match.a, match.b} == sides]
    means = [
        sum(match_verdicts.score_of(match, e) for match in matches) / max(1, len(matches)) for e in (side, opponent)
    ]
    return means[0], means[1]
