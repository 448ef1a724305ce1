"""The commands that move data: export, import, merge, validate."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.archive.reader import RunReader
from harness.archive.run_info import ASIDE, find_archived, find_run
from harness.cli.archived_run import runs_folder, say_next, say_unread_rankings
from harness.cli.output import Caller, print_json, say
from harness.cli.piece_progress import draw_pages, shown_progress
from harness.core.errors import ExitCode, NothingRankable, UsageError, call, command, counted, did_you_mean, quoted
from harness.core.progress import now
from harness.core.settings_sources import load, merge_sources
from harness.formats.training import registry
from harness.formats.training.rules import PAIR_CHOICES, PAIRS_OF_STEPS, WHOLE, ExportRules, Included, read_split
from harness.formats.trajectory_files import IMPORT_FORMATS
from harness.pipeline.exporting.export import ExportOptions, export_runs
from harness.pipeline.import_run import import_trajectories
from harness.pipeline.merging import merge_runs
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.validation import Validation, validate_parts
from harness.report.summary.ranking import summarize

_INCLUDED: Sequence[Included] = ("anchor", "failed", "flagged", "cut", "varied", "edited")
_HOW_RANKED = ("wholly", "in part", "not at all")
"""Whether all of a query's rollouts have a place in the file, a part of them, or none."""
_PLAIN = ("per_query", "confidence", "mixed", "final_answer", "style", "step_advantages")
_DEFAULTS: Mapping[str, Any] = {"pairs": PAIR_CHOICES[0], "least_margin": 0.0}


def export_ranked(
    caller: Caller, runs: Sequence[str], to: Path, ranking: str | None, split: str | None, **chosen: Any
) -> None:
    """Write an export with its data card, and print what is in it. Raises UsageError, NothingRankable, CannotWrite."""
    rules, parent = _export_rules(chosen), runs_folder(caller)
    folders = list(dict.fromkeys(find_run(run, parent) for run in runs or ("last",)))
    exporting = ExportOptions(
        rules=rules,
        split=read_split(split) if split else WHOLE,
        ranking=ranking,
        allow_offline=chosen["allow_offline"],
        force=chosen["force"],
    )
    for folder in () if ranking else folders:
        with RunReader(folder) as reader:
            say_unread_rankings(reader)
    with shown_progress("groups", quiet=caller.quiet) as on_group:
        result = export_runs(folders, to, exporting, on_group)
    if caller.as_json:
        files = [{"file": f.name, "split": f.split, "lines": f.lines, "sha256": f.sha256} for f in result.files]
        shown = {
            "path": str(to),
            "format": rules.format,
            "runs": [{"run": run.id, "ranking": run.ranking, "offline": run.offline} for run in result.runs],
            "files": files,
            "left_out": [{"what": what, "why": why, "count": count} for what, why, count in result.losses.rows()],
            "notes": list(result.notes),
        }
        print_json(shown)
    if not caller.quiet or not result.files:
        for line in (*(f"left out: {line}" for line in result.losses.lines()), *(f"note: {n}" for n in result.notes)):
            say(line, err=True)
    if not result.files:
        raise NothingRankable(f"nothing is left to export as {rules.format}, and nothing was written")
    if not caller.as_json:
        for file in result.files:
            say(f"{shlex.quote(str(to / file.name))}: {counted(file.lines, 'line')}")
        say(f"{shlex.quote(str(to / 'README.md'))}: what is in them, and what is not")


def _export_rules(chosen: Mapping[str, Any]) -> ExportRules:
    """Return the rules of an export from the options. Raises UsageError for an option that its format does not use."""
    for name, value in chosen.items():
        formats = [key for key, each in registry.FORMATS.items() if name in each.options]
        if formats and chosen["format_"] not in formats and value not in (None, False):
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} is for --format {' or '.join(formats)}, not for {chosen['format_']}")
    if chosen["final_answer"] and chosen["pairs"] in PAIRS_OF_STEPS:
        raise UsageError(f"--final-answer is of whole rollouts, --pairs {chosen['pairs']} of steps: give one of them")
    plain = {name: chosen[name] for name in _PLAIN}
    with_default = {name: usual if chosen[name] is None else chosen[name] for name, usual in _DEFAULTS.items()}
    return ExportRules(
        format=chosen["format_"],
        weak=not chosen["no_weak"],
        included=frozenset(name for name in _INCLUDED if chosen[f"include_{name}"]),
        **plain,
        **with_default,
    )


def import_made(
    caller: Caller,
    files: tuple[Path, ...],
    format_: str | None,
    name: str,
    flags: Mapping[str, Any],
    *,
    first_is_anchor: bool,
) -> None:
    """Make a run of trajectories made elsewhere, and print what to do with it. Raises UsageError."""
    if format_ is not None and format_ not in IMPORT_FORMATS:
        meant = did_you_mean(format_, IMPORT_FORMATS)
        raise UsageError(f"--format {quoted(format_)}: choose one of {', '.join(IMPORT_FORMATS)}{meant}")
    settings, around = load(merge_sources(flags, caller.environ, None)), RunEnvironment(caller.environ)
    folder, imported = import_trajectories(
        files, settings, around, format=format_, first_is_anchor=first_is_anchor, name=name
    )
    counts = imported.counts
    for what, times in sorted(imported.unplaced.items()):
        say(f"not kept: {what}, in {counted(times, 'trajectory', 'trajectories')}", err=True)
    if caller.as_json:
        groups = [{"query": q, "rollouts": count, "ranked": imported.ranked(q)} for q, count in counts.items()]
        print_json({"run": folder.name, "path": str(folder), "groups": groups, "not_kept": imported.unplaced})
        return
    say(f"{counted(sum(counts.values()), 'rollout')} of {counted(len(counts), 'query', 'queries')}: {folder}")
    if imported.places:
        ranked = Counter(map(imported.ranked, counts))
        ways = {how: f"{counted(ranked[how], 'query', 'queries')} {how}" for how in _HOW_RANKED if ranked[how]}
        said = f"ranked as the file says: {', '.join(ways.values())}"
        if ways.keys() == {"wholly"}:
            said = f"{counted(len(counts), 'query', 'queries')} ranked as the file says"
        say(f"{said}; no judge was asked")
        if ranked.keys() - {"not at all"}:
            say(f"\nnext: {command(f'show {shlex.quote(str(folder))}')}")
            return
    if single := sum(count < 2 for count in counts.values()):
        say(f"note: {single} of them with a single rollout, which carries no signal", err=True)
    say_next(folder)


def merge_archived(caller: Caller, runs: tuple[str, ...], output: str | None) -> None:
    """Copy the records of several runs into one, and print where it is."""
    folder = runs_folder(caller)
    merged = merge_runs([find_run(word, folder) for word in runs], output, folder, RunEnvironment(caller.environ))
    for note in () if caller.quiet else merged.notes:
        say(f"note: {note}", err=True)
    if caller.as_json:
        counts = {name: getattr(merged, name) for name in ("queries", "rollouts", "rankings")}
        print_json({"run": merged.path.name, "path": str(merged.path)} | counts | {"notes": list(merged.notes)})
    else:
        sizes = f"{counted(merged.queries, 'query', 'queries')} and {counted(merged.rollouts, 'rollout')}"
        say(f"{counted(len(runs), 'run')} merged, {sizes}: {merged.path}")
        say(f"\nnext: {command(f'show {shlex.quote(str(merged.path))}')}")
    if merged.rankings and caller.report:
        with RunReader(merged.path) as reader:
            ranking = reader.ranking()
            draw_pages(reader, ranking, summarize(reader, ranking), quiet=caller.quiet)


def validate_archived(caller: Caller, run: str, *, repair: bool) -> ExitCode:
    """Check an archive, with `repair` move damaged lines aside, and print what was found; return the exit code."""
    archived = find_archived(run, runs_folder(caller))
    found = validate_parts(archived, now, repair=repair)
    if caller.as_json:
        findings = [finding for validation in found.values() for finding in validation.findings]
        print_json([{"kind": f.kind, "file": str(f.path), "line": f.line, "reason": f.reason} for f in findings])
    else:
        for folder, validation in found.items():
            _say_found(folder, validation, repair=repair)
        if archived.kind == "improvement":
            say(f"{archived.folder}: all {len(found)} of its runs and comparisons are looked at")
    return ExitCode.DAMAGED if any(validation.damaged for validation in found.values()) else ExitCode.DONE


def _say_found(folder: Path, validation: Validation, *, repair: bool) -> None:
    for finding in validation.findings:
        say(str(finding))
    if validation.damaged:
        hint = f"{call('validate', folder, repair=True)} moves damaged lines aside"
        if any(finding.by_hand for finding in validation.remaining):
            hint = "no repair mends that: put right by hand what is named above"
        say(f"{folder}: damaged; {hint}")
    elif repair and any(finding.kind == "damage" for finding in validation.findings):
        mended = [finding for finding in validation.findings if finding.kind == "damage"]
        has_lines, removed = any(f.line for f in mended), [str(f.path) for f in mended if not f.line]
        said = f"whole, less the lines now in {ASIDE}/" if has_lines else "whole"
        said += f"; what stood at {' and '.join(removed)} was removed" if removed else ""
        said += f"; {call('resume', folder)} does what is missing" if has_lines else ""
        say(f"{folder}: {said}")
    else:
        say(f"{folder}: whole")
