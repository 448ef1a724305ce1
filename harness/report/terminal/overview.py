"""What a run prints: up to three queries, a table and lines for each; above three, the figures of all together."""

from collections.abc import Iterator

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.archive.run_info import RunInfo
from harness.core.plurals import counted
from harness.ranking.juror_agreement import mean_agreement
from harness.report.judge_quality import judge_lines
from harness.report.summary.batch_rounds import earlier_rounds
from harness.report.summary.figures import AgentFigures, JudgeFigures
from harness.report.summary.notes import agreement_line
from harness.report.summary.ranking import RankingSummary, by_signal, ranked_groups
from harness.report.terminal.group import group_lines, group_table, judge_line
from harness.report.terminal.layout import on_one_line, visible_text
from harness.report.terminal.queries import QueryTable, query_lines
from harness.report.text import money, percent

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
