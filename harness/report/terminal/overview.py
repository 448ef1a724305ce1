"""What a run prints: up to three queries, a table and lines for each; above three, the figures of all together."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from harness.archive.batch_log import with_provider
from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.archive.run_info import RunInfo
from harness.core.plurals import counted
from harness.core.rankings import GroupRanking, Ranked
from harness.core.records import Group, Rollout
from harness.ranking.judge_stats.agreement import mean_agreement
from harness.ranking.judge_stats.tally import judge_calls
from harness.report.judge_quality import judge_lines
from harness.report.summary.batch_rounds import earlier_rounds
from harness.report.summary.figures import AgentFigures, JudgeFigures, judge_figures
from harness.report.summary.first_two import first_places
from harness.report.summary.flags import rollout_flags
from harness.report.summary.match_verdicts import VerdictLookup, verdict_keys
from harness.report.summary.notes import agreement_line, jury_lines, notes, open_reasons
from harness.report.summary.placed_rollouts import (
    PlacedRollout,
    certainty,
    place_of,
    placed_rollouts,
    places_by_secondary_fit,
    rollout_label,
    score_name,
)
from harness.report.summary.ranking import RankingSummary, by_signal, ranked_groups
from harness.report.terminal.layout import line_of_text, on_one_line, visible_text
from harness.report.terminal.queries import QueryTable, query_lines
from harness.report.terminal.table import SHORTEST, Column, TableRow, cut_to, table_lines
from harness.report.text import EMPTY_ANSWER, dollars, enumeration, money, percent, probability

_COLUMNS = (
    Column("place", 1, right=True),
    Column("p(best)", 4, right=True),
    Column("rollout", 2, right=True),
    Column("role", 3),
    Column("score", 5, right=True),
    Column("reward", 10, right=True),
    Column("advantage", 9, right=True),
    Column("second opinion", 11, right=True),
    Column("tokens", 8, right=True),
    Column("cost", 7, right=True),
    Column("answer", 6, wish=24),
)


def group_table(group: Group, ranking: GroupRanking | None, width: int) -> Iterator[Text]:
    """Yield a query, and a table of its rollouts, best first."""
    yield line_of_text(cut_to(on_one_line(group.query.text), max(SHORTEST, width)), "bold")
    placed = placed_rollouts(group, ranking)
    beside = places_by_secondary_fit((p.ranked for p in placed), ranking.matches if ranking else ())
    names = {"score": score_name(ranking), "second opinion": f"by {ranking.secondary_fit if ranking else 'margins'}"}
    columns = [replace(c, name=names.get(c.name, c.name)) for c in _COLUMNS]
    rows = (TableRow(_cells(p, placed, beside), "bold" if p.ranked.rank == 0 else "") for p in placed)
    yield from table_lines(columns, rows, width)


def _cells(placed: PlacedRollout, group: Sequence[PlacedRollout], beside: Mapping[int, str]) -> list[str]:
    rollout, ranked = placed.rollout, placed.ranked
    tokens = rollout.usage.tokens
    figures = ((ranked.score, "z.2f"), (ranked.reward, "z.3f"), (ranked.advantage, "+z.2f"))
    return [
        place_of(placed, group),
        probability(ranked.p_best),
        str(rollout.index),
        rollout.role,
        *("–" if value is None else f"{value:{form}}" for value, form in figures),
        beside.get(ranked.index, "–"),
        "–" if tokens is None else f"{tokens:,}",
        dollars(rollout.price_usd),
        on_one_line(_answer(rollout)),
    ]


def _answer(rollout: Rollout) -> str:
    if rollout.status == "ok":
        return rollout.trajectory.answer if rollout.trajectory.answer.strip() else EMPTY_ANSWER
    return f"failed: {rollout.failure.kind}" if rollout.failure else ""


def group_lines(group: Group, ranking: GroupRanking, reader: RunReader) -> list[Text]:
    """Return what to know first about a group: the deciding match, flips, signal, what went wrong."""
    return [visible_text(line) for line in _lines(group, ranking, reader)]


def _lines(group: Group, ranking: GroupRanking, reader: RunReader) -> Iterator[str]:
    if headline := _headline(group, ranking, reader.verdict):
        yield headline
    if sure := certainty(group, ranking):
        yield sure
    calls = judge_calls(ranking, filter(None, map(reader.verdict, verdict_keys(ranking.matches))), {})
    yield judge_line(judge_figures(ranking, chain.from_iterable(calls.values())), _signal(ranking))
    yield from jury_lines(ranking)
    for ranked in _best_explained(ranking):
        yield f"why rollout {ranked.index}: {on_one_line(ranked.explanation or '', 200)}"
    yield from (f"note: {note}" for note in notes(group, ranking))
    yield from (flag.sentence for flag in rollout_flags(ranking, reader.verdict))
    for rollout in group.rollouts:
        if failure := rollout.failure:
            message = on_one_line(failure.message, 160)
            yield f"rollout {rollout.index} failed: {failure.kind} ({failure.type}: {message})"
    if ranking.failed_verdicts:
        yield from _open_lines(ranking, open_reasons(reader.verdicts(), [ranking]), with_provider(reader.folder))


def _headline(group: Group, ranking: GroupRanking, verdicts: VerdictLookup) -> str | None:
    places = first_places(group, ranking, verdicts)
    if len(places.ranked) < 2:
        return None
    if len(places.leaders) > 1:
        first, *others = (rollout_label(r) for r in places.leaders)
        return f"tie: {first} shares first place with {enumeration(others)}"
    reasons = places.match.reasons("{} {:+.1f}".format, most=3) if places.match else []
    return "; ".join([places.comparison, *reasons])


def judge_line(figures: JudgeFigures, signal: str) -> str:
    """Return how often matches flipped and the first position won, with the signal."""
    matches = counted(figures.both_orders, "match", "matches")
    parts = [f"flips {figures.flips:,} of {matches}"] if figures.both_orders else []
    if figures.decided:
        parts.append(f"first position wins {percent(figures.first_wins, figures.decided)}")
    return " · ".join([*parts, f"signal {signal}"])


def _signal(ranking: GroupRanking) -> str:
    return ranking.signal if any(r.rank is not None for r in ranking.rollouts) else "–"


def _best_explained(ranking: GroupRanking) -> list[Ranked]:
    """Return the rollouts of the first two places that a listwise judge gave reasons for."""
    explained = [r for r in ranking.rollouts if r.rank is not None and r.explanation]
    return sorted(explained, key=lambda r: r.rank or 0.0)[:2]


def _open_lines(ranking: GroupRanking, reasons: Counter[str], batches: Mapping[str, str]) -> Iterator[str]:
    """Yield what a group waits for: verdicts that failed, that are in `batches`, by key, or that were left unbought."""
    failed = reasons.total()
    if failed:
        yield f"incomplete: {counted(failed, 'verdict')} failed, so {_unranked(ranking)}:"
        for reason, times in reasons.most_common(3):
            yield f"  {times:,} x {on_one_line(reason, 160)}"
        yield "  `harness resume RUN` asks for just those again, `rescore --judge-model` another judge"
    asked = {key: batches[key] for key in ranking.failed_verdicts if key in batches}
    if asked:
        names = enumeration(sorted({*asked.values()}))
        yield (
            f"waiting: the provider has {counted(len(asked), 'question')} (batch {names}), so {_unranked(ranking)}; "
            "`harness resume RUN` collects the replies"
        )
    if (unbought := len(ranking.failed_verdicts) - failed - len(asked)) > 0:
        yield (
            f"incomplete: {counted(unbought, 'verdict')} not bought (--free, --max-cost, --deadline), "
            f"so {_unranked(ranking)}; `harness rescore RUN` with the same options, but without those, buys them"
        )


def _unranked(ranking: GroupRanking) -> str:
    some_ranked = any(r.rank is not None for r in ranking.rollouts)
    return f"{ranking.estimator} ranks by the others" if some_ranked else "nothing is ranked"


_TABLES_UP_TO = 3
"""Queries; above this number the figures of all together say more than a table for each."""


def overview(
    reader: RunReader, ranking: RankingFile, summary: RankingSummary, width: int, queries: QueryTable | None = None
) -> RenderableType:
    """Return what a run prints on stdout, `width` characters wide, without the next commands.

    With `queries` there is a table of the queries, however few there are. Raises UsageError for a key or a column that
    no query has.
    """
    order = str(ranking.head.settings.get("order"))
    parts: list[RenderableType] = []
    if queries or len(summary.lines) > _TABLES_UP_TO:
        parts += query_lines(summary.lines, queries or QueryTable(), width)
        parts += map(visible_text, _lines_of_all(summary))
    else:
        for group, ranked in ranked_groups(reader, ranking):
            parts += [
                *([visible_text("")] if parts else ()),
                *group_table(group, ranked, width),
                *group_lines(group, ranked, reader),
            ]
    parts += [visible_text(line) for line in judge_lines(summary.tallies, order)]
    if not (ranking.finished or ranking.groups):
        return Lines(*parts, visible_text("judge: not begun, no query is ranked yet"))
    before = earlier_rounds(reader, ranking)
    if before.calls:
        return Lines(*parts, cost_line(summary.judge + before, summary.agents, judge_of=" in all rounds of batches"))
    judge_of = " in this ranking" if len(reader.heads()) > 1 else ""
    return Lines(*parts, cost_line(summary.judge, summary.agents, judge_of=judge_of))


def cost_line(judge: JudgeFigures, agent: AgentFigures, *, judge_of: str = "") -> Text:
    """Return what was paid for, and how much; `judge_of` says, after a space, of what the judge's figures are."""
    failed = f" ({counted(judge.failed, 'verdict')} missing)" if judge.failed else ""
    cached = f", {judge.cached:,} input tokens from the provider's cache" if judge.cached else ""
    return visible_text(
        f"judge{judge_of}: {counted(judge.calls, 'call')}{failed}"
        f"{_tokens(judge.tokens)}{cached}, {money(judge.usd)} · "
        f"agent: {counted(agent.runs, 'run')}{_tokens(agent.tokens)}, {money(agent.usd)}"
    )


def parts_line(info: RunInfo, ranking: RankingFile, summary: RankingSummary) -> Text:
    """Return who took part: the agent, its models and its instructions, the judge, the rubric."""
    models, instructions = sorted(summary.models.asked), info.settings.get("instructions")
    agent = [f"agent {info.agent}"]
    agent += [f"model{'s' if len(models) > 1 else ''} {', '.join(models)}"] if models else []
    agent += [f"instructions {instructions}"] if instructions else []
    judge = str(ranking.head.judge.get("label") or ranking.head.judge.get("model") or "")
    parts = [", ".join(agent), *([f"judge {judge}"] if judge else []), f"rubric {ranking.head.rubric.split(' ')[0]}"]
    return visible_text(" · ".join(map(on_one_line, parts)))


def _tokens(tokens: int | None) -> str:
    return "" if tokens is None else f", {counted(tokens, 'token')}"


def _lines_of_all(summary: RankingSummary) -> Iterator[str]:
    """Yield the figures of many queries together."""
    agents, signals, queries = summary.agents, summary.signals_in_full, len(summary.lines)
    failed = agents.failed.total()
    causes = ", ".join(f"{times:,} {kind}" for kind, times in sorted(agents.failed.items()))
    of = f"{counted(queries, 'query', 'queries')}, {counted(agents.runs, 'rollout')}"
    yield f"{of}: {agents.runs - failed:,} ok, {failed:,} failed" + (f" ({causes})" if causes else "")
    yield f"groups with signal: {percent(signals['ok'], queries)}" + (
        f"; incomplete: {summary.incomplete:,}" if summary.incomplete else ""
    )
    above, samples = summary.above_anchor
    yield f"samples above their anchor: {above:,} of {samples:,}" + (f" ({percent(above, samples)})" if samples else "")
    yield judge_line(summary.judge, ", ".join(f"{signal} {groups:,}" for signal, groups in by_signal(signals).items()))
    for pair in mean_agreement(summary.agreements):
        yield f"{agreement_line(pair)}, mean over groups"
    if noise := signals["weak"] + signals["none"]:
        of_all = counted(queries, "query", "queries")
        yield f"the rankings of {noise:,} of {of_all} are noise, or close to it (signal weak or none)"
