"""What `harness rank` does: read a table of scores, rank it, print."""

import json
from pathlib import Path
from typing import Any, cast

import typer
from rich import box
from rich.table import Table

from harness.cli.output import stdout
from harness.core.errors import UsageError
from harness.ranking import RankedScores, rank_scores

_SHAPE = 'expected {"n": N, "scores": {"i,j": [score_i, score_j], ...}}, i shown first'


def rank_command(
    *, table: Path, topology: str | None, estimator: str | None, order: str | None, seed: int | None, as_json: bool
) -> None:
    """Do `harness rank`."""
    n, scores = read_table(table)
    named = {"topology": topology, "estimator": estimator, "order": order, "rng": seed}
    ranked = rank_scores(scores, n=n, **{k: v for k, v in named.items() if v is not None})  # pyright: ignore[reportArgumentType] - it checks
    if as_json:
        typer.echo(ranked.model_dump_json(indent=1))
        return
    console = stdout()
    console.print(_table(ranked))
    noise = "" if ranked.signal == "ok" else f" · signal {ranked.signal}"
    console.print(f"{len(ranked.matches)} matches, {ranked.topology} with {ranked.estimator}{noise}")


def read_table(path: Path) -> tuple[int | None, dict[tuple[int, int], Any]]:
    """Return N and the scores by pair. Raises UsageError for a file that cannot be read or has another shape."""
    try:
        read: Any = json.loads(path.read_text("utf-8"))
    except OSError as exc:
        raise UsageError(f"{path}: {exc.strerror}") from None
    except ValueError as exc:
        raise UsageError(f"{path} is not JSON: {exc}; {_SHAPE}") from None
    whole = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
    found, n = whole.get("scores"), whole.get("n")
    if not isinstance(found, dict):
        raise UsageError(f"{path} holds no table; {_SHAPE}")
    if n is not None and (not isinstance(n, int) or isinstance(n, bool)):
        raise UsageError(f"{path}: n is {n!r}; expected the number of entrants")
    return n, {_pair(key, path): scores for key, scores in cast("dict[str, Any]", found).items()}


def _pair(key: str, path: Path) -> tuple[int, int]:
    try:
        i, j = (int(part) for part in key.split(","))
    except ValueError:
        raise UsageError(f'{path}: the key {key!r} is not "i,j"') from None
    return i, j


def _table(ranked: RankedScores) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("rank", "entrant", "score", "reward", "advantage", "margin", "±", "best"):
        table.add_column(name, justify="right", no_wrap=True)
    order = sorted(range(len(ranked.ranks)), key=lambda i: (ranked.ranks[i] is None, ranked.ranks[i] or 0.0, i))
    for i in order:
        figures = (
            (ranked.scores[i], ".2f"),
            (ranked.rewards[i], ".3f"),
            (ranked.advantages[i], "+.2f"),
            (ranked.margins[i], "+.2f"),
            (ranked.uncertainty[i], ".2f"),
            (ranked.p_best[i], ".0%"),
        )
        rank = ranked.ranks[i]
        table.add_row(
            "–" if rank is None else f"{rank:g}", str(i), *("–" if v is None else f"{v:{f}}" for v, f in figures)
        )
    return table
