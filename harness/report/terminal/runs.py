"""The list of runs."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from harness.archive import RankingFile, RunReader
from harness.core.errors import HarnessError, NeedsUpgrade
from harness.core.sums import sum_if_known
from harness.core.unicode import visible, visible_name
from harness.report.terminal.layout import plain_table
from harness.report.text import money

_COLUMNS = ("run", "agent", "model", "n", "queries", "rollouts", "failed", "ranked", "best", "cost", "judge")


def runs_table(runs: Iterable[Sequence[Any]]) -> Table:
    """Return a table of runs, each as the cells that `run_cells` returns, in the order given."""
    table = plain_table(_COLUMNS, right={"n", "queries", "rollouts", "failed"})
    for cells in runs:
        table.add_row(*(visible_name(str(cell)) for cell in cells))
    return table


def unreadable_table(runs: Mapping[Path, HarnessError]) -> Table:
    """Return a table of the runs that cannot be read, a row each: the name of the folder, and why."""
    table = plain_table(("run", "cannot be read"), no_wrap=False)
    for folder, error in runs.items():
        if isinstance(error, NeedsUpgrade):
            reason = f"needs schema version {error.version}: upgrade this harness"
        else:
            reason = f"damaged: {error}".replace(f"{folder}/", "", 1)
        table.add_row(visible_name(folder.name), visible(reason))
    return table


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
        money(spent),
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
