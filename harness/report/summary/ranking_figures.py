"""What a ranking shows of its rollouts: how they differ, what sets them apart, whether sampling pays; in words too."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.core.errors import counted
from harness.core.rankings import GroupRanking
from harness.core.records import Group
from harness.ranking.judge_stats import side_by_side
from harness.ranking.judge_stats.agreement import Share
from harness.ranking.judge_stats.tally import Tally
from harness.report.summary.group import AgentFigures, JudgeFigures, QualityFigure, tallies
from harness.report.summary.labels import rollouts_by_answer
from harness.report.summary.match_verdicts import VerdictLookup, verdict_keys
from harness.report.summary.ranking import ranked_groups
from harness.report.summary.rollouts import samples_above_anchor
from harness.report.text import count, enumeration, money, number_interval, percent, percent_interval

_SHARE = (0.0, 1.0)
_Signs = tuple[tuple[str, int], ...]
"""Dimensions and which side each prefers: 1, -1, or 0 for none."""


@dataclass(frozen=True)
class RankingFigures:
    """The figures of a ranking's groups; means and shares are over queries."""

    ended_well: side_by_side.QueryFigure | None
    """Rollouts of a query that ended well."""
    answers: side_by_side.QueryFigure | None
    """Different answers among them."""
    tools: side_by_side.QueryFigure | None
    """Different sequences of tool calls among them, by the names of the tools."""
    one_answer: int
    """Queries whose rollouts all give the same answer."""
    empty_answers: int
    """Rollouts that ended well with an empty answer."""
    flat: Mapping[str, int]
    """Queries in which all advantages are zero, by the reason."""
    weak: int
    """Queries whose advantages are not zero, but whose judging hardly tells the rollouts apart."""
    above_anchor: side_by_side.QueryFigure | None
    """Share of ranked samples above the anchor."""
    dimensions: Mapping[str, Share]
    """By dimension, verdicts whose winner has the higher mark in it, of all verdicts with a winner."""
    never_part: tuple[tuple[str, str], ...]
    """Dimensions that prefer the same side in every verdict."""
    length: Mapping[str, side_by_side.QueryFigure]
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
    signs: Counter[tuple[_Signs, int]] = field(default_factory=Counter[tuple[_Signs, int]])
    """Verdicts by what the dimensions prefer, and which side won."""
    tallies: dict[str, list[Tally]] = field(default_factory=dict[str, list[Tally]])


def ranking_figures(reader: RunReader, ranking: RankingFile) -> RankingFigures:
    """Return the figures of a ranking; its groups are read one by one. Raises ArchiveDamaged."""
    sums = _Sums()
    for group, ranked in ranked_groups(reader, ranking):
        _add(sums, group, ranked, reader.verdict)
    verdicts = [(dict(signs), won, times) for (signs, won), times in sums.signs.items()]
    names = list(dict.fromkeys(name for signs, _, _ in verdicts for name in signs))
    decided = {name: [(signs[name] == won, n) for signs, won, n in verdicts if won and name in signs] for name in names}
    both = {
        (one, other): [(signs[one], signs[other]) for signs, _, _ in verdicts if one in signs and other in signs]
        for one, other in combinations(names, 2)
    }
    return RankingFigures(
        ended_well=_mean_count([ended for ended, _, _ in sums.different], sums.most_rollouts),
        answers=_mean_count([answers for _, answers, _ in sums.different], sums.most_rollouts),
        tools=_mean_count([tools for _, _, tools in sums.different], sums.most_rollouts),
        one_answer=sum(ended > 1 and answers == 1 for ended, answers, _ in sums.different),
        empty_answers=sums.empty_answers,
        flat=dict(sums.flat.most_common()),
        weak=sums.weak,
        above_anchor=side_by_side.over_queries(sums.above_anchor, side_by_side.quotient, _SHARE),
        dimensions={
            name: Share(sum(n for alone, n in each if alone), sum(n for _, n in each)) for name, each in decided.items()
        },
        never_part=tuple(
            pair for pair, each in both.items() if any(a for a, _ in each) and all(a == b for a, b in each)
        ),
        length={judge: figure for judge, each in sums.tallies.items() if (figure := side_by_side.length_figure(each))},
    )


def _add(sums: _Sums, group: Group, ranked: GroupRanking, verdict_of: VerdictLookup) -> None:
    ended_well = [r for r in group.rollouts if r.status == "ok"]
    answers = rollouts_by_answer(group)
    tools = {tuple(step.tool_name for step in r.trajectory.path if step.kind == "tool") for r in ended_well}
    sums.most_rollouts = max(sums.most_rollouts, len(group.rollouts))
    sums.different.append((len(ended_well), len(answers), len(tools)))
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
            marks, others = verdict.a.dimensions, verdict.b.dimensions
            signs = tuple((name, _sign(marks[name] - others[name])) for name in marks if name in others)
            sums.signs[signs, _sign(verdict.a.combined - verdict.b.combined)] += 1
    for judge, tally in tallies(group, ranked, verdict_of).items():
        sums.tallies.setdefault(judge, []).append(tally)


def _mean_count(counts: Sequence[int], most: int) -> side_by_side.QueryFigure | None:
    """Return the mean of one count a query, with an interval of what a count can be: from 0, or 1 if none is 0."""
    figure = side_by_side.mean_over_queries(counts, (float(min(counts, default=0) > 0), math.inf))
    return replace(figure, high=min(figure.high, most)) if figure and figure.high is not None else figure


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


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def ranking_words(figures: RankingFigures, agents: AgentFigures, judge: JudgeFigures) -> Iterator[QualityFigure]:
    """Yield the figures of a ranking's groups, each with what it says."""
    yield from _answer_figures(figures)
    if above := figures.above_anchor:
        pays = "whether most samples are above the anchor is not sure"
        if above.low is None or above.high is None:
            pays = "of one query alone, this says nothing of others"
        elif above.low > 0.5:
            pays = "a sample is more often above the anchor than below it: sampling pays"
        elif above.high < 0.5:
            pays = "most samples are level with the anchor or below it"
        yield QualityFigure("above_anchor", "Samples above anchor", percent_interval(above), pays)
    if figures.dimensions:
        yield _dimension_figure(figures)
    for name, figure in figures.length.items():
        by = f", {name}" if len(figures.length) > 1 else ""
        longer = "longer" if figure.value > 0 else "shorter"
        sure = figure.low is not None and figure.high is not None and not figure.low <= 0 <= figure.high
        pull = f"{longer} answers get higher scores" if sure else "no pull of length that is sure"
        meaning = f"{pull} (Spearman, ranks within queries)"
        yield QualityFigure("length", f"Score and length{by}", number_interval(figure), meaning)
    ran, failed = counted(agents.runs, "rollout"), agents.failed.total()
    ended = f"{ran}, {count(failed)} of them failed" if failed else ran
    yield QualityFigure("rollouts", "Rollouts took", _took(agents), ended)
    bought = f"{counted(judge.calls, 'call')} {'was' if judge.calls == 1 else 'were'} bought for this ranking"
    yield QualityFigure("judging", "Judging took", _took(judge), bought)
    if judge.cached:
        share, cached = percent(judge.cached, max(judge.cached, judge.input)), counted(judge.cached, "token")
        yield QualityFigure("cached", "Judge's input cached", share, f"{cached} at a lower price")


def _answer_figures(figures: RankingFigures) -> Iterator[QualityFigure]:
    """Yield how far the rollouts of a query differ, and in how many queries no advantage does."""
    if figures.answers and figures.ended_well and figures.tools:
        of = f" of {number_interval(figures.ended_well, 1)}"
        one_answer = counted(figures.one_answer, "query", "queries")
        parts = [f"in {one_answer} all answers are the same"] * bool(figures.one_answer)
        parts += [counted(figures.empty_answers, "answer is empty", "answers are empty")] * bool(figures.empty_answers)
        said = "; ".join(parts or ["texts are compared as the judge sees them"])
        meaning = f"a query, of those of its rollouts that ended well; {said}"
        yield QualityFigure("answers", "Different answers", number_interval(figures.answers, 1) + of, meaning)
        meaning = "sequences of tools a query, whatever their inputs were"
        yield QualityFigure("tools", "Different tool calls", number_interval(figures.tools, 1) + of, meaning)
    reasons = ", ".join(f"{why} {count(n)}" for why, n in figures.flat.items())
    no_gradient = f"queries without a gradient: {reasons}"
    meaning = no_gradient if reasons else "queries: every group gives a trainer something to learn from"
    flat = f"{count(sum(figures.flat.values()))}, unclear {count(figures.weak)}"
    yield QualityFigure("flat", "Advantages all zero", flat, meaning)


def _dimension_figure(figures: RankingFigures) -> QualityFigure:
    """Return which dimension decides most verdicts, the others, and which of them never part."""
    ordered = sorted(figures.dimensions.items(), key=lambda item: -(item[1].value or 0.0))
    first, *rest = [f"{name} {percent(decides.part, decides.whole)}" for name, decides in ordered]
    named = max(decides.whole for _, decides in ordered)
    decided = [f"share of {counted(named, 'decided verdict')} in which this mark alone names the winner"]
    decided += [f"then {', '.join(rest)}"] if rest else []
    sets: list[list[str]] = []  # of dimensions that never part from each other
    for one, other in figures.never_part:
        together = next((names for names in sets if one in names), None)
        if together is None:
            sets.append([one, other])
        elif other not in together:
            together.append(other)
    same = [f"{enumeration(alike)} never part: one would do" for alike in sets]
    meaning = "; ".join([*(decided if named else ["no verdict is decided: all are ties"]), *same])
    return QualityFigure("dimensions", "Dimension that decides", first if named else "none", meaning)


def _took(figures: AgentFigures | JudgeFigures) -> str:
    used = "unknown tokens" if figures.tokens is None else counted(figures.tokens, "token")
    return f"{used}, {money(figures.cost)}"
