"""`harness show`: an archived run, one rollout of it, its matches, or one match."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from harness.cli import options
from harness.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.archive import RankingFile, RankingHead, RunReader
    from harness.core.records import Query, Rollout


@click.command()
@options.run_argument
@click.option("--rollout", "-r", type=int, help="Show this rollout's path and answer.")
@click.option("--transcript", is_flag=True, help="With --rollout: the very text of it that the judge saw.")
@click.option("--matches", is_flag=True, help="The matches by round, with their numbers.")
@click.option("--match", "-m", type=int, help="One match: every mark, the judge's words, and both transcripts.")
@click.option("--query", metavar="ID", help="The query's id, where the run has several.")
@click.option("--ranking", metavar="ID", help="A ranking's id. [default: the newest]")
@options.setting_option("runs_dir")
@options.json_option
@click.pass_obj
def show(
    environ: Mapping[str, str],
    run: str,
    rollout: int | None,
    match: int | None,
    query: str | None,
    ranking: str | None,
    runs_dir: Path | None,
    *,
    transcript: bool,
    matches: bool,
    as_json: bool,
) -> None:
    """Show a run from its archive: the ranking, or one rollout, the matches, or one match with its verdicts."""
    from harness.cli.archived_run import find_query, open_run
    from harness.cli.run_overview import print_run

    reader = open_run(run, runs_dir, environ)
    if transcript and rollout is None:
        raise UsageError("--transcript shows one rollout: name it with --rollout K")
    matches_flag = "--matches" if matches else None if match is None else "--match"
    if rollout is not None and matches_flag:
        raise UsageError(f"--rollout shows a rollout, {matches_flag} what it was judged by: give one of them")
    if rollout is not None and transcript:
        shown = _find_rollout(reader, find_query(reader, query), rollout)
        _show_transcript(shown, reader.ranking(ranking).head, as_json=as_json)
    elif rollout is not None:
        _show_rollout(reader, find_query(reader, query), rollout, as_json=as_json)
    elif matches_flag:
        _show_matches(reader, reader.ranking(ranking), find_query(reader, query), match, as_json=as_json)
    else:
        whole = reader.ranking(ranking)
        print_run(reader, whole if query is None else _only(whole, find_query(reader, query)), as_json=as_json)


def _show_matches(reader: RunReader, ranking: RankingFile, query: Query, number: int | None, *, as_json: bool) -> None:
    from harness.cli.console import stdout
    from harness.cli.output import print_json
    from harness.report import group_of, match_lines, matches_table
    from harness.transcripts import recorded_form

    (ranked,), verdict_of = _only(ranking, query).groups, cache(reader.verdict)
    if ranked.verdicts:
        raise UsageError(
            "this ranking has no matches: a listwise judge scored the group as a whole; "
            "`harness show` has the scores and why"
        )
    group = group_of(reader, query, ranked)
    if number is not None and not 1 <= number <= len(ranked.matches):
        raise UsageError(f"there is no match {number}: the ranking has {len(ranked.matches)}, numbered from 1")
    if as_json:
        rows: list[dict[str, Any]] = []
        for match in ranked.matches if number is None else (ranked.matches[number - 1],):
            verdicts = [verdict_of(key) for key in match.verdicts]
            jsons = [verdict.model_dump(mode="json") if verdict else None for verdict in verdicts]
            rows.append(match.model_dump(mode="json") | {"verdicts": jsons})
        print_json(rows)
    elif number is None:
        stdout().print(matches_table(group, ranked, verdict_of))
    else:
        form = recorded_form(ranking.head.settings, ranking.head.judge, ranking.head.rendering)
        stdout().print(match_lines(group, ranked, verdict_of, number, form))


def _show_rollout(reader: RunReader, query: Query, index: int, *, as_json: bool) -> None:
    from harness.cli.console import stdout
    from harness.cli.output import print_json
    from harness.report import path_lines

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
    from harness.transcripts import ESTIMATE, is_at_hand, recorded_form

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


def _only(ranking: RankingFile, query: Query) -> RankingFile:
    """Return a ranking with nothing but one query's group."""
    ranked = ranking.of(query.id)
    if ranked is None:
        raise UsageError(f"ranking {ranking.head.id} has not come to query {query.id!r}; `harness resume` ranks it")
    return replace(ranking, groups=(ranked,), finished=True)
