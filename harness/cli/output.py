r"""What any command is told, and the one way to the terminal: lines in which nothing is hidden, JSON for machines.

Whatever models, tools, endpoints and archives say is text from strangers. A terminal obeys some characters (titles,
links, colours, the cursor) and hides others. People get marks such as `<U+001B>` in their place, machines `\u001b`.
"""

import io
import json
import logging
import shlex
import sys
import traceback
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.archive.reader import RunReader
from harness.archive.run_info import find_archived, find_run
from harness.core.errors import Interrupted, UsageError, counted, did_you_mean, on_a_line, quoted
from harness.core.records import Query
from harness.core.settings_sources import load, merge_sources
from harness.core.unicode import escape_json, visible

if TYPE_CHECKING:
    from harness.archive.comparison_reader import ComparisonReader


@dataclass(frozen=True)
class Caller:
    """What a user may say to several commands, and the environment."""

    environ: Mapping[str, str] = field(default_factory=lambda: click.get_current_context().obj or {})
    runs_dir: Path | None = None
    """Where runs are; None: where the environment says."""
    config: Path | None = None
    reuse: tuple[str, ...] = ()
    trust_archive: bool = False
    dry_run: bool = False
    wait: bool = False
    as_json: bool = False
    wide: bool = False
    """Whether tables are as wide as what is in them; consoles ask click for it."""
    quiet: bool = False
    report: bool = True
    """Whether the page of a run is written."""
    verbose: bool = False


def say(text: str, *, err: bool = False) -> None:
    """Print lines for people, on stdout or stderr."""
    _write(visible(text), err=err)


def print_json(value: object, *, indent: int | None = 1) -> None:
    """Print a result for machines: what `say` marks is escaped, and read back as it was."""
    _write(escape_json(json.dumps(value, ensure_ascii=False, indent=indent)), err=False)


@contextmanager
def while_loading(text: str, *, quiet: bool) -> Generator[None]:
    """Say on a terminal what the command is about to do, for loading the SDK takes seconds; a log needs no such line.

    Ctrl-C meanwhile ends the command with a line that says that nothing was begun. Raises Interrupted.
    """
    if not quiet and sys.stderr.isatty():
        say(f"{text} …", err=True)
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted: nothing was begun") from None


def guard_output() -> None:
    """Send through `say` what Python itself prints: warnings, logs without a handler, the traceback of a bug.

    A terminal that cannot show a character gets its number instead.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.excepthook = lambda _, bug, __: say("".join(traceback.format_exception(bug)).rstrip(), err=True)
    warnings.showwarning = lambda message, category, filename, lineno, _=None, line=None: say(
        warnings.formatwarning(message, category, filename, lineno, line).rstrip(), err=True
    )
    logging.lastResort = _LogLines(logging.WARNING)


def _write(text: str, *, err: bool) -> None:
    stream = sys.stderr if err else sys.stdout
    stream.write(text + "\n")
    stream.flush()


class _LogLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        try:
            say(self.format(record), err=True)
        except Exception:  # noqa: BLE001 - as logging's own handlers do
            self.handleError(record)


def runs_folder(caller: Caller) -> Path:
    """Return where runs are: --runs-dir, else HARNESS_RUNS_DIR, else the default."""
    return load(merge_sources({"runs_dir": caller.runs_dir}, caller.environ, None)).runs_dir


def open_run(run: str, caller: Caller) -> RunReader:
    """Return a reader of the run that a user named; it is closed when the command ends. Raises UsageError."""
    return open_folder(find_run(run, runs_folder(caller)))


def open_archived(run: str, caller: Caller) -> "RunReader | ComparisonReader":
    """Return a reader of the run or the comparison that a user named; as `open_run` otherwise."""
    folder, kind = find_archived(run, runs_folder(caller))
    return open_comparison_folder(folder) if kind == "comparison" else open_folder(folder)


def open_comparison_folder(folder: Path) -> "ComparisonReader":
    """Return a reader of the comparison in a folder; it is closed when the command ends."""
    from harness.archive.comparison_reader import ComparisonReader

    return click.get_current_context().with_resource(ComparisonReader(folder))


def refuse_parts_of_runs(reader: "ComparisonReader", options: Mapping[str, bool]) -> None:
    """Raise UsageError for an option, of those that a user may have given, that only a run has a use for."""
    if given := next((flag for flag, is_given in options.items() if is_given), None):
        side = reader.info.sides[0]
        raise UsageError(
            f"{given} is about a run, and {reader.info.id} is a comparison: leave it out, or name a run, such as side "
            f"{side.label}, {on_a_line(side.run)}"
        )


def open_folder(folder: Path) -> RunReader:
    """Return a reader of the run in a folder; it is closed when the command ends."""
    return click.get_current_context().with_resource(RunReader(folder))


def find_query(reader: RunReader, query_id: str | None) -> Query:
    """Return a query of a run; without an id, its only one. Raises UsageError."""
    ids = list(reader.index.queries)
    if not ids:
        raise UsageError(
            f"run {reader.info.id} holds no query: it was stopped before its first, or lost it; "
            f"`harness validate {shlex.quote(str(reader.folder))}` tells"
        )
    some_ids = f"{', '.join(ids[:10])}{', ...' if len(ids) > 10 else ''}"
    if query_id is None and len(ids) > 1:
        queries = counted(len(ids), "query", "queries")
        raise UsageError(f"run {reader.info.id} has {queries}: name one with --query; there are: {some_ids}")
    query = reader.query(ids[0] if query_id is None else query_id)
    if query is None:
        hint = did_you_mean(str(query_id), ids) or f"; there are: {some_ids}"
        raise UsageError(f"no query {quoted(query_id)} in run {reader.info.id}{hint}")
    return query
