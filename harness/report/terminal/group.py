"""One query of a ranking: the table of its rollouts, and below it what people want to know first."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from harness.archive import RunReader
from harness.core.rankings import GroupRanking, Ranked
from harness.core.records import Group, Rollout
from harness.report.summary.figures import JudgeFigures, judge_figures
from harness.report.summary.first_two import first_places
from harness.report.summary.flags import rollout_flags
from harness.report.summary.match_verdicts import VerdictLookup
from harness.report.summary.notes import jury_lines, notes, open_reasons
from harness.report.summary.placed_rollouts import (
    PlacedRollout,
    certainty,
    place_of,
    placed_rollouts,
    places_by_margins,
    rollout_label,
)
from harness.report.terminal.layout import on_one_line, plain_table, visible_text
from harness.report.text import counted, dollars

_COLUMNS = ("place", "rollout", "role", "score", "reward", "advantage", "margins", "tokens", "cost")
_OTHER_COLUMNS = 81
"""Characters that all columns but the answer's take."""


def group_table(group: Group, ranking: GroupRanking | None, width: int) -> Table:
    """Return a query's rollouts, best first, in a table `width` characters wide."""
    right = set(_COLUMNS) - {"role"}
    table = plain_table(_COLUMNS, right=right, title=on_one_line(group.query.text, width))
    table.add_column("answer")
    placed = placed_rollouts(group, ranking)
    by_margins = places_by_margins(p.ranked for p in placed)
    for rollout in placed:
        cells = _cells(rollout, placed, by_margins, max(12, width - _OTHER_COLUMNS))
        table.add_row(*cells, style="bold" if rollout.ranked.rank == 0 else "")
    return table


def _cells(
    placed: PlacedRollout, group: Sequence[PlacedRollout], by_margins: Mapping[int, str], answer_width: int
) -> list[str]:
    rollout, ranked = placed.rollout, placed.ranked
    tokens = rollout.usage.tokens
    figures = ((ranked.score, ".2f"), (ranked.reward, ".3f"), (ranked.advantage, "+.2f"))
    return [
        place_of(placed, group),
        str(rollout.index),
        rollout.role,
        *("–" if value is None else f"{value:{form}}" for value, form in figures),
        _second_opinion(ranked, by_margins),
        "–" if tokens is None else f"{tokens:,}",
        dollars(rollout.price_usd),
        on_one_line(_answer(rollout), answer_width),
    ]


def _answer(rollout: Rollout) -> str:
    if rollout.status == "ok":
        return rollout.trajectory.answer
    return f"failed: {rollout.failure.kind}" if rollout.failure else ""


def _second_opinion(ranked: Ranked, by_margins: Mapping[int, str]) -> str:
    """Return the place by margins, and the probability of being best."""
    if ranked.index not in by_margins:
        return "–"
    return by_margins[ranked.index] + ("" if ranked.p_best is None else f" {ranked.p_best:>4.0%}")


def group_lines(group: Group, ranking: GroupRanking, reader: RunReader) -> list[Text]:
    """Return what to know first about a group: the deciding match, flips, signal, what went wrong."""
    return [visible_text(line) for line in _lines(group, ranking, reader)]


def _lines(group: Group, ranking: GroupRanking, reader: RunReader) -> Iterator[str]:
    if headline := _headline(group, ranking, reader.verdict):
        yield headline
    if sure := certainty(group, ranking):
        yield sure
    yield judge_line(judge_figures(ranking, reader.verdict), _signal(ranking))
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
        yield from _open_lines(ranking, open_reasons(reader.verdicts(), [ranking]))


def _headline(group: Group, ranking: GroupRanking, verdicts: VerdictLookup) -> str | None:
    places = first_places(group, ranking, verdicts)
    if len(places.ranked) < 2:
        return None
    if len(places.leaders) > 1:
        first, second = (rollout_label(r) for r in places.leaders[:2])
        return f"{first} and {second} share the first place"
    reasons = places.match.reasons("{} {:+.1f}".format, most=3) if places.match else []
    return "; ".join([places.comparison, *reasons])


def judge_line(figures: JudgeFigures, signal: str) -> str:
    """Return how often matches flipped and the first position won, with the signal."""
    parts = [f"flips {figures.flips} of {figures.both_orders} matches"] if figures.both_orders else []
    if figures.first_share is not None:
        parts.append(f"first position wins {figures.first_share:.0%}")
    return " · ".join([*parts, f"signal {signal}"])


def _signal(ranking: GroupRanking) -> str:
    return ranking.signal if any(r.rank is not None for r in ranking.rollouts) else "–"


def _best_explained(ranking: GroupRanking) -> list[Ranked]:
    """Return the rollouts of the first two places that a listwise judge gave reasons for."""
    explained = [r for r in ranking.rollouts if r.rank is not None and r.explanation]
    return sorted(explained, key=lambda r: r.rank or 0.0)[:2]


def _open_lines(ranking: GroupRanking, reasons: Counter[str]) -> Iterator[str]:
    """Yield what a group waits for: verdicts that failed, and verdicts that --free or --max-cost left unbought."""
    failed = reasons.total()
    if failed:
        yield f"incomplete: {counted(failed, 'verdict')} failed, so {_unranked(ranking)}:"
        for reason, times in reasons.most_common(3):
            yield f"  {times} x {on_one_line(reason, 160)}"
        yield "  `harness resume RUN` asks for just those again, `rescore --judge-model` another judge"
    if unbought := len(ranking.failed_verdicts) - failed:
        yield (
            f"incomplete: {counted(unbought, 'verdict')} not bought (--free, --max-cost), so {_unranked(ranking)}; "
            "`harness rescore RUN` with the same options, but without those, buys them"
        )


def _unranked(ranking: GroupRanking) -> str:
    some_ranked = any(r.rank is not None for r in ranking.rollouts)
    return f"{ranking.estimator} ranks by the others" if some_ranked else "nothing is ranked"
