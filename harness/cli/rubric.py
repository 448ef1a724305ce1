"""`harness rubric`: the rubrics there are, one of them in full, and whether a file is one."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.text import Text

from harness.cli.console import print_lines, stdout
from harness.cli.new_files import IS_NAME, write_new
from harness.cli.output import Caller, print_json, say
from harness.core.errors import ExitCode, UsageError, command, did_you_mean, goes_on, on_a_line, quoted
from harness.judging.rubric import Rubric, load_rubric, packaged_rubrics, read_rubric, rubric_source
from harness.report.terminal.table import Column, TableRow, table_or_list, visible_text


def show_rubric(name: str | None, caller: Caller) -> None:
    """Print the packaged rubrics, or what the judge is told by one of them. Raises UsageError for what is no rubric."""
    if name is None:
        rubrics = [load_rubric(name) for name in packaged_rubrics()]
        if caller.as_json:
            print_json([_summary(each) for each in rubrics])
            return
        columns = [Column("rubric", 1), Column("version", 2), Column("path", 4, wish=24), Column("answer", 3, wish=24)]
        rows = [TableRow([r.name, str(r.version), _block(r, "path"), _block(r, "answer")]) for r in rubrics]
        print_lines(lambda width: table_or_list(columns, rows, width))
        return
    from harness.judging.prompt import fixed_message
    from harness.judging.reply import schema

    loaded = load_rubric(name)
    prompt, reply_schema = fixed_message(loaded), schema(loaded)
    if caller.as_json:
        print_json(_summary(loaded) | {"instructions": loaded.instructions, "prompt": prompt, "schema": reply_schema})
        return
    print_lines(lambda width: _description(loaded, width))
    stdout().print(visible_text("\nWhat the judge is told first\n", style="bold"))
    say(prompt)
    stdout().print(visible_text("Schema of its reply\n", style="bold"))
    print_json(reply_schema)


def print_faults(file: str) -> ExitCode:
    """Tell everything that is wrong with a rubric, by file and line; exit code 0 if nothing is, else 2."""
    checked = read_rubric(rubric_source(file, on_a_line(file)))
    if not isinstance(checked, Rubric):
        for fault in checked:
            say(f"{file}:{fault.line}: {fault.text}")
        return ExitCode.USAGE
    idle = f"; weighs nothing and is not asked for: {', '.join(checked.left_out)}" if checked.left_out else ""
    blocks = f"path {_block(checked, 'path')}; answer {_block(checked, 'answer')}"
    say(f"{file}: ok: {checked.label}; {blocks}{idle}")
    return ExitCode.DONE


def new_rubric(file: Path, source: str, *, force: bool) -> None:
    """Copy a packaged rubric into a file of your own, ready to edit."""
    names = packaged_rubrics()
    if source not in names:
        unknown = f"--from {quoted(source)}: no such rubric{did_you_mean(source, names)}"
        raise UsageError(goes_on(unknown, f"there are: {', '.join(names)}"))
    if str(file) in names:
        raise UsageError(f"{file} is the name of a packaged rubric, which --rubric would take instead: name {file}.md")
    text = rubric_source(source)
    if IS_NAME.fullmatch(file.stem):
        text = text.replace(f"name: {source}\n", f"name: {file.stem}\n", 1)
    write_new(file, text, force=force)
    shown = shlex.quote(on_a_line(file))
    say(f"{on_a_line(file)}: a copy of {source}, ready to edit")
    say(f"next: {command(f'rubric check {shown}')}\nnext: {command(f'run --rubric {shown}')}")


def _description(described: Rubric, width: int) -> Iterator[Text]:
    yield visible_text(described.label, style="bold")
    yield visible_text(
        f"weights: path {described.path_weight}, answer {described.answer_weight}; a block's mean is rounded half up"
    )
    if described.max_words:
        yield visible_text(f"an answer of more than {described.max_words} words is flagged")
    if described.files:
        yield visible_text("the judge reads what became of the files in a sandbox's workspace, behind the answer")
    if described.evidence:
        yield visible_text("the judge reads which of an answer's claims stand in no tool output; they are flagged")
    for flag, limits in described.caps.items():
        most = ", ".join(f"{key} {mark}" for key, mark in limits.items())
        yield visible_text(f"flagged as {flag}: at most {most}")
    if described.left_out:
        yield visible_text(f"in a block of weight 0, so not asked for: {', '.join(described.left_out)}")
    columns = [
        *(Column("dimension", 1), Column("block", 2)),
        *(Column("title", 4, wish=30), Column("description", 3, wish=60)),
    ]
    rows = [
        TableRow([d.key, d.block, " ".join(d.title.split()), " ".join(d.description.split())])
        for d in described.dimensions
    ]
    yield from table_or_list(columns, rows, width)


def _block(described: Rubric, block: str) -> str:
    weight = described.path_weight if block == "path" else described.answer_weight
    keys = ", ".join(dimension.key for dimension in described.block(block))
    return f"{weight} ({keys})" if keys else str(weight)


def _summary(described: Rubric) -> dict[str, Any]:
    left_out = {"body", "source", "instructions", "path_weight", "answer_weight"}
    fields = described.model_dump(mode="json", exclude=left_out)
    weights = {"path_weight": float(described.path_weight), "answer_weight": float(described.answer_weight)}
    return fields | weights | {"fingerprint": described.fingerprint}
