"""What a ranking shows of its rollouts, in words: a figure, and what the figure says."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.core.rankings import GroupRanking
from harness.core.records import Group, Rollout
from harness.core.wording import counted
from harness.ranking.judge_stats.agreement import Share
from harness.ranking.judge_stats.side_by_side import length_figure
from harness.ranking.judge_stats.tally import Tally
from harness.ranking.query_figures import QueryFigure, mean_over_queries, over_queries, quotient
from harness.report.summary.group import AgentFigures, JudgeFigures, QualityFigure, tallies
from harness.report.summary.labels import rollouts_by_answer
from harness.report.summary.match_verdicts import VerdictLookup, verdict_keys
from harness.report.summary.ranking import ranked_groups
from harness.report.summary.rollouts import samples_above_anchor
from harness.report.text import count, dollars, enumeration, number_interval, percent, percent_interval

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
    sums.different.append((len(ended_well), len(answers), len(set(map(_tools_of_ranking_figures, ended_well)))))
    sums.empty_answers += len(answers.get("", ()))
    if reason := _why_flat_of_ranking_figures(ranked, len(ended_well), len(answers)):
        sums.flat[reason] += 1
    else:
        sums.weak += ranked.signal == "weak"
    above, samples = samples_above_anchor([r.index for r in group.rollouts if r.role == "anchor"], ranked)
    if samples:
        sums.above_anchor.append((above, samples))
    for key in verdict_keys(ranked.matches):
        if verdict := verdict_of(key):
            names = tuple(name for name in verdict.a.dimensions if name in verdict.b.dimensions)
            sums.names.update(dict.fromkeys(names))
            signs = tuple(_sign(verdict.a.dimensions[name] - verdict.b.dimensions[name]) for name in names)
            sums.signs[names, signs, _sign(verdict.a.combined - verdict.b.combined)] += 1
    for judge, tally in tallies(group, ranked, verdict_of).items():
        sums.tallies.setdefault(judge, []).append(tally)


def _mean_count(counts: Sequence[int], most: int) -> QueryFigure | None:
    """Return the mean of one count a query, with an interval of what a count can be: from 0, or 1 if none is 0."""
    figure = mean_over_queries(counts, (float(min(counts, default=0) > 0), math.inf))
    return replace(figure, high=min(figure.high, most)) if figure and figure.high is not None else figure


def _tools_of_ranking_figures(rollout: Rollout) -> tuple[str | None, ...]:
    return tuple(step.tool_name for step in rollout.trajectory.path if step.kind == "tool")


def _why_flat_of_ranking_figures(ranked: GroupRanking, ended_well: int, answers: int) -> str | None:
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


_HALF = 0.5


def ranking_words(figures: RankingFigures, agents: AgentFigures, judge: JudgeFigures) -> Iterator[QualityFigure]:
    """Yield the figures of a ranking's groups."""
    if figures.answers and figures.ended_well and figures.tools:
        of = f" of {number_interval(figures.ended_well, 1)}"
        yield QualityFigure("answers", "Different answers", number_interval(figures.answers, 1) + of, _answers(figures))
        yield QualityFigure(
            "tools",
            "Different tool calls",
            number_interval(figures.tools, 1) + of,
            "sequences of tools a query, whatever their inputs were",
        )
    yield QualityFigure(
        "flat",
        "Advantages all zero",
        f"{count(sum(figures.flat.values()))}, weak {count(figures.weak)}",
        _why_flat(figures),
    )
    if figures.above_anchor:
        above = figures.above_anchor
        yield QualityFigure("above_anchor", "Samples above anchor", percent_interval(above), _sampling(above))
    if figures.dimensions:
        yield QualityFigure(
            "dimensions",
            "Dimension that decides",
            (_by_share(figures)[0] if _decided(figures) else "none"),
            _parting(figures),
        )
    for name, figure in figures.length.items():
        by = f", {name}" if len(figures.length) > 1 else ""
        yield QualityFigure("length", f"Score and length{by}", number_interval(figure), _length(figure))
    ran, failed = counted(agents.runs, "rollout"), agents.failed.total()
    yield QualityFigure(
        "rollouts",
        "Rollouts took",
        _took(agents.tokens, agents.usd),
        (f"{ran}, {count(failed)} of them failed" if failed else ran),
    )
    bought = f"{counted(judge.calls, 'call')} {'was' if judge.calls == 1 else 'were'} bought for this ranking"
    yield QualityFigure("judging", "Judging took", _took(judge.tokens, judge.usd), bought)
    if judge.cached:
        share, cached = percent(judge.cached, max(judge.cached, judge.input)), counted(judge.cached, "token")
        yield QualityFigure("cached", "Judge's input cached", share, f"{cached} at a lower price")


def _answers(figures: RankingFigures) -> str:
    parts = ["a query, of those of its rollouts that ended well"]
    if figures.one_answer:
        parts.append(f"in {counted(figures.one_answer, 'query', 'queries')} all answers are the same")
    if figures.empty_answers:
        parts.append(counted(figures.empty_answers, "answer is empty", "answers are empty"))
    return "; ".join(parts if len(parts) > 1 else [*parts, "texts are compared as the judge sees them"])


def _why_flat(figures: RankingFigures) -> str:
    if not figures.flat:
        return "queries: every group gives a trainer something to learn from"
    return "queries without a gradient: " + ", ".join(f"{why} {count(n)}" for why, n in figures.flat.items())


def _sampling(above: QueryFigure) -> str:
    if above.low is None or above.high is None:
        return "of one query alone, this says nothing of others"
    if above.low > _HALF:
        return "a sample is more often above the anchor than below it: sampling pays"
    if above.high < _HALF:
        return "most samples are level with the anchor or below it"
    return "whether most samples are above the anchor is not sure"


def _parting(figures: RankingFigures) -> str:
    same = (f"{enumeration(alike)} never part: one would do" for alike in _alike(figures.never_part))
    if not (of := _decided(figures)):
        return "; ".join(["no verdict is decided: all are ties", *same])
    share = f"share of {counted(of, 'decided verdict')} in which this mark alone names the winner"
    others = f"then {', '.join(rest)}" if (rest := _by_share(figures)[1:]) else ""
    return "; ".join(filter(None, [share, others, *same]))


def _alike(pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the dimensions of pairs that never part, those together that never part from each other."""
    sets: list[list[str]] = []
    for one, other in pairs:
        together = next((names for names in sets if one in names), None)
        if together is None:
            sets.append([one, other])
        elif other not in together:
            together.append(other)
    return sets


def _decided(figures: RankingFigures) -> int:
    """Return how many verdicts name a winner."""
    return max(dimension.decides.whole for dimension in figures.dimensions)


def _by_share(figures: RankingFigures) -> list[str]:
    ordered = sorted(figures.dimensions, key=lambda d: -(d.decides.value or 0.0))
    return [f"{d.name} {percent(d.decides.part, d.decides.whole)}" for d in ordered]


def _length(figure: QueryFigure) -> str:
    if figure.low is None or figure.high is None or figure.low <= 0 <= figure.high:
        return "no pull of length that is sure (Spearman, ranks within queries)"
    return f"{'longer' if figure.value > 0 else 'shorter'} answers get higher scores (Spearman, ranks within queries)"


def _took(tokens: int | None, usd: float | None) -> str:
    used = "unknown tokens" if tokens is None else counted(tokens, "token")
    return f"{used}, {'cost unknown' if usd is None else dollars(usd)}"
