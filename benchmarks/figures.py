"""The measured figures of the docs: a JSON file a table in benchmarks/results, and the page that shows them.

    python -m benchmarks.figures        # writes docs/benchmarks.md

A benchmark that prints a table takes `--json benchmarks/results/NAME.json` and renews the rows of that file.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from harness.core.progress import now

ROOT = Path(__file__).resolve().parent.parent
RESULTS, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

The figures behind the other pages. `python -m benchmarks.figures` writes this page from `benchmarks/results/*.json`,
which hold further rows; a benchmark with `--json FILE` renews its file. Judges are simulated: `sharp` has little
noise, `noisy` much; the level of the marks of `relative` means nothing; with `differing`, queries differ in level,
spread and noise. rho is Spearman's correlation with the true order. `pool K`: the judge was learned from K groups.
`right`: of the groups whose best rollout is named with 95 % or more, those where it is the best, with Wilson's
interval; `!`: the interval does not reach 95 %.
"""


class Figures(TypedDict):
    """A table: its heading, what it shows, the command that prints it, when and at which commit that was run."""

    title: str
    shows: str
    only: dict[str, list[str]]
    """The page shows the rows that have one of these values in each of these columns, and leaves out
    the columns with one such value."""
    hidden: list[str]
    """Further columns that the page leaves out."""
    command: str
    measured: str
    columns: list[str]
    rows: list[list[str]]


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Let a benchmark take `--json FILE`."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="renew the rows of this file of benchmarks/results")


def renew(path: Path | None, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write what a benchmark printed to its file; a file that is there keeps its title and what it shows."""
    if path is None:
        return
    name = Path(sys.argv[0]).name
    fresh: Any = {"title": name, "shows": "", "only": {}, "hidden": []}
    known: Any = json.loads(path.read_text("utf-8")) if path.exists() else fresh
    figures: Figures = {
        "title": known["title"],
        "shows": known["shows"],
        "only": known["only"],
        "hidden": known["hidden"],
        "command": " ".join(["python", f"benchmarks/{name}", *_without_json(sys.argv[1:])]),
        "measured": f"{now().date()}, {_commit()}",
        "columns": list(columns),
        "rows": [[" ".join(str(cell).split()) for cell in row] for row in rows],
    }
    path.write_text(as_json(figures), "utf-8")


def as_json(figures: Figures) -> str:
    """Return the text of a file: a line a row."""
    rows = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in figures["rows"])
    head = json.dumps({**figures, "rows": []}, indent=2, ensure_ascii=False)
    return head.removesuffix("[]\n}") + f"[\n{rows}\n  ]\n}}\n"


def section(figures: Figures) -> str:
    """Return the part of the page that shows a table."""
    lines = [dict(zip(figures["columns"], row, strict=True)) for row in figures["rows"]]
    shown = [line for line in lines if all(line[name] in values for name, values in figures["only"].items())]
    left_out = {name for name, values in figures["only"].items() if len(values) == 1} | {*figures["hidden"]}
    names = [name for name in figures["columns"] if name not in left_out]
    columns = [[name, *(line[name] for line in shown)] for name in names]
    sides = [str.rjust if all(cell[:1] in "0123456789<.$-–" for cell in cells) else str.ljust for _, *cells in columns]
    padded = [[side(cell, max(map(len, of))) for cell in of] for side, of in zip(sides, columns, strict=True)]
    table = "\n".join("  ".join(line).rstrip() for line in zip(*padded, strict=True))
    source = f"`{figures['command']}`, {figures['measured']}"
    return f"## {figures['title']}\n\n{figures['shows']}\n\n```\n{table}\n```\n\n{source}\n"


def page() -> str:
    """Return docs/benchmarks.md as the files of benchmarks/results make it."""
    tables: list[Figures] = [json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    return "\n".join([HEAD, *map(section, tables)])


def _without_json(arguments: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for at, argument in enumerate(arguments):
        if not argument.startswith("--json") and "--json" not in arguments[max(0, at - 1) : at]:
            kept.append(f'"{argument}"' if " " in argument else argument)
    return kept


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "no commit"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
