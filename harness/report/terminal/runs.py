"""The list of runs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from harness.archive import RankingFile, RunInfo, RunReader, RunState, state_of
from harness.core.errors import HarnessError, NeedsUpgrade
from harness.core.sums import sum_if_known
from harness.core.unicode import visible_name
from harness.report.terminal.layout import visible_text
from harness.report.terminal.table import Column, TableRow, table_lines
from harness.report.text import dollars


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
        """What `--json` has beside the run's own record."""
        figures = {"state": self.state, "rollouts": self.rollouts, "failed": self.failed}
        return figures | {"best": list(self.best), "cost_usd": self.usd}


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
_INSTRUCTIONS = Column("instructions", 12, wish=12)
"""Only where a run has any."""


def runs_table(runs: Iterable[RunLine], width: int) -> Iterator[Text]:
    """Yield a table of runs in the order given."""
    rows = [(_cells(run), str(run.info.settings.get("instructions") or "")) for run in runs]
    if not any(instructions for _, instructions in rows):
        return table_lines(_COLUMNS, (TableRow(cells) for cells, _ in rows), width)
    with_file = (TableRow([*cells, visible_name(file)]) for cells, file in rows)
    return table_lines((*_COLUMNS, _INSTRUCTIONS), with_file, width)


def unreadable_lines(runs: Mapping[Path, HarnessError]) -> Iterator[Text]:
    """Yield a line for each run that cannot be read: the name of the folder, and why."""
    for folder, error in runs.items():
        if isinstance(error, NeedsUpgrade):
            reason = f"needs schema version {error.version}: upgrade this harness"
        else:
            reason = f"damaged: {error}".replace(f"{folder}/", "", 1)
        yield visible_text(f"cannot be read: {visible_name(folder.name)}: {reason}")


def run_line(reader: RunReader) -> RunLine:
    """Return the line of a run in a list of runs. Raises ArchiveDamaged."""
    info = reader.info
    rollouts = [place for group in reader.index.rollouts.values() for place in group.values()]
    ranking = reader.newest_ranking()
    return RunLine(
        info=info,
        models=_models(reader),
        queries=len(reader.index.queries),
        rollouts=len(rollouts),
        failed=sum(place.status == "failed" for place in rollouts),
        state=state_of(reader, ranking),
        best=_best(ranking),
        usd=sum_if_known([*(place.price for place in rollouts), reader.index.spent]),
        judge=str((ranking.head.judge if ranking else info.judge).get("model") or ""),
    )


def _cells(run: RunLine) -> list[str]:
    best = ", ".join(map(str, run.best))
    cells = (
        run.info.id,
        run.info.agent,
        run.models,
        run.info.settings.get("n"),
        run.queries,
        run.rollouts,
        run.failed,
        run.state,
        f"tie: {best}" if len(run.best) > 1 else best,
        dollars(run.usd),
        run.judge,
    )
    return [visible_name(str(cell)) for cell in cells]


def _models(reader: RunReader) -> str:
    """Name the models that a run's first rollout used."""
    places = next((group for group in reader.index.rollouts.values() if group), None)
    return ", ".join(reader.rollout_at(places[min(places)]).effective.models) if places else ""


def _best(ranking: RankingFile | None) -> tuple[int, ...]:
    """Name the best rollouts of a run with one query."""
    if ranking is None or len(ranking.groups) != 1:
        return ()
    ranks = {r.index: r.rank for r in ranking.groups[0].rollouts if r.rank is not None}
    return tuple(index for index, rank in ranks.items() if rank == min(ranks.values()))
