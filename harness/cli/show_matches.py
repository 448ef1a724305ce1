"""The matches of a group for `harness show`: all of them, or one with its verdicts."""

from functools import cache
from typing import Any

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.cli.console import stdout
from harness.cli.output import print_json
from harness.core.errors import UsageError
from harness.core.rankings import Match
from harness.core.wording import call
from harness.report.summary.match_verdicts import VerdictLookup
from harness.report.summary.pair_table import pair_table
from harness.report.summary.ranking import group_of
from harness.report.terminal.details import match_lines, matches_table, pair_table_lines
from harness.transcripts.transcript import recorded_form


def show_matches(reader: RunReader, ranking: RankingFile, number: int | None, *, brief: bool, as_json: bool) -> None:
    """Print the matches of a ranking's only group, or match `number` (from 1), `brief` without transcripts.

    Raises UsageError for a listwise ranking, and for a number that there is not.
    """
    (ranked,), verdict_of = ranking.groups, cache(reader.verdict)
    if ranked.verdicts:
        raise UsageError(
            "this ranking has no matches: a listwise judge scored the group as a whole; "
            "`harness show` has the scores and why"
        )
    query = reader.query(ranked.query)
    assert query, "the caller looked it up"  # noqa: S101 - for the type checker
    group = group_of(reader, query, ranked)
    if number is not None and not 1 <= number <= len(ranked.matches):
        raise UsageError(f"there is no match {number}: the ranking has {len(ranked.matches):,}, numbered from 1")
    console = stdout()
    if as_json:
        matches = ranked.matches if number is None else (ranked.matches[number - 1],)
        print_json([_json(match, verdict_of) for match in matches])
    elif number is None:
        console.print(matches_table(group, ranked, verdict_of, console.width))
    else:
        head = ranking.head
        form = None if brief else recorded_form(head.settings, head.judge, head.rendering)
        console.print(match_lines(group, ranked, verdict_of, number, form, console.width))


def show_matrix(reader: RunReader, ranking: RankingFile, *, as_json: bool) -> None:
    """Print who beat whom in a ranking's only group: by how much each rollout leads each other one.

    Raises UsageError where no more than half of the pairs met.
    """
    (ranked,) = ranking.groups
    query = reader.query(ranked.query)
    assert query, "the caller looked it up"  # noqa: S101 - for the type checker
    table = pair_table(group_of(reader, query, ranked), ranked, reader.verdict)
    if not table.mostly_met:
        how = call("rescore", reader.typed_name, topology="round_robin")
        raise UsageError(
            f"--matrix shows a group of which more than half of the pairs met, and here {table.met} of {table.of} did; "
            f"{how} lets all meet, `harness show --matches` lists the matches"
        )
    if as_json:
        print_json(table.as_json())
    else:
        console = stdout()
        console.print(pair_table_lines(table, console.width))


def _json(match: Match, verdict_of: VerdictLookup) -> dict[str, Any]:
    verdicts = [verdict_of(key) for key in match.verdicts]
    return match.model_dump(mode="json") | {"verdicts": [v.model_dump(mode="json") if v else None for v in verdicts]}
