"""`harness rubric`: the rubrics there are, one of them in full, and whether a file is one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from harness.cli import options
from harness.core.errors import ExitCode

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from harness.judging import Rubric


@click.group(cls=options.OrderedGroup)
def rubric() -> None:
    """List and print rubrics, and check one of your own."""


@rubric.command()
@click.argument("name", required=False, help="A packaged rubric's name, or a FILE.md.")
@options.json_option
def show(name: str | None, *, as_json: bool) -> None:
    """List the packaged rubrics; with NAME, print what the judge is told by it and the schema of its reply."""
    if name is None:
        _list_rubrics(as_json=as_json)
    else:
        _show_rubric(name, as_json=as_json)


@rubric.command()
@click.argument("file", help="A rubric of your own, or a packaged one.")
def check(file: str) -> ExitCode:
    """Tell everything that is wrong with a rubric, by file and line; exit code 0 if nothing is, else 2."""
    from harness.judging import Rubric, read_rubric, rubric_source

    checked = read_rubric(rubric_source(file))
    if not isinstance(checked, Rubric):
        for fault in checked:
            click.echo(f"{file}:{fault.line}: {fault.text}")
        return ExitCode.USAGE
    idle = f"; weighs nothing and is not asked for: {', '.join(checked.left_out)}" if checked.left_out else ""
    blocks = f"path {_block(checked, 'path')}; answer {_block(checked, 'answer')}"
    click.echo(f"{file}: ok: {checked.label}; {blocks}{idle}")
    return ExitCode.DONE


def _list_rubrics(*, as_json: bool) -> None:
    from rich.markup import escape

    from harness.cli.output import stdout
    from harness.judging import load_rubric, packaged_rubrics

    rubrics = [load_rubric(name) for name in packaged_rubrics()]
    if as_json:
        click.echo(json.dumps([_summary(each) for each in rubrics], indent=1))
        return
    table = _table("rubric", "version", "path", "answer")
    for each in rubrics:
        table.add_row(each.name, str(each.version), escape(_block(each, "path")), escape(_block(each, "answer")))
    stdout().print(table)


def _show_rubric(name: str, *, as_json: bool) -> None:
    """Print a rubric as it is used. Raises UsageError for what is no rubric."""
    from rich.text import Text

    from harness.cli.output import print_json, stdout
    from harness.judging import fixed_message, load_rubric, schema

    loaded = load_rubric(name)
    prompt, reply_schema = fixed_message(loaded), schema(loaded)
    if as_json:
        print_json(_summary(loaded) | {"instructions": loaded.instructions, "prompt": prompt, "schema": reply_schema})
        return
    console = stdout()
    console.print(_description(loaded))
    console.print(Text("What the judge is told first\n", style="bold"))
    click.echo(prompt)
    console.print(Text("Schema of its reply\n", style="bold"))
    click.echo(json.dumps(reply_schema, indent=1))


def _description(described: Rubric) -> RenderableType:
    from rich.console import Group as Lines
    from rich.markup import escape
    from rich.text import Text

    weights = f"path {described.path_weight}, answer {described.answer_weight}"
    lines = [Text(described.label, style="bold"), Text(f"weights: {weights}; a block's mean is rounded half up")]
    if described.max_words:
        lines.append(Text(f"an answer of more than {described.max_words} words is flagged"))
    for flag, limits in described.caps.items():
        most = ", ".join(f"{key} {mark}" for key, mark in limits.items())
        lines.append(Text(f"flagged as {flag}: at most {most}"))
    if described.left_out:
        lines.append(Text(f"in a block of weight 0, so not asked for: {', '.join(described.left_out)}"))
    table = _table("dimension", "block", "title", "description")
    for dimension in described.dimensions:
        table.add_row(dimension.key, dimension.block, escape(dimension.title), escape(dimension.description))
    return Lines(*lines, table)


def _table(*names: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def _block(described: Rubric, block: str) -> str:
    weight = described.path_weight if block == "path" else described.answer_weight
    keys = ", ".join(dimension.key for dimension in described.block(block))
    return f"{weight} ({keys})" if keys else str(weight)


def _summary(described: Rubric) -> dict[str, Any]:
    fields = described.model_dump(mode="json", exclude={"body", "source", "path_weight", "answer_weight"})
    weights = {"path_weight": float(described.path_weight), "answer_weight": float(described.answer_weight)}
    return fields | weights | {"fingerprint": described.fingerprint}
