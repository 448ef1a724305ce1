"""The list of runs and comparisons, and the rankings of one run with what the newest changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.archive.run_info import RunInfo
from harness.archive.run_state import RunState, find_comparison_state, find_run_state
from harness.core.errors import HarnessError, NeedsUpgrade, TooOld
from harness.core.unicode import visible_name
from harness.core.wording import counted
from harness.report.summary.notes import provisional_words
from harness.report.terminal.table import Column, TableRow, on_one_line, table_lines, visible_text
from harness.report.text import count, dollars, enumeration, money

if TYPE_CHECKING:  # most runs folders hold runs alone
    from harness.archive.comparison_reader import ComparisonInfo, ComparisonReader
    from harness.report.summary.rankings import RankingChange, RankingLine

_RANKING_COLUMNS = (
    Column("ranking", 1, wish=40),
    Column("when", 7),
    Column("judge", 2, wish=12),
    Column("rubric", 4, wish=12),
    Column("topology", 5),
    Column("estimator", 8),
    Column("complete", 3, right=True),
    Column("calls", 6, right=True),
    Column("reused", 10, right=True),
    Column("cost", 9, right=True),
)


def rankings_table(rankings: Iterable[RankingLine], width: int) -> Iterator[Text]:
    """Yield a table of rankings in the order given."""
    return table_lines(_RANKING_COLUMNS, map(_ranking_row, rankings), width)


def _ranking_row(line: RankingLine) -> TableRow:
    return TableRow(
        (
            visible_name(line.ranking),
            f"{line.created_at:%Y-%m-%d %H:%M}",
            on_one_line(line.judge),
            on_one_line(line.rubric),
            visible_name(line.topology),
            visible_name(line.estimator),
            f"{line.complete:,} of {line.queries:,}"
            + provisional_words(line.estimator, provisional=bool(line.provisional)),
            *((f"{line.calls:,}", f"{line.reused:,}", dollars(line.judge_usd)) if line.begun else ("–", "–", "–")),
        )
    )


def rounds_lines(rankings: Sequence[RankingLine]) -> Iterator[Text]:
    """Yield what all rounds of a judging by batch took, of each that has come to its end, and of the newest."""
    for line in rankings:
        if line.all_rounds and (line.finished or line is rankings[-1]):
            calls, usd = line.all_rounds["calls"], line.all_rounds["usd"]
            yield visible_text(
                f"{visible_name(line.ranking)}, all rounds of batches: {counted(calls, 'call')}, {money(usd)}"
            )


def change_lines(change: RankingChange, *, name_queries: bool) -> Iterator[Text]:
    """Yield what a ranking changed against an earlier one; the moves name their queries only with `name_queries`."""
    queries = counted(change.of, "query", "queries")
    tau = "" if change.tau is None else f"Kendall's tau-b {change.tau:.2f}, "
    yield visible_text(
        f"against ranking {change.ranking} ({change.by}): winners changed on {change.winners_changed:,} of {queries}; "
        f"{tau}a rollout moved by {change.shift:.1f} places on average"
    )
    if change.moves:
        moves = [
            f"rollout {m.rollout}{f' of {m.query}' if name_queries else ''} from {m.before:g} to {m.after:g}"
            for m in change.moves
        ]
        yield visible_text(f"largest moves: {enumeration(moves)}")


@dataclass(frozen=True)
class RunLine:
    """A run in a list of runs."""

    info: RunInfo
    models: str
    """Of its first rollout."""
    queries: int
    rollouts: int
    failed: int
    state: RunState
    best: tuple[int, ...]
    """The best rollouts, where the run has one query."""
    usd: float | None
    judge: str

    @property
    def figures(self) -> dict[str, Any]:
        """What `--json` has besides the run's own record."""
        figures = {"state": self.state, "rollouts": self.rollouts, "failed": self.failed}
        return figures | {"best": list(self.best), "cost_usd": self.usd}

    @property
    def cells(self) -> tuple[object, ...]:
        """What stands in the columns."""
        best = ", ".join(map(str, self.best))
        return (
            self.info.id,
            self.info.agent,
            self.models,
            self.info.settings.get("n"),
            count(self.queries),
            count(self.rollouts),
            count(self.failed),
            self.state,
            f"tie: {best}" if len(self.best) > 1 else best,
            dollars(self.usd),
            self.judge,
        )

    @property
    def sometimes(self) -> tuple[str, str]:
        """What stands in the columns that are there only where they say something: kind, instructions."""
        return "", str(self.info.settings.get("instructions") or "")


@dataclass(frozen=True)
class ComparisonRow:
    """A comparison in a list of runs."""

    info: ComparisonInfo
    queries: int
    """How many have been compared."""
    state: RunState
    usd: float | None
    """What its verdicts cost."""

    @property
    def figures(self) -> dict[str, Any]:
        """What `--json` has besides the comparison's own record."""
        return {"kind": "comparison", "state": self.state, "compared": self.queries, "cost_usd": self.usd}

    @property
    def cells(self) -> tuple[object, ...]:
        """What stands in the columns."""
        sides, models = self.info.sides, dict.fromkeys(model for side in self.info.sides for model in side.models)
        agents, judge = dict.fromkeys(side.agent for side in sides), self.info.judge.get("model") or ""
        names, usd = (self.info.id, ", ".join(agents), ", ".join(models)), dollars(self.usd)
        return *names, "", count(self.queries), "", "", self.state, "", usd, judge

    @property
    def sometimes(self) -> tuple[str, str]:
        """What stands in the columns that are there only where they say something: kind, instructions."""
        return "comparison", ""


_COLUMNS = (
    Column("run", 1, wish=40),
    Column("agent", 3, wish=12),
    Column("model", 7, wish=12),
    Column("n", 11, right=True),
    Column("queries", 4, right=True),
    Column("rollouts", 6, right=True),
    Column("failed", 5, right=True),
    Column("state", 2),
    Column("best", 8, wish=12),
    Column("cost", 9, right=True),
    Column("judge", 10, wish=12),
)
_SOMETIMES = (Column("kind", 3), Column("instructions", 12, wish=12))
"""Only where one of the rows says something there."""


def runs_table(lines: Iterable[RunLine | ComparisonRow], width: int) -> Iterator[Text]:
    """Yield a table of runs and comparisons in the order given."""
    rows = [(line.cells, line.sometimes) for line in lines]
    shown = [at for at in range(len(_SOMETIMES)) if any(others[at] for _, others in rows)]
    columns = (*_COLUMNS, *(_SOMETIMES[at] for at in shown))
    cells = ([*cells, *(others[at] for at in shown)] for cells, others in rows)
    return table_lines(columns, (TableRow([visible_name(str(cell)) for cell in row]) for row in cells), width)


def unreadable_lines(runs: Mapping[Path, HarnessError]) -> Iterator[Text]:
    """Yield a line for each run that cannot be read: the name of the folder, and why."""
    for folder, error in runs.items():
        if isinstance(error, NeedsUpgrade):
            reason = f"needs schema version {error.version}: upgrade this harness"
        elif isinstance(error, TooOld):
            reason = f"written by version {error.version}: an earlier harness reads it"
        else:
            reason = f"damaged: {error}".replace(f"{folder}/", "", 1)
        yield visible_text(f"cannot be read: {visible_name(folder.name)}: {reason}")


def run_line(reader: RunReader) -> RunLine:
    """Return the line of a run in a list of runs. Raises ArchiveDamaged."""
    info, counts, ranking = reader.info, reader.index.counts(), reader.newest_ranking()
    return RunLine(
        info=info,
        models=", ".join(reader.rollout_at(counts.first).effective.models) if counts.first else "",
        queries=counts.queries,
        rollouts=counts.rollouts,
        failed=counts.failed,
        state=find_run_state(reader, ranking, counts),
        best=_best(ranking),
        usd=counts.usd,
        judge=str((ranking.head.judge if ranking else info.judge).get("model") or ""),
    )


def comparison_row(reader: ComparisonReader) -> ComparisonRow:
    """Return the line of a comparison in a list of runs. Raises ArchiveDamaged."""
    newest = reader.newest()
    state = find_comparison_state(reader.folder, newest)
    return ComparisonRow(reader.info, len(newest.queries) if newest else 0, state, reader.index.spent)


def _best(ranking: RankingFile | None) -> tuple[int, ...]:
    """Name the best rollouts of a run with one query."""
    if ranking is None or len(ranking.groups) != 1:
        return ()
    ranks = {r.index: r.rank for r in ranking.groups[0].rollouts if r.rank is not None}
    return tuple(index for index, rank in ranks.items() if rank == min(ranks.values()))
