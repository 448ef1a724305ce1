"""`harness label`: a person says, blind, which of two answers is better."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from typing import cast

from rich.console import Console

from harness.archive.layout import append_label
from harness.archive.reader import RunReader
from harness.cli.archived_run import find_query, open_run
from harness.cli.console import stdout
from harness.cli.options import Caller
from harness.core.errors import Interrupted, UsageError
from harness.core.settings_sources import load, merge_sources
from harness.formats.labelled_pairs import Label
from harness.pipeline.labelling import BlindPair, blind_pairs

_LABELS = {"1": "a", "2": "b", "t": "tie"}
_QUESTION = "Which is better? 1, 2, t for a tie, s to skip, q to end, then Enter: "


def label(caller: Caller, run: str, ranking: str | None, query: str | None, seed: int | None, *, paths: bool) -> None:
    """Ask a person about the pairs of which the judge is least sure, and keep what they say."""
    reader = open_run(run, caller)
    chosen = reader.ranking(ranking)
    only = None if query is None else find_query(reader, query).id
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("label asks a person: run it in a terminal, with nothing piped in or out")
    rng = random.Random(load(merge_sources({"seed": seed}, caller.environ, None)).seed)
    pairs = blind_pairs(reader, chosen, rng, "paths" if paths else "answers", only)
    _ask_about(reader, pairs, stdout(), paths=paths)


def _ask_about(reader: RunReader, pairs: Iterable[BlindPair], console: Console, *, paths: bool) -> None:
    """Ask about pairs until there are no more, or the person ends it. Raises Interrupted on Ctrl-C."""
    kept = 0
    try:
        for number, pair in enumerate(pairs, 1):
            _show(pair, number, console, paths=paths)
            said = _said(console)
            if said == "q":
                break
            if said in _LABELS:
                append_label(reader.folder, pair.line(cast("Label", _LABELS[said]), "paths" if paths else "answers"))
                kept += 1
        else:
            console.print("There is no further pair to ask about.")
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted: {_kept(reader, kept)}") from None
    console.print(_kept(reader, kept), soft_wrap=True)


def _kept(reader: RunReader, kept: int) -> str:
    from harness.core.wording import counted
    from harness.report.terminal.table import on_one_line

    return f"{counted(kept, 'label', 'labels')} kept now in {on_one_line(str(reader.folder / 'labels.jsonl'), 1000)}"


def _show(pair: BlindPair, number: int, console: Console, *, paths: bool) -> None:
    from rich.rule import Rule

    from harness.report.terminal.table import visible_text

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
