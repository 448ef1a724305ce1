"""What `stats` does: a judge's honesty figures from an archive, printed."""

import json
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from harness.archive import RankingFile, RunReader, find_run
from harness.cli.output import runs_dir_of, stdout
from harness.report import JudgeQuality, RankingSummary, counted, is_offline, judge_qualities, quality_json, summarize


def stats_command(*, run: str, ranking: str | None, runs_dir: Path | None, as_json: bool) -> None:
    """Do `harness stats`."""
    reader = RunReader(find_run(run, runs_dir_of(runs_dir)))
    newest = reader.ranking(ranking)
    wanted = [newest] if ranking else reader.rankings()
    if as_json:
        told = {"run": reader.info.id, "path": str(reader.folder), "rankings": [_json(reader, r) for r in wanted]}
        typer.echo(json.dumps(told, ensure_ascii=False, indent=1))
        return
    console = stdout()
    for one in wanted:
        _print(console, reader, one)


def _json(reader: RunReader, ranking: RankingFile) -> dict[str, Any]:
    found = summarize(reader, ranking)
    return {
        "ranking": ranking.head.id,
        "finished": ranking.finished,
        "offline": is_offline(reader, ranking),
        "rubric": ranking.head.rubric,
        "groups": len(ranking.groups),
        "signals": _signals(found),
        "judges": [quality_json(t) for t in judge_qualities(reader, ranking, found)],
    }


def _print(console: Console, reader: RunReader, ranking: RankingFile) -> None:
    looked = summarize(reader, ranking)
    signals = ", ".join(f"{name} {n}" for name, n in _signals(looked).items())
    groups = counted(len(ranking.groups), "query", "queries")
    console.print(Text(f"ranking {ranking.head.id}: {groups}, signal {signals or 'not told yet'}"))
    if is_offline(reader, ranking):
        console.print("SELF-TEST on the embedded offline parts: it says nothing of any LLM.", style="bold yellow")
    found = judge_qualities(reader, ranking, looked)
    if not found:
        why = "a listwise judge's scores have no orders to compare" if looked.listwise else "there was nothing to judge"
        console.print(f"  no verdict{' on pairs' if looked.listwise else ''}: {why}\n", highlight=False)
    for trust in found:
        console.print(_table(trust))
        for warning in trust.warnings:
            console.print(Text(f"the judge: {warning}", style="bold"), soft_wrap=True)


def _table(trust: JudgeQuality) -> Table:
    title = f"judge {trust.judge}, rubric {trust.rubric}: {trust.tally.verdicts} verdicts on different answers"
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("", "figure", "which says"):
        table.add_column(name, overflow="fold")
    for r in trust.figures:
        table.add_row(escape(r.label), escape(r.value), escape(r.meaning))
    return table


def _signals(found: RankingSummary) -> dict[str, int]:
    return {name: n for name in ("ok", "weak", "none") if (n := found.signals[name])}
