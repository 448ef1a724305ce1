"""What a ranking shows of its rollouts: how they differ, what tells them apart, and whether sampling pays."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.core.rankings import GroupRanking
from harness.core.records import Group, Rollout
from harness.core.verdicts import Judged
from harness.ranking.judge_stats.agreement import Share
from harness.ranking.judge_stats.side_by_side import length_figure
from harness.ranking.judge_stats.tally import Tally
from harness.ranking.query_figures import QueryFigure, mean_over_queries, over_queries, quotient
from harness.report.summary.figures import tallies
from harness.report.summary.match_verdicts import VerdictLookup, verdict_keys
from harness.report.summary.placed_rollouts import samples_above_anchor
from harness.report.summary.ranking import ranked_groups
from harness.report.summary.truths import rollouts_by_answer

_SHARE = (0.0, 1.0)
_Signs = tuple[int, ...]
"""Which side each dimension prefers: 1, -1, or 0 for none; in the order of the rubric."""


@dataclass(frozen=True)
class DimensionFigure:
    """How far one dimension alone names the winners."""

    name: str
    decides: Share
    """Verdicts whose winner has the higher mark in this dimension, of all verdicts with a winner."""


@dataclass(frozen=True)
class RankingFigures:
    """The figures of a ranking's groups; means and shares are over queries."""

    ended_well: QueryFigure | None
    """Rollouts of a query that ended well."""
    answers: QueryFigure | None
    """Different answers among them."""
    tools: QueryFigure | None
    """Different sequences of tool calls among them, by the names of the tools."""
    one_answer: int
    """Queries whose rollouts all give the same answer."""
    empty_answers: int
    """Rollouts that ended well with an empty answer."""
    flat: Mapping[str, int]
    """Queries in which all advantages are zero, by the reason."""
    weak: int
    """Queries whose advantages are not zero, but whose judging hardly tells the rollouts apart."""
    above_anchor: QueryFigure | None
    """Share of ranked samples above the anchor."""
    dimensions: tuple[DimensionFigure, ...]
    never_part: tuple[tuple[str, str], ...]
    """Dimensions that prefer the same side in every verdict."""
    length: Mapping[str, QueryFigure]
    """By judge, Spearman's correlation of score with answer length, ranks within queries."""


@dataclass
class _Sums:
    """What is kept of the groups that were read."""

    different: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    most_rollouts: int = 0
    """Of a group, however they ended."""
    empty_answers: int = 0
    flat: Counter[str] = field(default_factory=Counter[str])
    weak: int = 0
    above_anchor: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    names: dict[str, None] = field(default_factory=dict[str, None])
    signs: Counter[tuple[tuple[str, ...], _Signs, int]] = field(
        default_factory=Counter[tuple[tuple[str, ...], _Signs, int]]
    )
    """Verdicts by the names of their dimensions, which side each prefers, and which side won."""
    tallies: dict[str, list[Tally]] = field(default_factory=dict[str, list[Tally]])


def ranking_figures(reader: RunReader, ranking: RankingFile) -> RankingFigures:
    """Return the figures of a ranking; its groups are read one by one. Raises ArchiveDamaged."""
    sums = _Sums()
    for group, ranked in ranked_groups(reader, ranking):
        _add(sums, group, ranked, reader.verdict)
    return RankingFigures(
        ended_well=_mean_count([ended for ended, _, _ in sums.different], sums.most_rollouts),
        answers=_mean_count([answers for _, answers, _ in sums.different], sums.most_rollouts),
        tools=_mean_count([tools for _, _, tools in sums.different], sums.most_rollouts),
        one_answer=sum(ended > 1 and answers == 1 for ended, answers, _ in sums.different),
        empty_answers=sums.empty_answers,
        flat=dict(sums.flat.most_common()),
        weak=sums.weak,
        above_anchor=over_queries(sums.above_anchor, quotient, _SHARE),
        dimensions=tuple(_dimensions(sums)),
        never_part=tuple(_never_part(sums)),
        length={judge: figure for judge, each in sums.tallies.items() if (figure := length_figure(each))},
    )


def _add(sums: _Sums, group: Group, ranked: GroupRanking, verdict_of: VerdictLookup) -> None:
    ended_well = [r for r in group.rollouts if r.status == "ok"]
    answers = rollouts_by_answer(group)
    sums.most_rollouts = max(sums.most_rollouts, len(group.rollouts))
    sums.different.append((len(ended_well), len(answers), len(set(map(_tools, ended_well)))))
    sums.empty_answers += len(answers.get("", ()))
    if reason := _why_flat(ranked, len(ended_well), len(answers)):
        sums.flat[reason] += 1
    else:
        sums.weak += ranked.signal == "weak"
    above, samples = samples_above_anchor([r.index for r in group.rollouts if r.role == "anchor"], ranked)
    if samples:
        sums.above_anchor.append((above, samples))
    for key in verdict_keys(ranked.matches):
        if verdict := verdict_of(key):
            _add_signs(sums, verdict)
    for judge, tally in tallies(group, ranked, verdict_of).items():
        sums.tallies.setdefault(judge, []).append(tally)


def _mean_count(counts: Sequence[int], most: int) -> QueryFigure | None:
    """Return the mean of one count a query, with an interval of what a count can be: from 0, or 1 if none is 0."""
    figure = mean_over_queries(counts, (float(min(counts, default=0) > 0), math.inf))
    return replace(figure, high=min(figure.high, most)) if figure and figure.high is not None else figure


def _tools(rollout: Rollout) -> tuple[str | None, ...]:
    return tuple(step.tool_name for step in rollout.trajectory.path if step.kind == "tool")


def _why_flat(ranked: GroupRanking, ended_well: int, answers: int) -> str | None:
    """Return why all advantages are zero; None where one is not."""
    advantages = [r.advantage for r in ranked.rollouts if r.advantage is not None]
    if any(advantages):
        return None
    if not ended_well:
        return "no rollout ended well"
    if ended_well == 1:
        return "one rollout ended well"
    if not advantages:
        return "verdicts are missing"
    return "all answers are the same" if answers == 1 else "the scores are level"


def _add_signs(sums: _Sums, verdict: Judged) -> None:
    names = tuple(name for name in verdict.a.dimensions if name in verdict.b.dimensions)
    sums.names.update(dict.fromkeys(names))
    signs = tuple(_sign(verdict.a.dimensions[name] - verdict.b.dimensions[name]) for name in names)
    sums.signs[names, signs, _sign(verdict.a.combined - verdict.b.combined)] += 1


def _dimensions(sums: _Sums) -> Iterator[DimensionFigure]:
    for name in sums.names:
        decided = [(n, signs[names.index(name)] == won) for (names, signs, won), n in _with(sums, name) if won]
        yield DimensionFigure(name, Share(sum(n for n, alone in decided if alone), sum(n for n, _ in decided)))


def _never_part(sums: _Sums) -> Iterator[tuple[str, str]]:
    """Yield the pairs of dimensions that prefer the same side throughout, where they prefer any at all."""
    for one, other in combinations(sums.names, 2):
        both = [
            (signs[names.index(one)], signs[names.index(other)])
            for (names, signs, _), _ in _with(sums, one)
            if other in names
        ]
        if any(a for a, _ in both) and all(a == b for a, b in both):
            yield one, other


def _with(sums: _Sums, name: str) -> Sequence[tuple[tuple[tuple[str, ...], _Signs, int], int]]:
    return [item for item in sums.signs.items() if name in item[0][0]]


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)
