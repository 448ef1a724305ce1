"""`harness label`: a person says, blind, which of two answers is better."""

import random
import sys
from collections.abc import Iterator
from typing import cast

from rich.console import Console
from rich.rule import Rule

from harness.archive.reader import RunReader
from harness.archive.run_info import append_label, find_archived
from harness.cli.archived_run import find_query, open_archived, refuse_parts_of_runs, runs_folder
from harness.cli.console import stdout
from harness.cli.output import Caller
from harness.core.errors import Interrupted, UsageError, counted
from harness.core.settings_sources import load, merge_sources
from harness.formats.labelled_pairs import Label
from harness.pipeline.comparing.labels import drawn_pairs
from harness.pipeline.labelling import BlindPair, blind_pairs
from harness.report.terminal.table import on_one_line, visible_text

_LABELS = {"1": "a", "2": "b", "t": "tie"}
_QUESTION = "Which is better? 1, 2, t for a tie, s to skip, q to end, then Enter: "


def label(
    caller: Caller,
    run: str,
    ranking: str | None,
    query: str | None,
    seed: int | None,
    most: int | None,
    by: str | None,
    *,
    paths: bool,
) -> None:
    """Ask a person about the pairs of which the judge is least sure; keep what they say. Raises Interrupted."""
    reader = open_archived(find_archived(run, runs_folder(caller), only_runs=True))
    form = "paths" if paths else "answers"
    rng = random.Random(load(merge_sources({"seed": seed}, caller.environ, None)).seed)
    if isinstance(reader, RunReader):
        only = None if query is None else find_query(reader, query).id
        pairs: Iterator[BlindPair] = blind_pairs(reader, reader.ranking(ranking), rng, form, only, by)
    else:
        refuse_parts_of_runs(reader, {"--ranking": ranking is not None, "--query": query is not None})
        pairs = drawn_pairs(reader, rng, by)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("label asks a person: run it in a terminal, with nothing piped in or out")
    console, kept = stdout(), 0
    file = on_one_line(str(reader.folder / "labels.jsonl"), 1000)
    try:
        for number, pair in enumerate(pairs, 1):
            _show(pair, number, console, paths=paths)
            if (said := _said(console)) == "q":
                break
            if said in _LABELS:
                append_label(reader.folder, pair.line(cast("Label", _LABELS[said]), form, by))
                kept += 1
            if kept == most:
                break
        else:
            console.print("There is no further pair to ask about.")
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted: {counted(kept, 'label')} kept now in {file}") from None
    console.print(f"{counted(kept, 'label')} kept now in {file}", soft_wrap=True)


def _show(pair: BlindPair, number: int, console: Console, *, paths: bool) -> None:
    console.print(Rule(f"pair {number}", align="left"))
    console.print(visible_text(pair.query, style="bold"))
    for name, text in zip("12", pair.texts, strict=True):
        console.print()
        console.print(Rule(f" {name}", align="left", style="dim"))
        if paths:
            console.print(visible_text(text.path, style="dim"))
            console.print()
        console.print(visible_text(text.answer))
    console.print()


def _said(console: Console) -> str:
    """Return what the person typed, once that is an answer; q at the end of the input."""
    while True:
        console.print(_QUESTION, end="")
        line = sys.stdin.readline()
        said = line.strip().lower()
        if not line or said in {*_LABELS, "s", "q"}:
            return said or "q"
