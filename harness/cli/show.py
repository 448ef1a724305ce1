"""`harness show`: an archived run, one rollout of it, its matches, or one match; a comparison; an improvement."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from typing import Any

from harness.archive.batch_log import with_provider
from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.archive.run_info import find_archived
from harness.archive.typed_records import RankingHead
from harness.cli.archived_run import MOST_LISTED, find_query, open_archived, refuse_parts_of_runs, runs_folder, say_next
from harness.cli.console import print_lines, stderr, stdout
from harness.cli.look_options import ShownPart
from harness.cli.output import Caller, print_json, say
from harness.core.errors import ArchiveDamaged, ExitCode, UsageError, call, counted
from harness.core.rankings import GroupRanking
from harness.core.records import Query, Rollout
from harness.judging.transcript_form import recorded_form
from harness.report.summary.pair_table import pair_table
from harness.report.summary.ranking import RankingSummary, group_of, is_offline, ranked_groups, summarize
from harness.report.summary.rankings import design_of, ranking_line
from harness.report.summary.rollouts import provisional_words
from harness.report.terminal.details import match_lines, matches_table, pair_table_lines, path_lines
from harness.report.terminal.runs import rankings_table, rounds_lines
from harness.report.terminal.show import QueryTable, failure_lines, group_table, overview, parts_line
from harness.report.terminal.table import visible_text
from harness.transcripts.tokens import ESTIMATE, can_count_by


def show(
    caller: Caller,
    run: str,
    part: ShownPart,
    query: str | None,
    ranking: str | None,
    sort: str | None,
    columns: str | None,
    *,
    list_all: bool,
) -> None:
    """Print the ranking of a run, or one rollout, the matches, or one match with its verdicts; or a comparison."""
    parts = {"--rankings": part.rankings, "--rollout": part.rollout is not None}
    parts |= {"--matches": part.matches, "--match": part.match is not None, "--matrix": part.matrix}
    tables = {"--sort": sort is not None, "--all": list_all, "--columns": columns is not None}
    _check_together(parts, tables, part)
    named = {"--query": query is not None, "--ranking": ranking is not None}
    archived = find_archived(run, runs_folder(caller))
    if archived.kind == "improvement":
        refuse_parts_of_runs(archived.folder, parts | tables | named)
        from harness.cli.improve import show_improvement

        show_improvement(archived.folder, caller)
        return
    reader = open_archived(archived)
    if not isinstance(reader, RunReader):
        refuse_parts_of_runs(reader, parts | tables | named)
        from harness.cli.compare import print_comparison
        from harness.pipeline.comparing.outcome import comparison_of

        print_comparison(reader, comparison_of(reader), caller)
    elif part.rankings:
        lines = [ranking_line(reader, each) for each in reader.rankings()]
        if caller.as_json:
            print_json([line.as_json() for line in lines])
            return
        if not lines:
            reader.ranking()  # says how to make one
        print_lines(lambda width: (*rankings_table(lines, width), *rounds_lines(lines)))
    elif part.rollout is not None:
        _show_rollout(reader, find_query(reader, query), part.rollout, ranking, caller, part)
    elif part.matches or part.matrix or part.match is not None:
        whole, asked = reader.ranking(ranking), find_query(reader, query)
        (_show_matrix if part.matrix else _show_matches)(reader, _only(reader, whole, asked), asked, part, caller)
    elif not (ranking or any(tables.values()) or reader.newest_head()) and any(reader.index.rollouts.values()):
        _show_unranked(reader, query, caller)
    else:
        whole = reader.ranking(ranking)
        shown = whole if query is None else _only(reader, whole, find_query(reader, query))
        fields = tuple(filter(None, (columns or "").split(",")))
        table = QueryTable(sort or "number", list_all, fields) if any(tables.values()) else None
        has_page = (reader.folder / "report.html").is_file()
        print_run(reader, shown, replace(caller, report=has_page), table=table)


def _show_unranked(reader: RunReader, asked: str | None, caller: Caller) -> None:
    """Print the rollouts of a run that has no ranking, and what to type next."""
    info, queries = reader.info, [find_query(reader, asked)] if asked else list(reader.queries())
    head = RankingHead.model_construct(settings=info.settings, judge={}, rubric=info.rubric, id=None)
    nowhere = partial(GroupRanking, topology="none", estimator="none", status="incomplete", signal="none")
    unranked = RankingFile(head, [nowhere(query=query.id) for query in queries], finished=False)
    if caller.as_json:
        from harness.report.json import run_json

        print_json(run_json(reader, unranked))
        return
    for group, ranked in islice(ranked_groups(reader, unranked), MOST_LISTED):
        reasons = map(visible_text, failure_lines(group, ranked, reader))
        print_lines(lambda width, g=group, below=reasons: (*group_table(g, None, width), *below, visible_text("")))
    if (more := len(queries) - MOST_LISTED) > 0:
        say(f"{counted(more, 'more query', 'more queries')}: --query ID shows one, --json all")
    say(f"run: {reader.folder}, not ranked yet")
    say_next(reader.folder, listed=True)


def _check_together(parts: Mapping[str, bool], tables: Mapping[str, bool], part: ShownPart) -> None:
    """Raise UsageError where options ask for different things."""
    given = [flag for flag, is_given in parts.items() if is_given]
    of_rollout = [flag for flag, asked in {"--transcript": part.transcript, "--credit": part.credit}.items() if asked]
    if of_rollout and "--rollout" not in given:
        of_all = f"; {call('credit')} has the steps of all" if part.credit else ""
        raise UsageError(f"{of_rollout[0]} shows one rollout: name it with --rollout K{of_all}")
    if part.brief and "--match" not in given:
        raise UsageError("--brief leaves the transcripts out of a match: name the match with --match N")
    shown = [flag for flag in given if flag != "--matches" or "--match" not in given]
    shown += [flag for flag, is_given in tables.items() if is_given][:1]
    for flags in (of_rollout, shown):
        if len(flags) > 1:
            raise UsageError(f"{flags[0]} and {flags[1]} show different things: give one of them")


def _show_rollout(
    reader: RunReader, query: Query, index: int, ranking: str | None, caller: Caller, part: ShownPart
) -> None:
    """Print a rollout; or path and answer as a ranking's judge had them, character for character; or its credit."""
    rollouts = {rollout.index: rollout for rollout in reader.group(query).rollouts}
    if index not in rollouts:
        indices = ", ".join(map(str, rollouts)) or "none"
        raise UsageError(f"run {reader.info.id} has no rollout {index}; there are: {indices}")
    if part.credit:
        from harness.cli.credit import print_rollout

        print_rollout(reader, query, index, ranking, caller)
    elif part.transcript:
        _show_transcript(rollouts[index], query, reader.ranking(ranking).head, caller)
    elif caller.as_json:
        print_json(rollouts[index].model_dump(mode="json"))
    else:
        stdout().print(path_lines(reader.group(query), index))


def _show_transcript(rollout: Rollout, query: Query, head: RankingHead, caller: Caller) -> None:
    if rollout.status == "failed":
        raise UsageError(f"rollout {rollout.index} failed: no judge saw it")
    counter = str(head.judge.get("counter", ESTIMATE))
    if not can_count_by(counter):
        stderr().print(
            f"note: the judge's transcripts were counted by {counter}, which is not on this machine; where "
            "something was cut, this text differs from what the judge saw"
        )
    seen = recorded_form(head.settings, head.judge, head.rendering)(rollout.trajectory, query.reference)
    if caller.as_json:
        shown = {name: getattr(seen, name) for name in ("path", "answer", "hash", "cut", "answer_cut")}
        print_json(shown | {"rendering": head.rendering, "counter": counter})
    else:
        say(f"[PATH]\n{seen.path}\n[/PATH]\n\n[ANSWER]\n{seen.answer}\n[/ANSWER]")


def _only(reader: RunReader, ranking: RankingFile, query: Query) -> RankingFile:
    """Return a ranking with nothing but one query's group."""
    ranked = ranking.of(query.id)
    if ranked is None:
        how = call("resume", reader.typed_name)
        raise UsageError(f"ranking {ranking.head.id} has not come to query {query.id!r}; {how} ranks it")
    return replace(ranking, groups=(ranked,), finished=True)


def _show_matches(reader: RunReader, ranking: RankingFile, query: Query, part: ShownPart, caller: Caller) -> None:
    """Print the matches of a ranking's only group, or one of them. Raises UsageError for a listwise ranking."""
    (ranked,), verdict_of, number = ranking.groups, cache(reader.verdict), part.match
    if ranked.verdicts:
        raise UsageError("there are no matches: a listwise judge scored the group as a whole; `harness show` says how")
    if number is not None and not 1 <= number <= len(ranked.matches):
        raise UsageError(f"there is no match {number}: the ranking has {len(ranked.matches):,}, numbered from 1")
    group, console, head = group_of(reader, query, ranked), stdout(), ranking.head
    if caller.as_json:
        rows: list[dict[str, Any]] = []
        for match in ranked.matches if number is None else (ranked.matches[number - 1],):
            verdicts = [verdict and verdict.model_dump(mode="json") for verdict in map(verdict_of, match.verdicts)]
            rows.append(match.model_dump(mode="json") | {"verdicts": verdicts})
        print_json(rows)
    elif number is None:
        console.print(matches_table(group, ranked, verdict_of, console.width))
    else:
        form = None if part.brief else recorded_form(head.settings, head.judge, head.rendering)
        console.print(match_lines(group, ranked, verdict_of, number, form, console.width))


def _show_matrix(reader: RunReader, ranking: RankingFile, query: Query, _: ShownPart, caller: Caller) -> None:
    """Print who beat whom in a ranking's only group. Raises UsageError where no more than half of the pairs met."""
    (ranked,) = ranking.groups
    table = pair_table(group_of(reader, query, ranked), ranked)
    if not table.mostly_met:
        how = call("rescore", reader.typed_name, topology="round_robin")
        raise UsageError(
            f"--matrix shows a group of which more than half of the pairs met, and here {table.met} of {table.of} did; "
            f"{how} lets all meet, `harness show --matches` lists the matches"
        )
    if caller.as_json:
        print_json(table.as_json())
    else:
        print_lines(lambda width: [pair_table_lines(table, width)])


def print_run(
    reader: RunReader,
    ranking: RankingFile,
    caller: Caller,
    *,
    summary: RankingSummary | None = None,
    indent: int | None = 1,
    table: QueryTable | None = None,
    more: Mapping[str, Any] | None = None,
    stopped: str | None = None,
) -> None:
    """Print a run with one of its rankings, in JSON with `more` fields.

    `summary` saves summarizing the ranking again, `table` lists queries, `stopped` says what ended the work early where
    the caller says what goes on, the caller's `report` whether the run's page is there, or is being written.
    """
    if caller.as_json:
        from harness.report.json import run_json

        print_json(run_json(reader, ranking) | dict(more or {}), indent=indent)
        return
    console = stdout()
    if is_offline(reader, ranking):
        console.print(
            "SELF-TEST on the embedded offline parts: these ranks say nothing of any LLM.", style="bold yellow"
        )
    summary = summary or summarize(reader, ranking)
    console.print(overview(reader, ranking, summary, console.width, table))
    console.print(parts_line(reader.info, ranking, summary))
    if ranking.head.free and summary.failed_verdicts:
        console.print(f"{call('rescore', reader.typed_name)} with the same options, but without --free, buys the rest")
    if not ranking.finished:
        ceiling = {} if ranking.head.settings.get("max_cost") is None else {"max_cost": "USD"}
        by_batch = with_provider(reader.folder)
        cut = "a batch has the judge's questions" if by_batch else "it was cut short, or is under way"
        stopped = stopped or f"{cut}; {call('resume', reader.typed_name, **ceiling)} does the rest"
        queries = counted(len(reader.index.queries), "query", "queries")
        ranked = len(ranking.groups) - ranking.incomplete
        provisional = provisional_words(design_of(ranking, "estimator"), provisional=bool(ranking.provisional))
        console.print(f"this ranking has {ranked:,} of {queries} in full{provisional}: {stopped}")
    elif summary.best is None and (others := [head.id for head in reader.heads() if head.id != ranking.head.id]):
        console.print(f"this ranking places nobody; an earlier one: --ranking {others[-1]}")
    console.print(f"run: {reader.folder}", soft_wrap=True)
    page = reader.folder / "report.html" if caller.report else f"not written; {call('report', reader.folder)} writes it"
    console.print(f"page: {page}", soft_wrap=True)


def say_finished(reader: RunReader, caller: Caller) -> ExitCode:
    """Say that nothing of a run is missing; with --json print it. Raises ArchiveDamaged for one without queries."""
    ranking = reader.newest_ranking()
    if caller.as_json and ranking:
        print_run(reader, ranking, caller)
    elif not reader.index.queries and any(reader.index.rollouts.values()):
        tells = f"{call('validate', reader.folder)} tells what is damaged"
        raise ArchiveDamaged(f"run {reader.info.id} holds rollouts, and no query of them; {tells}")
    elif not reader.index.queries:
        say(f"nothing to do: run {reader.info.id} was stopped before its first query, and cost nothing")
    else:
        say(f"nothing to do: run {reader.info.id} is finished")
    return ExitCode.DONE
