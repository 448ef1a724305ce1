"""The run or comparison that a command is about: where runs are, and what RUN and --query name."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.archive.reader import RunReader
from harness.archive.run_info import Archived, a_kind, find_archived, find_run, list_comparisons, list_runs
from harness.cli.output import Caller, say
from harness.core.errors import ArchiveDamaged, UsageError, call, counted, did_you_mean, on_a_line, option, quoted
from harness.core.records import Query
from harness.core.settings_sources import load, merge_sources

if TYPE_CHECKING:  # most commands are about runs
    from harness.archive.comparison_reader import ComparisonReader


MOST_LISTED = 20
"""Queries that a text has something of each of; --json has all."""


def runs_folder(caller: Caller) -> Path:
    """Return where runs are: --runs-dir, else HARNESS_RUNS_DIR, else the default."""
    return load(merge_sources({"runs_dir": caller.runs_dir}, caller.environ, None)).runs_dir


def open_run(run: str, caller: Caller) -> RunReader:
    """Return a reader of the run that a user named; it is closed when the command ends. Raises UsageError.

    Says on stderr what `last` passed over.
    """
    parent = runs_folder(caller)
    found = find_archived(run, parent)
    folder = found.folder if found.kind == "run" else find_run(run, parent)
    if folder != found.folder:
        newer = f"{on_a_line(found.folder.name)} is newer, but {a_kind(found.kind)}"
        say(f"note: {newer}: {quoted(run)} is the run {on_a_line(folder.name)}", err=True)
    return open_folder(folder)


def open_archived(archived: Archived) -> "RunReader | ComparisonReader":
    """Return a reader of a run or a comparison; it is closed when the command ends. Raises UsageError."""
    folder, kind = archived
    if kind == "improvement":
        inside = [*list_comparisons(folder / "gate"), *list_runs(folder / "runs")]
        such_as = f", such as {on_a_line(inside[0])}" if inside else ""
        named = f"{on_a_line(folder.name)} is an improvement: name one of its runs or comparisons{such_as}"
        raise UsageError(f"{named}. {call('show', folder)} shows the improvement")
    return open_comparison_folder(folder) if kind == "comparison" else open_folder(folder)


def open_comparison_folder(folder: Path) -> "ComparisonReader":
    """Return a reader of the comparison in a folder; it is closed when the command ends."""
    from harness.archive.comparison_reader import ComparisonReader

    return click.get_current_context().with_resource(ComparisonReader(folder))


def refuse_parts_of_runs(what: "ComparisonReader | Path", options: Mapping[str, bool]) -> None:
    """Raise UsageError for an option, of those that a user may have given, that only a run has a use for.

    `what` is a comparison, or the folder of an improvement.
    """
    if not (given := next((flag for flag, is_given in options.items() if is_given), None)):
        return
    if isinstance(what, Path):
        which, run = f"{on_a_line(what.name)} is an improvement", f"one in {on_a_line(what / 'runs')}/"
    else:
        side = what.info.sides[0]
        which, run = f"{what.info.id} is a comparison", f"side {side.label}, {on_a_line(side.run)}"
    raise UsageError(f"{given} is about a run, and {which}: leave it out, or name a run, such as {run}")


def open_folder(folder: Path) -> RunReader:
    """Return a reader of the run in a folder; it is closed when the command ends."""
    reader = click.get_current_context().with_resource(RunReader(folder))
    say_unread_rankings(reader)
    return reader


def say_unread_rankings(reader: RunReader) -> None:
    """Say on stderr where the newest ranking of a run cannot be read, and which counts in its place."""
    with suppress(ArchiveDamaged):  # whoever reads the rankings says so
        for path in reader.unread_rankings():
            head = reader.newest_head()
            counts = f"ranking {head.id} counts in its place" if head else "the run has no other"
            say(f"note: {on_a_line(path)} was cut off before its header was whole, and is not read: {counts}", err=True)
        if not_begun := reader.newest_not_begun():
            newest, one_before = not_begun
            resume, before = call("resume", reader.typed_name), option("ranking", one_before.id)
            stopped = f"ranking {newest.id} was stopped before its first group"
            say(f"note: {stopped}: {resume} goes on with it, and {before} takes the one before", err=True)


def find_query(reader: RunReader, query_id: str | None) -> Query:
    """Return a query of a run; without an id, its only one. Raises UsageError."""
    ids = list(reader.index.queries)
    if not ids:
        which = f"{call('validate', reader.folder)} tells"
        raise UsageError(f"run {reader.info.id} holds no query: it was stopped before its first, or lost it; {which}")
    some_ids = f"{', '.join(ids[:10])}{', ...' if len(ids) > 10 else ''}"
    if query_id is None and len(ids) > 1:
        queries = counted(len(ids), "query", "queries")
        raise UsageError(f"run {reader.info.id} has {queries}: name one with --query; there are: {some_ids}")
    query = reader.query(ids[0] if query_id is None else query_id)
    if query is None:
        hint = did_you_mean(str(query_id), ids) or f"; there are: {some_ids}"
        raise UsageError(f"no query {quoted(query_id)} in run {reader.info.id}{hint}")
    return query


def say_next(folder: Path, *, listed: bool = False) -> None:
    """Print what to type next of a run that has no ranking; `listed`: its rollouts were just shown."""
    with RunReader(folder) as reader:
        run, info, lines = reader.typed_name, reader.info, [reader.how_to_rank]
        made = [rollout for group in reader.index.rollouts.values() for rollout in group.values()]
    if not info.judge and all(rollout.status == "failed" for rollout in made):
        say("no rollout ended well: there is nothing to judge")
        further = [call("gateway", run, upstream="URL")] if info.endpoint else []
        lines = further if listed else [call("show", run), *further]
    say("".join(f"\nnext: {line.strip('`')}" for line in lines))
