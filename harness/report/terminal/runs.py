"""The list of runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from harness.archive import RankingFile, RunReader
from harness.core.errors import HarnessError, NeedsUpgrade
from harness.core.sums import sum_if_known
from harness.core.unicode import visible_name
from harness.report.terminal.layout import visible_text
from harness.report.terminal.table import Column, TableRow, table_lines
from harness.report.text import dollars

_COLUMNS = (
    Column("run", 1, wish=40),
    Column("agent", 9, wish=12),
    Column("model", 8, wish=12),
    Column("n", 11, right=True),
    Column("queries", 4, right=True),
    Column("rollouts", 7, right=True),
    Column("failed", 5, right=True),
    Column("ranked", 2),
    Column("best", 3),
    Column("cost", 6, right=True),
    Column("judge", 10, wish=12),
)


def runs_table(runs: Iterable[Sequence[Any]], width: int) -> Iterator[Text]:
    """Yield a table of runs, each as the cells that `run_cells` returns, in the order given."""
    rows = (TableRow([visible_name(str(cell)) for cell in cells]) for cells in runs)
    return table_lines(_COLUMNS, rows, width)


def unreadable_lines(runs: Mapping[Path, HarnessError]) -> Iterator[Text]:
    """Yield a line for each run that cannot be read: the name of the folder, and why."""
    for folder, error in runs.items():
        if isinstance(error, NeedsUpgrade):
            reason = f"needs schema version {error.version}: upgrade this harness"
        else:
            reason = f"damaged: {error}".replace(f"{folder}/", "", 1)
        yield visible_text(f"cannot be read: {visible_name(folder.name)}: {reason}")


def run_cells(reader: RunReader) -> list[Any]:
    """Return the line of a run in a list of runs. Raises ArchiveDamaged."""
    info = reader.info
    rollouts = [place for group in reader.index.rollouts.values() for place in group.values()]
    ranking = reader.newest_ranking()
    spent = sum_if_known([*(place.price for place in rollouts), reader.index.spent])
    state = "no" if ranking is None else "yes" if ranking.finished else "unfinished"
    judge = str((ranking.head.judge if ranking else info.judge).get("model") or "")
    return [
        info.id,
        info.agent,
        _models(reader),
        info.settings.get("n"),
        len(reader.index.queries),
        len(rollouts),
        sum(place.status == "failed" for place in rollouts),
        state,
        _best(ranking),
        dollars(spent),
        judge,
    ]


def _models(reader: RunReader) -> str:
    """Name the models that a run's first rollout used."""
    places = next((group for group in reader.index.rollouts.values() if group), None)
    return ", ".join(reader.rollout_at(places[min(places)]).effective.models) if places else ""


def _best(ranking: RankingFile | None) -> str:
    """Name the best rollouts of a run with one query."""
    if ranking is None or len(ranking.groups) != 1:
        return ""
    ranks = {r.index: r.rank for r in ranking.groups[0].rollouts if r.rank is not None}
    return ", ".join(str(index) for index, rank in ranks.items() if rank == min(ranks.values()))
