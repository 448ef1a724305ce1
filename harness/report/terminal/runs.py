"""The list of runs, comparisons and improvements, and the rankings of one run with what the newest changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from harness.archive.reader import RunReader
from harness.archive.run_info import RunInfo
from harness.archive.run_state import RunState, find_comparison_state, find_improvement_state, find_run_state
from harness.core.cost import Cost
from harness.core.errors import HarnessError, NeedsUpgrade, TooOld, counted
from harness.core.unicode import visible_name
from harness.report.summary.rollouts import provisional_words
from harness.report.terminal.table import Column, on_one_line, table_lines, visible_text
from harness.report.text import count, dollars, enumeration, money

if TYPE_CHECKING:  # most runs folders hold runs alone
    from harness.archive.comparison_reader import ComparisonInfo, ComparisonReader
    from harness.archive.improve_folder import ImproveFolder
    from harness.core.improvements import ImproveInfo
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
    rows = (
        (
            visible_name(line.ranking),
            f"{line.created_at:%Y-%m-%d %H:%M}",
            on_one_line(line.judge),
            on_one_line(line.rubric),
            visible_name(line.topology),
            visible_name(line.estimator),
            f"{line.complete:,} of {line.queries:,}"
            + provisional_words(line.estimator, provisional=bool(line.provisional)),
            *((f"{line.calls:,}", f"{line.reused:,}", dollars(line.cost)) if line.begun else ("–", "–", "–")),
        )
        for line in rankings
    )
    return table_lines(_RANKING_COLUMNS, rows, width)


def rounds_lines(rankings: Sequence[RankingLine]) -> Iterator[Text]:
    """Yield what all rounds of a judging by batch took, of each that has come to its end, and of the newest."""
    for line in rankings:
        if line.all_rounds and (line.finished or line is rankings[-1]):
            calls = counted(line.all_rounds.calls, "call")
            spent = money(line.all_rounds.cost)
            yield visible_text(f"{visible_name(line.ranking)}, all rounds of batches: {calls}, {spent}")


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
    """A run, a comparison or an improvement in a list of runs; what only runs have is None for others."""

    info: RunInfo | ComparisonInfo | ImproveInfo
    agent: str
    models: str
    """Of the first rollout, or of all sides."""
    queries: int
    """Of a comparison, how many have been compared."""
    state: RunState
    cost: Cost
    """What the run cost, or the verdicts of the comparison."""
    judge: str
    n: object = ""
    rollouts: int | None = None
    failed: int | None = None
    best: tuple[int, ...] = ()
    """The best rollouts, where the run has one query."""
    kind: str = ""
    instructions: str = ""
    outcome: str | None = None
    """What an improvement came to."""

    @property
    def figures(self) -> dict[str, Any]:
        """What `--json` has besides the record of the run, comparison or improvement."""
        if self.kind == "improvement":
            of_kind = {"kind": self.kind, "state": self.state, "outcome": self.outcome, "rollouts": self.rollouts}
            return of_kind | self.cost.named("cost_usd")
        if self.kind:
            return {"kind": self.kind, "state": self.state, "compared": self.queries, **self.cost.named("cost_usd")}
        figures = {"state": self.state, "rollouts": self.rollouts, "failed": self.failed}
        return figures | {"best": list(self.best), **self.cost.named("cost_usd")}

    @property
    def cells(self) -> tuple[object, ...]:
        """What stands in the columns; the last two are there only where they say something."""
        best = ", ".join(map(str, self.best))
        runs = ["" if number is None else count(number) for number in (self.rollouts, self.failed)]
        first = (self.info.id, self.agent, self.models, self.n, count(self.queries), *runs, self.state)
        last = (f"tie: {best}" if len(self.best) > 1 else best, dollars(self.cost), self.judge)
        parents = self.info.parents if isinstance(self.info, RunInfo) else ()
        kind = self.kind or (f"fork of {', '.join(parents)}" if parents else "")
        kind += f": {self.outcome}" if self.outcome else ""
        return *first, *last, kind, self.instructions


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
    Column("kind", 3),
    Column("instructions", 12, wish=12),
)


def runs_table(lines: Iterable[RunLine], width: int) -> Iterator[Text]:
    """Yield a table of runs, comparisons and improvements in the order given."""
    rows = [[visible_name(str(cell)) for cell in line.cells] for line in lines]
    shown = [at for at in range(len(_COLUMNS)) if at < len(_COLUMNS) - 2 or any(row[at] for row in rows)]
    return table_lines([_COLUMNS[at] for at in shown], ([row[at] for at in shown] for row in rows), width)


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
    one_query = ranking.groups[0].rollouts if ranking and len(ranking.groups) == 1 else ()
    ranks = {r.index: r.rank for r in one_query if r.rank is not None}
    return RunLine(
        info=info,
        agent=info.agent,
        models=", ".join(reader.rollout_at(counts.first).effective.models) if counts.first else "",
        queries=counts.queries,
        state=find_run_state(reader, ranking, counts),
        cost=counts.cost,
        judge=str((ranking.head.judge if ranking else info.judge).get("model") or ""),
        n=info.settings.get("n"),
        rollouts=counts.rollouts,
        failed=counts.failed,
        best=tuple(index for index, rank in ranks.items() if rank == min(ranks.values())),
        instructions=str(info.settings.get("instructions") or ""),
    )


def comparison_line(reader: ComparisonReader) -> RunLine:
    """Return the line of a comparison in a list of runs. Raises ArchiveDamaged."""
    info, newest = reader.info, reader.newest()
    return RunLine(
        info=info,
        agent=", ".join(dict.fromkeys(side.agent for side in info.sides)),
        models=", ".join(dict.fromkeys(model for side in info.sides for model in side.models)),
        queries=len(newest.queries) if newest else 0,
        state=find_comparison_state(reader.folder, newest),
        cost=reader.index.spent,
        judge=str(info.judge.get("model") or ""),
        kind="comparison",
    )


def improvement_line(kept: ImproveFolder) -> RunLine:
    """Return the line of an improvement in a list of runs. Raises ArchiveDamaged."""
    info, result = kept.info(), kept.result()
    spent, outcome = kept.spent(), result.outcome if result else None
    return RunLine(
        info=info,
        agent=info.agent,
        models="",
        queries=len(info.train) + len(info.held_out),
        state=find_improvement_state(kept.path, outcome),
        cost=spent.cost,
        judge=info.judge,
        rollouts=spent.rollouts,
        kind="improvement",
        outcome=outcome,
    )
