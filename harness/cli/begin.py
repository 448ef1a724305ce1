"""The beginning of the commands that work for long: what is said, and refused, before the SDK is loaded.

Loading it takes seconds. Each command finds what it is about, says so on a terminal, then imports its work.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.archive.run_info import find_archived, find_run, list_archived
from harness.archive.run_state import find_missing_work, last_unfinished
from harness.cli.archived_run import open_comparison_folder, open_folder, refuse_parts_of_runs, runs_folder
from harness.cli.compare_options import GateAsked, ImproveAsked, SidesAsked
from harness.cli.look_options import ComparisonFiles
from harness.cli.output import Caller, say, while_loading
from harness.cli.show import say_finished
from harness.core.errors import ExitCode, on_a_line, option, quoted
from harness.core.fork_rules import ForkRules
from harness.core.settings_sources import load, merge_sources


def begin_run(caller: Caller, query: str | None, agent: str, queries: str | None, flags: Mapping[str, Any]) -> ExitCode:
    """Roll out, judge, rank, archive."""
    values = merge_sources(flags, caller.environ, caller.config)
    settings = load(values)
    with while_loading(f"loading agent {quoted(agent)}, for {settings.n} rollouts a query", quiet=caller.quiet):
        from harness.cli import run as work
        from harness.cli.announce import announce_run

        asked, prepared = work.prepare_run(caller, agent, query, queries, settings)
    if not asked:
        say(f"no query falls into {option('shard', settings.shard)}: nothing to run, and no run made", err=True)
        return ExitCode.DONE
    reuse_sources = [find_run(word, settings.runs_dir) for word in caller.reuse]
    announce_run(caller, prepared, len(asked), values, flags)
    return ExitCode.DONE if caller.dry_run else work.run_prepared(caller, prepared, asked, reuse_sources)


def begin_best(caller: Caller, query: str | None, agent: str, flags: Mapping[str, Any], deadline: float | None) -> None:
    """Print the best of N answers, and nothing else on stdout."""
    began = time.monotonic()
    values = merge_sources(flags, caller.environ, caller.config)
    n = load(values).n
    with while_loading(f"loading agent {quoted(agent)}, for the best of {n} rollouts", quiet=caller.quiet):
        from harness.api.one_group import for_best
        from harness.cli import run as work
        from harness.cli.announce import announce_run

        confidence = flags.get("confidence")
        design = for_best(n, confidence, hurried=deadline is not None)  # in place of any that is set for runs
        if confidence is not None and design["topology"] == "cyclic":
            design["confidence"] = confidence
        settings = load(values | {"order": None, "budget": None, "confidence": None} | design)
        queries, prepared = work.prepare_run(caller, agent, query, None, settings)
    announce_run(caller, prepared, 1, {}, flags)
    if not caller.dry_run:
        work.run_best(caller, prepared, queries, deadline, began)


def begin_resume(
    caller: Caller,
    run: str | None,
    agent: str | None,
    rubric: str | None,
    flags: Mapping[str, Any],
    *,
    retry_failed: bool,
    accept_changed_agent: bool,
) -> ExitCode:
    """Do what is missing of a run, a comparison or an improvement."""
    parent = runs_folder(caller)
    archived = (
        find_archived(run, parent) if run else last_unfinished(parent, lambda exc: say(f"passed over: {exc}", err=True))
    )
    if archived is None:
        here = "every run is finished" if list_archived(parent) else f"there is no run in {on_a_line(parent)}/ yet"
        say(f"nothing to do: {here}", err=caller.as_json)
        return ExitCode.DONE
    folder = archived.folder
    of_runs = {option("retry_failed"): retry_failed, option("accept_changed_agent"): accept_changed_agent}
    if archived.kind == "improvement":
        refuse_parts_of_runs(folder, of_runs)
        with while_loading(f"loading what improvement {folder.name} needs", quiet=caller.quiet):
            from harness.cli.improve import resume_improvement

        return resume_improvement(caller, folder, agent, flags if rubric is None else {**flags, "rubric": rubric})
    if archived.kind == "comparison":
        reader = open_comparison_folder(folder)
        refuse_parts_of_runs(reader, of_runs | {option(name): name in flags for name in ("instructions", "approve")})
        with while_loading(f"loading what comparison {folder.name} needs", quiet=caller.quiet):
            from harness.cli.compare import resume_compared

        return resume_compared(caller, reader, parent, flags, agent, rubric)
    reader = open_folder(folder)
    missing = find_missing_work(reader, retry_failed=retry_failed)
    if missing.nothing:
        return say_finished(reader, caller)
    with while_loading(f"loading what run {folder.name} needs", quiet=caller.quiet):
        from harness.cli.run import resume_found

    return resume_found(
        caller,
        reader,
        missing,
        flags,
        agent,
        rubric,
        retry_failed=retry_failed,
        accept_changed_agent=accept_changed_agent,
    )


def begin_fork(
    caller: Caller, run: str, rules: ForkRules, edit_file: Path | None, agent: str | None, flags: Mapping[str, Any]
) -> ExitCode:
    """Take recorded rollouts up again."""
    parent = runs_folder(caller)
    folder = find_run(run, parent)
    open_folder(folder).close()
    with while_loading(f"loading what run {folder.name} needs", quiet=caller.quiet):
        from harness.cli.fork import fork_found, with_edit

    return fork_found(caller, folder, parent, with_edit(rules, edit_file), agent, flags)


def begin_rescore(caller: Caller, runs: tuple[str, ...], flags: Mapping[str, Any], *, free: bool) -> ExitCode:
    """Judge archived runs again."""
    parent = runs_folder(caller)
    folders = list(dict.fromkeys(find_run(word, parent) for word in runs or ("last",)))
    which = f"{len(folders)} runs" if len(folders) > 1 else f"run {folders[0].name}"
    with while_loading(f"loading {which}", quiet=caller.quiet):
        from harness.cli.run import rescore_found

    reuse = [find_run(word, parent) for word in caller.reuse]
    return rescore_found(caller, folders, merge_sources(flags, {}, caller.config), reuse, free=free)


def begin_compare(caller: Caller, asked: SidesAsked, files: ComparisonFiles) -> ExitCode:
    """Say whether one agent is better than another."""
    what = f"the comparison of {on_a_line(', '.join(asked.sides))}"
    with while_loading(f"loading what {what} needs", quiet=caller.quiet):
        from harness.cli.compare import compare_found
        from harness.cli.compared_sides import find_sides

        found = find_sides(caller, asked)
    return compare_found(caller, found, files)


def begin_gate(caller: Caller, asked: SidesAsked, gate: GateAsked) -> ExitCode:
    """Say whether one agent may replace another, as an exit code for CI."""
    what = f"the gate for {on_a_line(', '.join(asked.sides))}"
    with while_loading(f"loading what {what} needs", quiet=caller.quiet):
        from harness.cli.compare import gate_found
        from harness.cli.compared_sides import find_sides

        found = find_sides(caller, asked)
    return gate_found(caller, found, gate)


def begin_improve(caller: Caller, asked: ImproveAsked, flags: Mapping[str, Any]) -> ExitCode:
    """Improve an agent's instructions."""
    with while_loading(f"loading agent {quoted(asked.agent)}", quiet=caller.quiet):
        from harness.cli.improve import improve_found

    return improve_found(caller, asked, merge_sources(flags, caller.environ, caller.config))
