"""What `show` prints of a ranking, and every run at its end. Each table's columns stand with what their cells hold.

Up to three queries: for each its leaderboard (`group_table`), and lines below it (`group_lines`). Above three: a row a
query (`query_lines`), and the figures of all together.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from harness.archive.batch_log import with_provider
from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.archive.run_info import RunInfo
from harness.core.errors import UsageError, call, counted, did_you_mean, quoted
from harness.core.rankings import GroupRanking, Ranked
from harness.core.records import GATEWAY, Group, Rollout
from harness.core.unicode import visible_name
from harness.ranking.judge_stats.agreement import mean_agreement
from harness.report import text
from harness.report.judge_quality import judge_lines
from harness.report.summary import rollouts
from harness.report.summary.group import JudgeFigures, QueryLine, calls_by_judge, judge_figures
from harness.report.summary.match_verdicts import rollout_flags
from harness.report.summary.ranking import RankingSummary, by_signal, ranked_groups
from harness.report.summary.rankings import earlier_rounds
from harness.report.terminal.table import Column, TableRow, fitted_line, on_one_line, table_lines, visible_text

_LISTED = 20
"""Queries that a table of many lists unless it is to list all."""
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")
_KEYS: Mapping[str, Callable[[QueryLine], Any]] = {
    "number": lambda line: line.number,
    "id": lambda line: line.id,
    "winner": lambda line: (line.first_role, line.first) if line.first_role else None,
    "score": lambda line: line.score,
    "p_best": lambda line: line.p_best,
    "signal": lambda line: ("none", "weak", "ok").index(line.signal),
    "flips": lambda line: line.flips[0],
    "tokens": lambda line: line.tokens,
    "cost": lambda line: line.cost.known if line.cost.exact or line.cost.known else None,
    "time": lambda line: line.seconds,
    "failed": lambda line: line.failed,
    "query": lambda line: line.title,
}
SORT_KEYS = tuple(_KEYS)
"""What a table of queries can be sorted by, apart from the fields of the queries' metadata."""


@dataclass(frozen=True)
class QueryTable:
    """What a table of queries shows, and in which order."""

    sort: str = "number"
    """A key of `_KEYS`, or a field of the queries' metadata; with a `-` before it the greatest comes first."""
    all: bool = False
    """Whether all queries are listed, or the first ones only."""
    columns: tuple[str, ...] = ()
    """Fields of the queries' metadata, each a column."""


def query_lines(lines: Sequence[QueryLine], table: QueryTable, width: int) -> Iterator[Text]:
    """Yield a table with a row for each query. Raises UsageError for a key or a column that no query has."""
    fields = list(dict.fromkeys(name for line in lines for name in line.metadata))
    for name in table.columns:
        if name not in fields:
            raise _unknown(name, "--columns", fields)
    key = table.sort.removeprefix("-")
    headings = {"p(best)": "p_best"} | dict.fromkeys((line.score_name for line in lines), "score")
    key = key if key in fields else headings.get(key, key)
    if key not in {*_KEYS, *fields}:
        raise _unknown(key, "--sort", [*_KEYS, *fields])
    values: list[Any] = [_KEYS[key](line) if key in _KEYS else _field_key(line.metadata.get(key)) for line in lines]
    ordered = [at for at, value in enumerate(values) if value is not None]
    ordered.sort(key=values.__getitem__, reverse=table.sort.startswith("-"))
    ordered += [at for at, value in enumerate(values) if value is None]  # last, whichever way the others go
    shown = [lines[at] for at in (ordered if table.all else ordered[:_LISTED])]
    columns = _query_columns({line.score_name for line in lines}, table.columns)
    yield from table_lines(list(columns), ([cell(line) for cell in columns.values()] for line in shown), width)
    if left_out := len(lines) - len(shown):
        yield visible_text(f"and {left_out:,} more: `harness show --all`; --query ID shows one")


def _query_columns(score_names: set[str], fields: Sequence[str]) -> dict[Column, Callable[[QueryLine], str]]:
    """Return the columns of a table of queries, each with what stands in its cells."""

    def field_cell(name: str) -> Callable[[QueryLine], str]:
        return lambda line: on_one_line(str(line.metadata.get(name, "")))

    return {
        Column("id", 1, wish=16): lambda line: visible_name(line.id),
        Column("winner", 2): _winner,
        Column(min(score_names) if len(score_names) == 1 else "score", 3, right=True): lambda line: (
            text.fixed(line.score) or "–"
        ),
        Column("p(best)", 4, right=True): lambda line: text.probability(line.p_best),
        Column("signal", 5): lambda line: text.SIGNAL_WORDS[line.signal] if line.first else "–",
        Column("flips", 7, right=True): lambda line: "{:,} of {:,}".format(*line.flips) if line.flips[1] else "–",
        Column("tokens", 9, right=True): lambda line: "–" if line.tokens is None else f"{line.tokens:,}",
        Column("cost", 8, right=True): lambda line: text.dollars(line.cost),
        Column("time", 10, right=True): lambda line: text.seconds(line.seconds),
        **{Column(on_one_line(name), 4, wish=16): field_cell(name) for name in fields},
        Column("query", 6, wish=16): lambda line: on_one_line(line.title),
    }


def _winner(line: QueryLine) -> str:
    if line.first_role is None:
        return "–" if line.complete else "incomplete"
    if len(line.first) == 1:
        return f"{line.first_role} {line.first[0]}{', by a tie' if line.by_tie else ''}"
    return f"tie: {', '.join(map(str, line.first))}" if len(line.first) <= 3 else f"tie of {len(line.first)}"


def _field_key(value: float | str | None) -> tuple[bool, float, str] | None:
    """Return what a field sorts by: numbers, those in texts too, before texts."""
    if value is None:
        return None
    if not isinstance(value, str):
        return False, value, ""  # as it is: a whole number may be too large for a float
    return (False, float(value), "") if _NUMBER.fullmatch(value) else (True, 0.0, value)


def _unknown(name: str, option: str, names: Sequence[str]) -> UsageError:
    there_are = f"There are: {', '.join(names)}" if names else "The queries have no metadata"
    return UsageError(f"{option}: there is no {quoted(name)}{did_you_mean(name, names) or '.'} {there_are}")


def group_table(group: Group, ranking: GroupRanking | None, width: int) -> Iterator[Text]:
    """Yield a query, and the leaderboard of its rollouts, best first; without a ranking what they are themselves."""
    yield fitted_line(group.query.text, width, "bold")
    placed = rollouts.placed_rollouts(group, ranking)
    columns = _rollout_columns(placed, ranking)
    rows = ([cell(p.rollout, p.ranked) for cell in columns.values()] for p in placed)
    styles = ("bold" if p.ranked.rank == 0 else "" for p in placed)
    yield from table_lines(list(columns), map(TableRow, rows, styles), width)


def _rollout_columns(
    placed: Sequence[rollouts.PlacedRollout], ranking: GroupRanking | None
) -> dict[Column, Callable[[Rollout, Ranked], str]]:
    """Return the columns of a leaderboard, each with what stands in its cells."""
    places = {p.ranked.index: rollouts.place_of(p, placed) for p in placed}
    judged = ranking.matches if ranking and (ranking.status == "complete" or ranking.matches) else None
    second_fit = {} if judged is None else rollouts.places_by_secondary_fit((p.ranked for p in placed), judged)

    def number(value: float | None, form: str) -> str:
        return "–" if value is None else f"{value:{form}}"

    def answer(rollout: Rollout) -> str:
        if rollout.status == "ok":
            return rollout.trajectory.answer if rollout.trajectory.answer.strip() else text.EMPTY_ANSWER
        return f"failed: {rollout.failure.kind}" if rollout.failure else ""

    def recipe(rollout: Rollout, _: Ranked) -> str:
        return rollout.recipe.name if rollout.recipe else "–"

    varied = {Column("recipe", 3): recipe} if any(p.rollout.recipe for p in placed) else {}
    if any(p.rollout.origin == GATEWAY for p in placed):
        varied[Column("session", 12)] = lambda rollout, _: on_one_line(rollout.origin_id or "")
    columns: dict[Column, Callable[[Rollout, Ranked], str]] = {
        Column("place", 1, right=True): lambda _, ranked: places[ranked.index],
        Column("p(best)", 4, right=True): lambda _, ranked: text.probability(ranked.p_best),
        Column("rollout", 2, right=True): lambda rollout, _: str(rollout.index),
        Column("role", 3): lambda rollout, _: rollouts.role_words(rollout),
        **varied,
        Column(rollouts.score_name(ranking), 5, right=True): lambda _, ranked: number(ranked.score, "z.2f"),
        Column("reward", 10, right=True): lambda _, ranked: number(ranked.reward, "z.3f"),
        Column("advantage", 9, right=True): lambda _, ranked: number(ranked.advantage, "+z.2f"),
        Column("second fit", 11, right=True): lambda _, ranked: second_fit.get(ranked.index, "–"),
        Column("tokens", 8, right=True): lambda rollout, _: number(rollout.usage.tokens, ","),
        Column("cost", 7, right=True): lambda rollout, _: text.dollars(rollout.cost),
        Column("answer", 6, wish=24): lambda rollout, _: on_one_line(answer(rollout)),
    }
    own = {"rollout", "role", "recipe", "session", "tokens", "cost", "answer"}
    return {column: cell for column, cell in columns.items() if ranking or column.name in own}


def group_lines(group: Group, ranking: GroupRanking, reader: RunReader) -> list[Text]:
    """Return what to know first about a group: the deciding match, position bias, signal, what went wrong."""
    places, lines = rollouts.first_places(group, ranking, reader.verdict), list[str]()
    if len(places.leaders) > 1:
        first, *others = (rollouts.rollout_label(r) for r in places.leaders)
        lines.append(f"tie: {first} shares first place with {text.enumeration(others)}")
    elif len(places.ranked) > 1:
        reasons = places.match.reasons("{} {:+.1f}".format, most=3) if places.match else []
        lines.append("; ".join([places.comparison, *reasons]))
    if sure := rollouts.certainty(group, ranking):
        lines.append(sure)
    calls = calls_by_judge(ranking, reader.verdict)
    signal = text.signal_words(ranking) if any(r.rank is not None for r in ranking.rollouts) else "–"
    lines += [
        _judge_line(judge_figures(ranking, chain.from_iterable(calls.values())), signal),
        *rollouts.jury_lines(ranking),
    ]
    explained = [r for r in ranking.rollouts if r.rank is not None and r.explanation]
    for ranked in sorted(explained, key=lambda r: r.rank or 0.0)[:2]:  # a listwise judge's reasons
        lines.append(f"why rollout {ranked.index}: {on_one_line(ranked.explanation or '', 200)}")
    lines += [f"note: {note}" for note in rollouts.notes(group, ranking)]
    lines += [flag.sentence for flag in rollout_flags(ranking, reader.verdict)]
    return list(map(visible_text, [*lines, *failure_lines(group, ranking, reader)]))


def failure_lines(group: Group, ranking: GroupRanking, reader: RunReader) -> Iterator[str]:
    """Yield which rollouts failed or have no reward, and the verdicts missing: failed, in a batch, not bought."""
    for rollout in group.rollouts:
        if failure := rollout.failure:
            message = on_one_line(failure.message, 160)
            yield f"rollout {rollout.index} failed: {failure.kind} ({failure.type}: {message})"
        elif rollout.verify_error:
            yield f"rollout {rollout.index} has no verifiable reward: {on_one_line(rollout.verify_error, 160)}"
    if not ranking.failed_verdicts:
        return
    some_ranked = any(r.rank is not None for r in ranking.rollouts)
    so = f"so {ranking.estimator} ranks by the others" if some_ranked else "so nothing is ranked"
    reasons, batches = rollouts.open_reasons(reader.verdicts(), [ranking]), with_provider(reader.folder)
    if failed := reasons.total():
        yield f"incomplete: {counted(failed, 'verdict')} failed, {so}:"
        yield from (f"  {times:,} x {on_one_line(reason, 160)}" for reason, times in reasons.most_common(3))
        yield f"  {call('resume', reader.typed_name)} asks for just those again, `rescore --judge-model` another judge"
    if asked := [batches[key] for key in ranking.failed_verdicts if key in batches]:
        question = f"{counted(len(asked), 'question')} (batch {text.enumeration(sorted({*asked}))})"
        yield f"waiting: the provider has {question}, {so}; {call('resume', reader.typed_name)} collects the replies"
    if (unbought := len(ranking.failed_verdicts) - failed - len(asked)) > 0:
        yield f"incomplete: {counted(unbought, 'verdict')} not bought, {so}"


def _judge_line(figures: JudgeFigures, signal: str) -> str:
    """Return how often matches changed with the order and the first position won, with the signal."""
    matches = counted(figures.both_orders, "match", "matches")
    parts = [f"changed with order {figures.flips:,} of {matches}"] if figures.both_orders else []
    if figures.decided:
        parts.append(f"first position wins {text.percent(figures.first_wins, figures.decided)}")
    return " · ".join([*parts, f"signal {signal}"])


_TABLES_UP_TO = 3
"""Queries; above this number the figures of all together say more than a table for each."""


def overview(
    reader: RunReader, ranking: RankingFile, summary: RankingSummary, width: int, queries: QueryTable | None = None
) -> RenderableType:
    """Return what a run prints on stdout; with `queries` a table of these, however few there are. Raises UsageError."""
    parts: list[RenderableType] = []
    if queries or len(summary.lines) > _TABLES_UP_TO:
        parts += query_lines(summary.lines, queries or QueryTable(), width)
        parts += map(visible_text, _lines_of_all(summary))
    else:
        for group, ranked in ranked_groups(reader, ranking):
            parts += [visible_text("")] if parts else []
            parts += [*group_table(group, ranked, width), *group_lines(group, ranked, reader)]
    parts += [visible_text(line) for line in judge_lines(summary.tallies, str(ranking.head.settings.get("order")))]
    if not (ranking.finished or ranking.groups):
        return Lines(*parts, visible_text("judge: not begun, no query is ranked yet"))
    before = earlier_rounds(reader, ranking)
    judge, agent, of_what = summary.judge, summary.agents, " in this ranking" if len(reader.heads()) > 1 else ""
    if before.calls:
        judge, of_what = judge + before, " in all rounds of batches"
    failed = f" ({counted(judge.failed, 'verdict')} missing)" if judge.failed else ""
    cached = f", {judge.cached:,} input tokens from the provider's cache" if judge.cached else ""
    bought = f"{counted(judge.calls, 'call')}{failed}{_tokens(judge.tokens)}{cached}, {text.money(judge.cost)}"
    ran = f"{counted(agent.runs, 'run')}{_tokens(agent.tokens)}, {text.money(agent.cost)}"
    if way := reader.info.way_found:
        parts.append(visible_text(f"samples vary by {way.asked}: {way.words}"))
    return Lines(*parts, visible_text(f"judge{of_what}: {bought} · agent: {ran}"))


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
    incomplete = f"; incomplete: {summary.incomplete:,}" if summary.incomplete else ""
    yield f"groups with a clear signal: {text.percent(signals['ok'], queries)}{incomplete}"
    above, samples = summary.above_anchor
    if samples:
        yield f"samples above their anchor: {above:,} of {samples:,} ({text.percent(above, samples)})"
    in_words = (f"{text.SIGNAL_WORDS[signal]} {groups:,}" for signal, groups in by_signal(signals).items())
    yield _judge_line(summary.judge, ", ".join(in_words))
    for pair in mean_agreement(summary.agreements):
        yield f"{rollouts.agreement_line(pair)}, mean over groups"
    if noise := signals["weak"] + signals["none"]:
        of_all = counted(queries, "query", "queries")
        yield f"the rankings of {noise:,} of {of_all} are noise, or close to it (signal unclear, or no difference)"
