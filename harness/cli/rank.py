"""`harness rank`: rank a table of scores, without any judge."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from rich.text import Text

from harness.cli.console import print_lines, stdout
from harness.cli.output import Caller, print_json
from harness.core.errors import UsageError, counted, on_a_line, quoted
from harness.core.user_files import read_text
from harness.ranking.score_table import RankedScores, rank_scores
from harness.report.terminal.table import Column, TableRow, table_lines
from harness.report.text import probability

_SHAPE = 'expected {"n": N, "scores": {"i,j": [score_i, score_j], ...}}, i shown first'


def rank(
    caller: Caller, table: Path, topology: str | None, estimator: str | None, order: str | None, seed: int | None
) -> None:
    """Rank a table of pairwise scores, and print the ranks. Raises UsageError."""
    n, scores = _read_table(table)
    choices = {"topology": topology, "estimator": estimator, "order": order, "rng": seed}
    ranked = rank_scores(scores, n=n, **{k: v for k, v in choices.items() if v is not None})  # pyright: ignore[reportArgumentType] - it checks
    if caller.as_json:
        print_json(ranked.model_dump(mode="json"))
        return
    print_lines(lambda width: _ranking_lines(ranked, width))
    noise = "" if ranked.signal == "ok" else f" · signal {ranked.signal}"
    matches = counted(len(ranked.matches), "match", "matches")
    stdout().print(f"{matches}, {ranked.topology} with {ranked.estimator}{noise}")
    for note in ranked.notes:
        stdout().print(f"note: {note}", soft_wrap=True, markup=False)


def _read_table(path: Path) -> tuple[int | None, dict[tuple[int, int], Any]]:
    name = on_a_line(path)
    try:
        content: Any = json.loads(read_text(path, name))
    except RecursionError:
        raise UsageError(f"{name} is nested too deep; {_SHAPE}") from None
    except ValueError as exc:
        raise UsageError(f"{name} is not JSON: {on_a_line(exc)}; {_SHAPE}") from None
    table = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    scores, n = table.get("scores"), table.get("n")
    if not isinstance(scores, dict):
        raise UsageError(f"{name} holds no table; {_SHAPE}")
    if n is not None and (not isinstance(n, int) or isinstance(n, bool)):
        raise UsageError(f"{name}: n is {quoted(n)}; expected the number of entrants")
    by_pair = dict[tuple[int, int], Any]()
    for key, of_pair in cast("dict[str, Any]", scores).items():
        try:
            i, j = map(int, key.split(","))
        except ValueError:
            raise UsageError(f'{name}: the key {quoted(key)} is not "i,j"') from None
        by_pair[i, j] = of_pair
    return n, by_pair


def _ranking_lines(ranked: RankedScores, width: int) -> Iterator[Text]:
    importance = {"rank": 1, "entrant": 2, "score": 3, "reward": 5, "advantage": 6, "margin": 7, "±": 8, "p(best)": 4}
    columns = [Column(name, order, right=True) for name, order in importance.items()]
    by_rank = sorted(range(len(ranked.ranks)), key=lambda i: (ranked.ranks[i] is None, ranked.ranks[i] or 0.0, i))
    rows: list[TableRow] = []
    for i in by_rank:
        figures = (
            (ranked.ranks[i], "g"),
            (i, "d"),
            (ranked.scores[i], ".2f"),
            (ranked.rewards[i], ".3f"),
            (ranked.advantages[i], "+.2f"),
            (ranked.margins[i], "+.2f"),
            (ranked.uncertainty[i], ".2f"),
        )
        cells = ["–" if value is None else f"{value:{form}}" for value, form in figures]
        rows.append(TableRow([*cells, probability(ranked.p_best[i])]))
    return table_lines(columns, rows, width)
