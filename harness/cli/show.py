"""`harness show`: an archived run, one rollout of it, its matches, or one match; or a comparison."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from harness.cli import completion, options
from harness.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.archive.comparison_reader import ComparisonReader
    from harness.archive.rankings import RankingFile
    from harness.archive.reader import RunReader
    from harness.archive.typed_records import RankingHead
    from harness.core.records import Query, Rollout


@click.command()
@options.run_argument
@click.option("--rollout", "-r", type=int, help="Show this rollout's path and answer.")
@click.option("--transcript", is_flag=True, help="With --rollout: the very text of it that the judge saw.")
@click.option("--matches", is_flag=True, help="The matches by round, with their numbers.")
@click.option("--match", "-m", type=int, help="One match: every score, the judge's words, and both transcripts.")
@click.option("--matrix", is_flag=True, help="Who beat whom: by how much each rollout leads each other one.")
@click.option("--brief", is_flag=True, help="With --match: leave out the transcripts.")
@click.option(
    "--query", metavar="ID", shell_complete=completion.query_ids, help="The query's id, where the run has several."
)
@click.option(
    "--sort",
    shell_complete=completion.sort_keys,
    metavar="KEY",
    help="A row a query, in the order of: number, id, winner, score, p_best, signal, flips, tokens, cost, time, "
    "failed, query, or a field of the queries' metadata. -KEY: the greatest first.",
)
@click.option("--all", "list_all", is_flag=True, help="A row a query, for all of them. [default: 20]")
@click.option(
    "--columns", metavar="FIELDS", help="A row a query, with these fields of the queries' metadata, with commas."
)
@click.option("--ranking", metavar="ID", help="A ranking's id. [default: the newest]")
@click.option("--rankings", is_flag=True, help="List the rankings of the run.")
@options.setting_option("runs_dir")
@options.json_option
@options.wide_option
@click.pass_obj
def show(
    environ: Mapping[str, str],
    run: str,
    rollout: int | None,
    match: int | None,
    query: str | None,
    ranking: str | None,
    sort: str | None,
    columns: str | None,
    runs_dir: Path | None,
    *,
    transcript: bool,
    matches: bool,
    matrix: bool,
    brief: bool,
    rankings: bool,
    list_all: bool,
    as_json: bool,
) -> None:
    """Show a run from its archive: the ranking, or one rollout, the matches, or one match with its verdicts.

    Of a comparison: what it says, the figures of its sides, and the queries that were lost.
    """
    from harness.archive.reader import RunReader
    from harness.cli.archived_run import find_query, open_archived, refuse_parts_of_runs

    parts = {"--rankings": rankings, "--rollout": rollout is not None}
    parts |= {"--matches": matches, "--match": match is not None, "--matrix": matrix}
    tables = {"--sort": sort is not None, "--all": list_all, "--columns": columns is not None}
    _check_together(parts, tables, transcript=transcript, brief=brief)
    reader = open_archived(run, runs_dir, environ)
    if not isinstance(reader, RunReader):
        named = {"--query": query is not None, "--ranking": ranking is not None}
        refuse_parts_of_runs(reader, parts | tables | named)
        _show_comparison(reader, as_json=as_json)
    elif rankings:
        _list_rankings(reader, as_json=as_json)
    elif rollout is not None and transcript:
        shown = _find_rollout(reader, find_query(reader, query), rollout)
        _show_transcript(shown, reader.ranking(ranking).head, as_json=as_json)
    elif rollout is not None:
        _show_rollout(reader, find_query(reader, query), rollout, as_json=as_json)
    elif matches or matrix or match is not None:
        from harness.cli.show_matches import show_matches, show_matrix

        of_query = _only(reader, reader.ranking(ranking), find_query(reader, query))
        if matrix:
            show_matrix(reader, of_query, as_json=as_json)
        else:
            show_matches(reader, of_query, match, brief=brief, as_json=as_json)
    else:
        from harness.cli.run_overview import print_run
        from harness.report.terminal.show import QueryTable

        whole = reader.ranking(ranking)
        shown = whole if query is None else _only(reader, whole, find_query(reader, query))
        fields = tuple(filter(None, (columns or "").split(",")))
        table = QueryTable(sort or "number", list_all, fields) if any(tables.values()) else None
        has_page = (reader.folder / "report.html").is_file()
        print_run(reader, shown, as_json=as_json, table=table, report=has_page)


def _show_comparison(reader: ComparisonReader, *, as_json: bool) -> None:
    from harness.cli.comparison_result import print_comparison
    from harness.pipeline.comparing.outcome import comparison_of

    print_comparison(reader, comparison_of(reader), as_json=as_json)


def _check_together(parts: Mapping[str, bool], tables: Mapping[str, bool], *, transcript: bool, brief: bool) -> None:
    """Raise UsageError where options ask for different things."""
    parts_given = [flag for flag, is_given in parts.items() if is_given]
    tables_given = [flag for flag, is_given in tables.items() if is_given]
    if transcript and "--rollout" not in parts_given:
        raise UsageError("--transcript shows one rollout: name it with --rollout K")
    if brief and "--match" not in parts_given:
        raise UsageError("--brief leaves the transcripts out of a match: name the match with --match N")
    if "--rankings" in parts_given and len(parts_given + tables_given) > 1:
        other = (parts_given + tables_given)[1]
        raise UsageError(f"--rankings lists rankings, {other} shows what one holds: give one of them")
    if "--matrix" in parts_given and len(parts_given) > 1:
        other = next(flag for flag in parts_given if flag != "--matrix")
        raise UsageError(f"--matrix shows who beat whom, {other} something else: give one of them")
    if "--rollout" in parts_given and len(parts_given) > 1:
        raise UsageError(f"--rollout shows a rollout, {parts_given[1]} what it was judged by: give one of them")
    if parts_given and tables_given:
        raise UsageError(f"{parts_given[0]} shows a part of one query, {tables_given[0]} lists all: give one of them")


def _list_rankings(reader: RunReader, *, as_json: bool) -> None:
    from harness.cli.console import stdout
    from harness.cli.output import print_json
    from harness.report.summary.rankings import ranking_line
    from harness.report.terminal.runs import rankings_table, rounds_lines

    lines = [ranking_line(reader, ranking) for ranking in reader.rankings()]
    if as_json:
        print_json([line.as_json() for line in lines])
        return
    if not lines:
        reader.ranking()  # says how to make one
    console = stdout()
    for line in (*rankings_table(lines, console.width), *rounds_lines(lines)):
        console.print(line)


def _show_rollout(reader: RunReader, query: Query, index: int, *, as_json: bool) -> None:
    from harness.cli.console import stdout
    from harness.cli.output import print_json
    from harness.report.terminal.details import path_lines

    rollout = _find_rollout(reader, query, index)
    if as_json:
        print_json(rollout.model_dump(mode="json"))
    else:
        stdout().print(path_lines(reader.group(query), index))


def _find_rollout(reader: RunReader, query: Query, index: int) -> Rollout:
    rollouts = {rollout.index: rollout for rollout in reader.group(query).rollouts}
    if index not in rollouts:
        indices = ", ".join(map(str, rollouts)) or "none"
        raise UsageError(f"run {reader.info.id} has no rollout {index}; there are: {indices}")
    return rollouts[index]


def _show_transcript(rollout: Rollout, head: RankingHead, *, as_json: bool) -> None:
    """Print path and answer as a ranking's judge had them, character for character."""
    from harness.cli.console import stderr
    from harness.cli.output import print_json, say
    from harness.transcripts.tokens import ESTIMATE, is_at_hand
    from harness.transcripts.transcript import recorded_form

    if rollout.status == "failed":
        raise UsageError(f"rollout {rollout.index} failed: no judge saw it")
    counter = str(head.judge.get("counter", ESTIMATE))
    if not is_at_hand(counter):
        stderr().print(
            f"note: the judge's transcripts were counted by {counter}, which is not on this machine; where "
            "something was cut, this text differs from what the judge saw",
        )
    transcript = recorded_form(head.settings, head.judge, head.rendering)(rollout.trajectory)
    if as_json:
        fields = ("path", "answer", "hash", "cut", "answer_cut", "rendering")
        print_json({name: getattr(transcript, name) for name in fields} | {"counter": counter})
    else:
        say(f"[PATH]\n{transcript.path}\n[/PATH]\n\n[ANSWER]\n{transcript.answer}\n[/ANSWER]")


def _only(reader: RunReader, ranking: RankingFile, query: Query) -> RankingFile:
    """Return a ranking with nothing but one query's group."""
    ranked = ranking.of(query.id)
    if ranked is None:
        from harness.core.wording import call

        how = call("resume", reader.typed_name)
        raise UsageError(f"ranking {ranking.head.id} has not come to query {query.id!r}; {how} ranks it")
    return replace(ranking, groups=(ranked,), finished=True)
