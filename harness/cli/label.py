"""`harness label`: a person says, blind, which of two answers is better."""

import random
import sys
from typing import cast

from rich.console import Console
from rich.rule import Rule

from harness.archive.run_info import append_label
from harness.cli.archived_run import find_query, open_run
from harness.cli.console import stdout
from harness.cli.output import Caller
from harness.core.errors import Interrupted, UsageError, counted
from harness.core.settings_sources import load, merge_sources
from harness.formats.labelled_pairs import Label
from harness.pipeline.labelling import BlindPair, blind_pairs
from harness.report.terminal.table import on_one_line, visible_text

_LABELS = {"1": "a", "2": "b", "t": "tie"}
_QUESTION = "Which is better? 1, 2, t for a tie, s to skip, q to end, then Enter: "


def label(caller: Caller, run: str, ranking: str | None, query: str | None, seed: int | None, *, paths: bool) -> None:
    """Ask a person about the pairs of which the judge is least sure; keep what they say. Raises Interrupted."""
    reader = open_run(run, caller)
    chosen, only = reader.ranking(ranking), None if query is None else find_query(reader, query).id
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("label asks a person: run it in a terminal, with nothing piped in or out")
    rng = random.Random(load(merge_sources({"seed": seed}, caller.environ, None)).seed)
    console, form, kept = stdout(), "paths" if paths else "answers", 0
    file = on_one_line(str(reader.folder / "labels.jsonl"), 1000)
    try:
        for number, pair in enumerate(blind_pairs(reader, chosen, rng, form, only), 1):
            _show(pair, number, console, paths=paths)
            if (said := _said(console)) == "q":
                break
            if said in _LABELS:
                append_label(reader.folder, pair.line(cast("Label", _LABELS[said]), form))
                kept += 1
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
