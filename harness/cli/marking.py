"""What `rubric` does: print rubrics as they are used, and say what is wrong with one."""

import json
from typing import Any

import typer
from rich import box
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from harness.cli.output import stdout
from harness.core.errors import ExitCode
from harness.judging import Rubric, fixed_message, load_rubric, packaged_rubrics, read_rubric, rubric_source, schema


def list_command(*, as_json: bool) -> None:
    """Do `harness rubric show`."""
    rubrics = [load_rubric(name) for name in packaged_rubrics()]
    if as_json:
        typer.echo(json.dumps([_summary(r) for r in rubrics], indent=1))
        return
    table = _table("rubric", "version", "path", "answer")
    for r in rubrics:
        told = (_block(r, "path"), _block(r, "answer"))
        table.add_row(r.name, str(r.version), *(escape(t) for t in told))
    stdout().print(table)


def show_command(name: str, *, as_json: bool) -> None:
    """Do `harness rubric show NAME`. Raises UsageError for what is no rubric."""
    rubric = load_rubric(name)
    if as_json:
        typer.echo(json.dumps(_whole(rubric), ensure_ascii=False, indent=1))
        return
    console = stdout()
    console.print(_described(rubric))
    console.print(Text("What the judge is told first\n", style="bold"))
    typer.echo(fixed_message(rubric))
    console.print(Text("Schema of its reply\n", style="bold"))
    typer.echo(json.dumps(schema(rubric), indent=1))


def check_command(name: str) -> None:
    """Do `harness rubric check FILE`. Raises UsageError where there is no such file."""
    found = read_rubric(rubric_source(name))
    if isinstance(found, Rubric):
        left_out = f"; weighs nothing and is not asked for: {', '.join(found.left_out)}" if found.left_out else ""
        typer.echo(
            f"{name}: ok: {found.label}; path {_block(found, 'path')}; answer {_block(found, 'answer')}{left_out}"
        )
        return
    for fault in found:
        typer.echo(f"{name}:{fault.line}: {fault.text}")
    raise typer.Exit(ExitCode.USAGE)


def _described(rubric: Rubric) -> RenderableType:
    weights = f"path {rubric.path_weight}, answer {rubric.answer_weight}"
    lines = [Text(rubric.label, style="bold"), Text(f"weights: {weights}; a block's mean is rounded half up")]
    if rubric.max_words:
        lines.append(Text(f"an answer of more than {rubric.max_words} words is flagged"))
    for flag, limits in rubric.caps.items():
        most = ", ".join(f"{key} {mark}" for key, mark in limits.items())
        lines.append(Text(f"flagged as {flag}: at most {most}"))
    if rubric.left_out:
        lines.append(Text(f"in a block of weight 0, so not asked for: {', '.join(rubric.left_out)}"))
    table = _table("dimension", "block", "title", "description")
    for d in rubric.dimensions:
        table.add_row(d.key, d.block, escape(d.title), escape(d.description))
    return Lines(*lines, table)


def _table(*names: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def _block(rubric: Rubric, block: str) -> str:
    weight = rubric.path_weight if block == "path" else rubric.answer_weight
    keys = ", ".join(d.key for d in rubric.block(block))
    return f"{weight} ({keys})" if keys else str(weight)


def _summary(rubric: Rubric) -> dict[str, Any]:
    told = rubric.model_dump(mode="json", exclude={"body", "source", "path_weight", "answer_weight"})
    weights = {"path_weight": float(rubric.path_weight), "answer_weight": float(rubric.answer_weight)}
    return told | weights | {"fingerprint": rubric.fingerprint}


def _whole(rubric: Rubric) -> dict[str, Any]:
    more = {"instructions": rubric.instructions, "prompt": fixed_message(rubric), "schema": schema(rubric)}
    return _summary(rubric) | more
