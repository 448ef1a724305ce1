"""What a run prints: a table a query, what people want to know first under it, a summary when there are many."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from harness.archive import RankingFile, RunReader
from harness.core.rankings import GroupRanking, Ranked
from harness.core.records import Group, Step
from harness.core.sums import sum_if_known
from harness.ranking import mean_agreement
from harness.report.flagged import flagged
from harness.report.judge_quality import judge_lines
from harness.report.summary import (
    AgentFigures,
    JudgeFigures,
    Row,
    agreement_line,
    certainty,
    judge_figures,
    jury_lines,
    named,
    notes,
    numbered,
    open_reasons,
    outcome,
    place_of,
    places_by_margins,
    rows,
)
from harness.report.text import counted, dollars, money, temperature_words
from harness.report.totals import RankingSummary, group_of, ranked_queries

TABLES_UP_TO = 3
"""Queries; with more a summary says more than a table each."""
_OTHER_COLUMNS = 81
_LISTED = 20
"""Queries that the summary of many names one by one."""


def groups_of(reader: RunReader, ranking: RankingFile) -> Iterator[tuple[Group, GroupRanking]]:
    """Yield each ranked query's rollouts with their ranking, one at a time, in the order of the queries."""
    for query, ranked in ranked_queries(reader, ranking, owed=False):
        yield group_of(reader, query, ranked), ranked


def overview(reader: RunReader, ranking: RankingFile, found: RankingSummary, width: int) -> RenderableType:
    """Return what a run prints on stdout, `width` characters wide, without the next commands."""
    order = str(ranking.head.settings.get("order"))
    if len(found.glances) > TABLES_UP_TO:
        return _summary(found, order)
    parts: list[RenderableType] = []
    for group, ranked in groups_of(reader, ranking):
        parts += [group_table(group, ranked, width), *group_lines(group, ranked, reader)]
    parts += [Text(line) for line in judge_lines(found.tallies, order)]
    return Lines(*parts, bill(found.judge, found.agents))


def group_table(group: Group, ranking: GroupRanking | None, width: int) -> Table:
    """Return a query's rollouts, best first."""
    table = Table(
        title=escape(_short(group.query.text, width)),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name in ("place", "rollout", "role", "score", "reward", "advantage", "margins", "tokens", "cost"):
        table.add_column(name, justify="left" if name == "role" else "right", no_wrap=True)
    table.add_column("answer")
    ranked = rows(group, ranking)
    by_margins = places_by_margins(row.ranked for row in ranked)
    for row in ranked:
        table.add_row(
            *_cells(row, ranked, by_margins, max(12, width - _OTHER_COLUMNS)),
            style="bold" if row.ranked.rank == 0 else "",
        )
    return table


def group_lines(group: Group, ranking: GroupRanking, reader: RunReader) -> list[Text]:
    """Return what to know first about a group: the deciding match, flips, signal, what went wrong."""
    figures = judge_figures([ranking], reader.verdict)
    lines = [
        Text(t)
        for t in (_headline(group, ranking, reader), certainty(group, ranking), _judge_line(figures, _signal(ranking)))
        if t
    ]
    lines += [Text(line) for line in jury_lines(ranking)]
    lines += [Text(f"why rollout {r.index}: {_short(r.explanation or '', 200)}") for r in best_explained(ranking)]
    lines += [Text(f"note: {note}") for note in notes(group, ranking)]
    lines += [Text(found.sentence) for found in flagged(ranking, reader.verdict)]
    lines += [
        Text(f"rollout {r.index} failed: {r.failure.kind} ({r.failure.type}: {_short(r.failure.message, 160)})")
        for r in group.rollouts
        if r.failure
    ]
    if ranking.failed_verdicts:
        lines += _open_lines(ranking, open_reasons(reader.verdicts(), [ranking]))
    return lines


def _open_lines(ranking: GroupRanking, why: Counter[str]) -> Iterator[Text]:
    """Yield what a group waits for: verdicts that failed, and those that --free or --max-cost left unbought."""
    failed = why.total()
    if failed:
        yield Text(f"incomplete: {counted(failed, 'verdict')} failed, so {_unranked(ranking)}:")
        for reason, count in why.most_common(3):
            yield Text(f"  {count} x {_short(reason, 160)}")
        yield Text("  `harness resume RUN` asks for just those again, `rescore --judge-model` another judge")
    if unbought := len(ranking.failed_verdicts) - failed:
        yield Text(
            f"incomplete: {counted(unbought, 'verdict')} not bought (--free, --max-cost), so {_unranked(ranking)}; "
            "`harness rescore RUN` with the same options, but without those, buys them"
        )


def _unranked(ranking: GroupRanking) -> str:
    some = any(r.rank is not None for r in ranking.rollouts)
    return f"{ranking.estimator} ranks by the others" if some else "nothing is ranked"


def best_explained(ranking: GroupRanking) -> list[Ranked]:
    """Return the rollouts of the first two places that a listwise judge gave reasons for."""
    placed = [r for r in ranking.rollouts if r.rank is not None and r.explanation]
    return sorted(placed, key=lambda r: r.rank or 0.0)[:2]


def _signal(ranking: GroupRanking) -> str:
    return ranking.signal if any(r.rank is not None for r in ranking.rollouts) else "–"


def bill(judge: JudgeFigures, agent: AgentFigures) -> Text:
    """Return what was paid for."""
    failed = f" ({counted(judge.failed, 'verdict')} missing)" if judge.failed else ""
    cached = f", {judge.cached:,} input tokens from the provider's cache" if judge.cached else ""
    return Text(
        f"judge: {counted(judge.calls, 'call')}{failed}{cached}, {money(judge.usd)} · "
        f"agent: {counted(agent.runs, 'run')}, {money(agent.usd)}"
    )


def path_lines(group: Group, index: int) -> RenderableType:
    """Return one rollout's path and answer, as they were captured."""
    rollout = next(r for r in group.rollouts if r.index == index)
    heat = temperature_words(rollout.requested.temperature)
    head = f"rollout {index} ({rollout.role}, temperature {heat}), {rollout.status}"
    parts: list[RenderableType] = [Text(head, style="bold")]
    parts += [_step(number, step) for number, step in numbered(rollout.trajectory.path)]
    if rollout.failure:
        parts.append(Text(f"failed: {rollout.failure.kind}: {rollout.failure.message}", style="red"))
    if rollout.clean_up_error:
        parts.append(Text(f"note: {rollout.clean_up_error}"))
    parts += [Text(f"note: {exception}") for exception in rollout.effective.exceptions]
    if rollout.trajectory.answer:
        parts += [Text("\nAnswer", style="bold"), Text(rollout.trajectory.answer)]
    return Lines(*parts)


def runs_table(runs: Iterable[Sequence[Any]]) -> Table:
    """Return the runs there are, newest last, each as `run_cells` tells it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("run", "agent", "model", "n", "queries", "rollouts", "failed", "ranked", "best", "cost", "judge"):
        table.add_column(
            name, justify="right" if name in {"n", "queries", "rollouts", "failed"} else "left", no_wrap=True
        )
    for cells in runs:
        table.add_row(*(escape(str(cell)) for cell in cells))
    return table


def run_cells(reader: RunReader) -> list[Any]:
    """Return what a list of runs tells of one. Raises ArchiveDamaged."""
    info = reader.info
    found = [place for group in reader.index.rollouts.values() for place in group.values()]
    ranking = reader.newest_ranking()
    spent = sum_if_known([*(place.price for place in found), reader.index.spent])
    state = "no" if ranking is None else "yes" if ranking.finished else "unfinished"
    judge = str((ranking.head.judge if ranking else info.judge).get("model") or "")
    return [
        info.id,
        info.agent,
        _model(reader),
        info.settings.get("n"),
        len(reader.index.queries),
        len(found),
        sum(r.status == "failed" for r in found),
        state,
        _best(ranking),
        money(spent),
        judge,
    ]


def _model(reader: RunReader) -> str:
    """Name the models that a run's first rollout used."""
    places = next((group for group in reader.index.rollouts.values() if group), None)
    return ", ".join(reader.rollout_at(places[min(places)]).effective.models) if places else ""


def _best(ranking: RankingFile | None) -> str:
    """Name the best rollout of a run with one query."""
    if ranking is None or len(ranking.groups) != 1:
        return ""
    ranked = [(r.rank, str(r.index)) for r in ranking.groups[0].rollouts if r.rank is not None]
    return ", ".join(index for rank, index in ranked if rank == min(ranked)[0])


def _cells(row: Row, ranked: Sequence[Row], by_margins: Mapping[int, str], answer_width: int) -> list[str]:
    rollout, place = row.rollout, row.ranked
    tokens = rollout.usage.tokens
    answer = (
        rollout.trajectory.answer
        if rollout.status == "ok"
        else f"failed: {rollout.failure.kind}"
        if rollout.failure
        else ""
    )
    figures = ((place.score, ".2f"), (place.reward, ".3f"), (place.advantage, "+.2f"))
    return [
        place_of(row, ranked),
        str(rollout.index),
        rollout.role,
        *("–" if value is None else f"{value:{form}}" for value, form in figures),
        _second_opinion(place, by_margins),
        "–" if tokens is None else f"{tokens:,}",
        dollars(rollout.price_usd),
        escape(_short(answer, answer_width)),
    ]


def _second_opinion(ranked: Ranked, by_margins: Mapping[int, str]) -> str:
    """Return the place by margins, and the probability of being best."""
    if ranked.index not in by_margins:
        return "–"
    return by_margins[ranked.index] + ("" if ranked.p_best is None else f" {ranked.p_best:>4.0%}")


def _headline(group: Group, ranking: GroupRanking, reader: RunReader) -> str | None:
    found = outcome(group, ranking, reader.verdict)
    if len(found.ranked) < 2:
        return None
    if len(found.leaders) > 1:
        first, second = (named(r) for r in found.leaders[:2])
        return f"{first} and {second} share the first place"
    reasons = found.duel.reasons("{} {:+.1f}".format, most=3) if found.duel else []
    return "; ".join([found.first_two, *reasons])


def _judge_line(figures: JudgeFigures, signal: str) -> str:
    parts = [f"flips {figures.flips} of {figures.both_orders} matches"] if figures.both_orders else []
    if figures.first_share is not None:
        parts.append(f"first position wins {figures.first_share:.0%}")
    return " · ".join([*parts, f"signal {signal}"])


def _summary(found: RankingSummary, order: str) -> RenderableType:
    agent, signals, queries = found.agents, found.signals, len(found.glances)
    above, samples = found.beaten
    causes = ", ".join(f"{n} {kind}" for kind, n in sorted(agent.failed.items()))
    told = [
        f"{queries} queries, {agent.runs} rollouts: {agent.runs - agent.failed.total()} ok, "
        f"{agent.failed.total()} failed" + (f" ({causes})" if causes else ""),
        f"groups with signal: {signals['ok'] / queries:.0%}"
        + (f"; incomplete: {found.incomplete}" if found.incomplete else ""),
        f"samples above their anchor: {above} of {samples}" + (f" ({above / samples:.0%})" if samples else ""),
        _judge_line(found.judge, ", ".join(f"{k} {n}" for k, n in sorted(signals.items()))),
        *(f"{agreement_line(pair)}, mean over groups" for pair in mean_agreement(found.agreed)),
    ]
    if noise := sum(g.complete and g.signal in {"weak", "none"} for g in found.glances):
        told.append(f"the rankings of {noise} of {queries} queries are noise, or close to it (signal weak or none)")
    told += judge_lines(found.tallies, order)
    return Lines(_queries(found), *(Text(t) for t in told), bill(found.judge, agent))


def _queries(found: RankingSummary) -> Table:
    """Return the queries, a line each, as many as a screen holds."""
    left = len(found.glances) - _LISTED
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        caption=f"and {left:,} more; --query ID shows one" if left > 0 else None,
    )
    for name in ("id", "first place", "signal", "query"):
        table.add_column(name, no_wrap=True)
    for g in found.glances[:_LISTED]:
        first = ", ".join(map(str, g.first)) if len(g.first) <= 3 else f"{len(g.first)} share it"
        table.add_row(
            escape(g.id), first or ("–" if g.complete else "incomplete"), g.signal, escape(_short(g.title, 60))
        )
    return table


def _step(number: str, step: Step) -> Text:
    text = Text(f"\n{number}. {step.kind}" + (f" {step.tool_name}" if step.tool_name else ""), style="bold")
    told = {"": step.reasoning, "input: ": step.tool_input, "output: ": step.tool_output, "error: ": step.error}
    for label, value in told.items():
        if value:
            text.append(f"\n   {label}{value}".replace("\n", "\n   "), style="not bold")
    return text


def _short(text: str, length: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"
