"""What `show`, `ls` and `report` do: read an archive and print."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from harness.archive import ASIDE, RankingFile, RankingHead, RunReader, find_run, list_runs, schema_of, schemas
from harness.cli.output import print_run, runs_dir_of, stderr, stdout
from harness.core.clock import now
from harness.core.errors import ArchiveDamaged, ExitCode, UsageError, did_you_mean
from harness.core.records import Group, Query, Rollout
from harness.core.verdicts import Judged
from harness.report import group_of, match_lines, matches_table, path_lines, run_cells, runs_table, write_page
from harness.transcripts import ESTIMATE, is_at_hand, recorded_budget, transcribe

if TYPE_CHECKING:
    from harness.pipeline import Validation


def show_command(
    *,
    run: str,
    rollout: int | None,
    transcript: bool,
    matches: bool,
    match: int | None,
    query: str | None,
    ranking: str | None,
    runs_dir: Path | None,
    as_json: bool,
) -> None:
    """Do `harness show`."""
    reader = RunReader(find_run(run, runs_dir_of(runs_dir)))
    if transcript and rollout is None:
        raise UsageError("--transcript shows one rollout: name it with --rollout K")
    of_matches = "--matches" if matches else None if match is None else "--match"
    if rollout is not None and of_matches:
        raise UsageError(f"--rollout shows a rollout, {of_matches} what it was judged by: give one of them")
    if rollout is not None and transcript:
        found = _rollout(reader.group(_query(reader, query)), rollout, reader)
        _show_transcript(found, reader.ranking(ranking).head, as_json=as_json)
        return
    if rollout is not None:
        _show_rollout(reader, _query(reader, query), rollout, as_json=as_json)
        return
    if matches or match is not None:
        _show_matches(reader, reader.ranking(ranking), _query(reader, query), match, as_json=as_json)
        return
    ranked = reader.ranking(ranking)
    if query is not None:
        ranked = _only(ranked, _query(reader, query))
    print_run(reader, ranked, as_json=as_json)


def _show_matches(reader: RunReader, ranking: RankingFile, query: Query, number: int | None, *, as_json: bool) -> None:
    (ranked,), verdicts = _only(ranking, query).groups, cache(reader.verdict)
    if ranked.verdicts:
        raise UsageError(
            "this ranking has no matches: a listwise judge scored the group as a whole; "
            "`harness show` has the scores and why"
        )
    group = group_of(reader, query, ranked)
    if number is not None and not 1 <= number <= len(ranked.matches):
        raise UsageError(f"there is no match {number}: the ranking has {len(ranked.matches)}, numbered from 1")
    shown = ranked.matches if number is None else (ranked.matches[number - 1],)
    if as_json:
        told = [m.model_dump(mode="json") | {"verdicts": [_verdict(verdicts(k)) for k in m.verdicts]} for m in shown]
        typer.echo(json.dumps(told, ensure_ascii=False, indent=1))
    elif number is None:
        stdout().print(matches_table(group, ranked, verdicts))
    else:
        budget = recorded_budget(ranking.head.settings, ranking.head.judge)
        stdout().print(match_lines(group, ranked, verdicts, number, budget))


def _verdict(verdict: Judged | None) -> dict[str, Any] | None:
    return verdict.model_dump(mode="json") if verdict else None


def _show_rollout(reader: RunReader, query: Query, rollout: int, *, as_json: bool) -> None:
    group = reader.group(query)
    found = _rollout(group, rollout, reader)
    if as_json:
        typer.echo(found.model_dump_json(indent=1))
    else:
        stdout().print(path_lines(group, rollout))


def _rollout(group: Group, index: int, reader: RunReader) -> Rollout:
    found = next((r for r in group.rollouts if r.index == index), None)
    if found is None:
        there = ", ".join(str(r.index) for r in group.rollouts) or "none"
        raise UsageError(f"run {reader.info.id} has no rollout {index}; there are: {there}")
    return found


def _show_transcript(rollout: Rollout, head: RankingHead, *, as_json: bool) -> None:
    """Print path and answer as a ranking's judge had them, character for character."""
    if rollout.status == "failed":
        raise UsageError(f"rollout {rollout.index} failed: no judge saw it")
    counter = str(head.judge.get("counter", ESTIMATE))
    if not is_at_hand(counter):
        stderr().print(
            f"note: the judge's transcripts were counted by {counter}, which is not on this machine; where "
            "something was cut, this text differs from what the judge saw",
            highlight=False,
        )
    shown = transcribe(rollout.trajectory, recorded_budget(head.settings, head.judge))
    if as_json:
        told = {
            "path": shown.path,
            "answer": shown.answer,
            "hash": shown.hash,
            "cut": shown.cut,
            "answer_cut": shown.answer_cut,
            "counter": counter,
        }
        typer.echo(json.dumps(told, ensure_ascii=False, indent=1))
    else:
        typer.echo(f"[PATH]\n{shown.path}\n[/PATH]\n\n[ANSWER]\n{shown.answer}\n[/ANSWER]")


def ls_command(*, runs_dir: Path | None, as_json: bool) -> None:
    """Do `harness ls`."""
    folder = runs_dir_of(runs_dir)
    runs: list[tuple[RunReader, list[Any]]] = []
    damaged: list[tuple[Path, ArchiveDamaged]] = []
    for path in list_runs(folder):
        try:
            runs.append((reader := RunReader(path), run_cells(reader)))
        except ArchiveDamaged as exc:  # one must not hide the rest
            damaged.append((path, exc))
    if as_json:
        typer.echo(json.dumps([reader.info.model_dump(mode="json") for reader, _ in runs], indent=1))
    elif runs or damaged:
        stdout().print(runs_table(cells for _, cells in runs))
        for path, why in damaged:
            typer.echo(f"damaged: {why}; `harness validate {path}` tells more", err=True)
    else:
        typer.echo(f"no runs in {folder}/ yet; make one with `python -m harness run --agent search`")


def validate_command(*, run: str, repair: bool, runs_dir: Path | None, as_json: bool) -> None:
    """Do `harness validate`."""
    from harness import pipeline

    folder = find_run(run, runs_dir_of(runs_dir))
    checked = pipeline.validate_run(folder, now, repair=repair)
    if as_json:
        told = [{"kind": f.kind, "file": str(f.path), "line": f.line, "reason": f.reason} for f in checked.found]
        typer.echo(json.dumps(told, indent=1))
    else:
        for finding in checked.found:
            typer.echo(str(finding))
        typer.echo(_in_short(folder, checked, repair=repair))
    if checked.damaged:
        raise typer.Exit(ExitCode.DAMAGED)


def _in_short(folder: Path, checked: "Validation", *, repair: bool) -> str:
    if checked.damaged:
        hint = "" if repair else f"; `harness validate {folder} --repair` moves damaged lines aside"
        return f"{folder}: damaged{hint}"
    if repair and any(f.kind == "damage" for f in checked.found):
        return f"{folder}: whole, less the lines now in {ASIDE}/; `harness resume {folder}` does what is missing"
    return f"{folder}: whole"


def schema_command(record: str | None) -> None:
    """Do `harness schema`."""
    typer.echo(json.dumps(schema_of(record) if record else schemas(), indent=1))


def report_command(*, run: str, ranking: str | None, runs_dir: Path | None) -> None:
    """Do `harness report`."""
    reader = RunReader(find_run(run, runs_dir_of(runs_dir)))
    target = reader.folder / "report.html"
    write_page(reader, reader.ranking(ranking), target)
    typer.echo(str(target))


def _query(reader: RunReader, wanted: str | None) -> Query:
    ids = list(reader.index.queries)
    if not ids:
        raise UsageError(
            f"run {reader.info.id} holds no query: it was stopped before its first, or lost it; "
            f"`harness validate {reader.folder}` tells"
        )
    if wanted is None and len(ids) > 1:
        raise UsageError(f"run {reader.info.id} has {len(ids)} queries: name one with --query, e.g. {ids[0]}")
    found = reader.query(ids[0] if wanted is None else wanted)
    if found is None:
        some_of = f"; there are: {', '.join(ids[:10])}{', ...' if len(ids) > 10 else ''}"
        raise UsageError(f"no query {wanted!r} in run {reader.info.id}{did_you_mean(str(wanted), ids) or some_of}")
    return found


def _only(ranking: RankingFile, query: Query) -> RankingFile:
    """Return a ranking with nothing but one query's group."""
    ranked = ranking.of(query.id)
    if ranked is None:
        raise UsageError(f"ranking {ranking.head.id} has not come to query {query.id!r}; `harness resume` ranks it")
    return replace(ranking, groups=(ranked,), finished=True)
