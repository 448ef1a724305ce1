"""`harness doctor`: would a run work, and what is there to set? With --judge: is the judge right?"""

import textwrap
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console

from harness.archive.run_info import find_run
from harness.cli.archived_run import runs_folder
from harness.cli.console import stderr, stdout
from harness.cli.output import Caller, print_json
from harness.cli.progress_bars import ProgressBars, run_under_bars, silence_logs, stdout_for_results
from harness.core.errors import ExitCode, Interrupted, UsageError, command, counted, option
from harness.core.progress import now
from harness.doctor import calibration
from harness.doctor.checks import Check, DoctorRequest, Status
from harness.doctor.free_checks import run_free_checks
from harness.doctor.from_python import judges_to_check, pairs_to_ask
from harness.doctor.live_checks import count_live_calls, offer_live_checks, run_live_checks
from harness.doctor.local_servers import parse_ports
from harness.doctor.planted import calibrate
from harness.doctor.probing import judge_probes, plan_probes
from harness.report.learnt_judges import leaning_words, leanings_json
from harness.report.terminal.table import Column, TableRow, on_one_line, table_lines, visible_text
from harness.report.text import SELF_TEST, as_sentence, beginning

_STYLES: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "bold red", "skipped": "dim"}
_INDENT = " " * 23
_COLUMNS = (
    Column("class", 1, wish=20),
    Column("pairs", 3, right=True),
    Column("right", 2, right=True),
    Column("single verdicts right", 6, right=True),
    Column("called a tie", 5, right=True),
    Column("failed", 4, right=True),
)


def doctor(
    caller: Caller,
    agent: str,
    flags: dict[str, Any],
    pairs: Path | None,
    probe: str | None,
    ports: str | None,
    *,
    live: bool,
    judge: bool,
) -> ExitCode:
    """Say whether a run would work, how often the judge is right, or what it leans to; return the exit code."""
    if pairs and not judge:
        raise UsageError("--pairs is for --judge, which asks the judge about each pair: add --judge")
    if probe and (pairs or not judge):
        raise UsageError("--probe is for --judge alone: add --judge, leave --pairs out")
    silence_logs()
    if probe:
        return _probe(caller, probe, flags)
    request = DoctorRequest(
        agent=agent, flags=flags, config=caller.config, environ=caller.environ, clock=now, program=command()
    )
    if judge:
        return _report_calibration(request, pairs, caller)
    try:
        with stdout_for_results() if caller.as_json else nullcontext():  # what an agent's file prints is not the result
            checks = anyio.run(_run_checks, request, parse_ports(ports), live, None if caller.as_json else stdout())
    except KeyboardInterrupt:
        raise Interrupted("interrupted") from None
    if caller.as_json:
        print_json([asdict(check) for check in checks])
    return ExitCode.USAGE if any(check.status == "fail" for check in checks) else ExitCode.DONE


async def _run_checks(request: DoctorRequest, ports: Sequence[int], live: bool, console: Console | None) -> list[Check]:
    """Run the checks, and print each on `console` once it is done."""
    checks: list[Check] = []

    def add(check: Check) -> None:
        checks.append(check)
        if not console:
            return
        head = f"{check.status:<8}{check.name:<15}"
        room = max(1, console.width - len(_INDENT))
        lines = textwrap.wrap(check.found, room, break_long_words=False, break_on_hyphens=False)
        text = f"\n{_INDENT}".join(lines)
        console.print(visible_text((head[:8], _STYLES[check.status]), head[8:], text), soft_wrap=True)
        for line in (check.do or "").splitlines():  # what to type stays on one line, to be copied
            console.print(visible_text(f"{_INDENT}> {line}"), soft_wrap=True)

    findings = await run_free_checks(request, ports)
    for check in findings.checks:
        add(check)
    if not live:
        add(offer_live_checks(request, findings))
        return checks
    model_calls, judge_calls = count_live_calls(findings)
    places = [f"agent: {findings.agent.spec.place}"] if findings.agent and model_calls else []
    places += [f"judge: {findings.judge.places}"] if findings.judge and judge_calls else []
    if places:
        stderr().print(
            f"asking: {counted(model_calls, 'small call')} to the agent's model and {judge_calls} to the judge "
            f"({', '.join(places)}); more only where one is refused or fails",
            soft_wrap=True,
        )
    async for check in run_live_checks(request, findings):
        add(check)
    return checks


def _probe(caller: Caller, run: str, flags: Mapping[str, Any]) -> ExitCode:
    """Ask a run's judge about probes of its leanings, keep these, and print them; return the exit code."""
    changes = {name: value for name, value in flags.items() if value is not None}
    if strange := [name for name in changes if not (name.startswith("judge_") or name == "rubric")]:
        raise UsageError(f"{option(strange[0])} with --probe: it is no matter of the run's judge")
    folder, console = find_run(run, runs_folder(caller)), stderr()
    plan = anyio.run(plan_probes, folder, changes, caller.environ)
    console.print(
        f"asking {plan.judging.judge.places}: {counted(plan.calls, 'call')} for {counted(len(plan.probes), 'probe')}, "
        f"each in both orders (rubric: {plan.rubric.name}); what the run holds is not asked again",
        soft_wrap=not console.is_terminal,
    )
    outcome = run_under_bars(partial(judge_probes, plan), caller)
    if caller.as_json:
        shown = outcome.leanings and leanings_json(outcome.leanings)
        named = {"run": folder.name, "judge": outcome.judge, "rubric": outcome.rubric}
        print_json({**named, "bought": outcome.bought, "failed": len(outcome.failed), "leanings": shown})
    else:
        stdout().print(visible_text(f"judge {outcome.judge}, rubric {outcome.rubric}", style="bold"))
        for line in leaning_words(outcome.leanings) if outcome.leanings else ["no probe could be judged"]:
            stdout().print(visible_text(line))
        for verdict in outcome.failed[:3]:
            stdout().print(visible_text(f"failed verdict: {beginning(verdict.failure.message, 200)}"))
        if outcome.leanings:
            stdout().print(f"kept with the run; `{command()} rescore {folder}` ranks without these leanings")
    if outcome.leanings is None:
        return ExitCode.NOTHING_RANKABLE
    return ExitCode.FAILURES if outcome.failed else ExitCode.DONE


def _report_calibration(request: DoctorRequest, pairs: Path | None, caller: Caller) -> ExitCode:
    """Ask the judge about every pair and print how often it is right; return the exit code."""
    asked = judges_to_check(anyio.run(run_free_checks, request, None), request)
    labelled = pairs_to_ask(asked, pairs, runs_folder(caller))
    calibrations = [judge.calibration(labelled, request.secrets) for judge in asked]
    console, pairs_asked = stderr(), counted(len(labelled), "pair")
    calls = counted(len(asked) * calibration.count_calibration_calls(labelled), "call")
    places = dict.fromkeys(judge.spec.places for judge in asked)
    console.print(
        f"asking {', '.join(places)}: {calls} for {pairs_asked}, each in both orders "
        f"(rubric: {asked[0].rubric.name}); verdicts are not kept on disk",
        soft_wrap=not console.is_terminal,
    )
    if any(judge.spec.offline for judge in asked):
        console.print(as_sentence(SELF_TEST), style="bold yellow")
    try:
        for judge, measured in zip(asked, calibrations, strict=True):
            with ProgressBars(console) as bars:
                anyio.run(calibrate, judge, request, measured, bars)
    except KeyboardInterrupt:
        _print_calibrations(calibrations, caller)
        done = sum(len(measured.trials) for measured in calibrations)
        raise Interrupted(f"interrupted after {done} of {counted(len(asked) * len(labelled), 'pair')}") from None
    return _print_calibrations(calibrations, caller)


def _print_calibrations(calibrations: Sequence[calibration.Calibration], caller: Caller) -> ExitCode:
    """Print how often each judge is right; return the exit code."""
    if len(calibrations) == 1:
        _print_calibration(calibrations[0], caller)
    elif caller.as_json:
        print_json(calibration.judges_compared_json(calibrations))
    else:
        for number, each in enumerate(calibrations, 1):
            stdout().print(visible_text((f"{number}", "bold"), f"  {each.judge}, rubric {each.rubric}"))
        columns = [Column("", 1), *(Column(str(number), 1) for number in range(1, len(calibrations) + 1))]
        rows = [[on_one_line(name), *cells] for name, *cells in calibration.figure_rows(calibrations)]
        for line in table_lines(columns, rows, stdout().width):
            stdout().print(line)
        for line in calibration.agreement_lines(calibrations):
            stdout().print(visible_text(line))
    if any(each.out_of_quota for each in calibrations):
        return ExitCode.BUDGET
    if not any(each.pairs_right.whole for each in calibrations):
        return ExitCode.NOTHING_RANKABLE
    return ExitCode.FAILURES if any(each.failures for each in calibrations) else ExitCode.DONE


def _print_calibration(measured: calibration.Calibration, caller: Caller) -> None:
    """Print how often the one judge is right."""
    if caller.as_json:
        print_json(calibration.calibration_json(measured))
    else:
        console = stdout()
        console.print(visible_text(f"judge {measured.judge}, rubric {measured.rubric}", style="bold"))
        if measured.verdicts_right.whole:
            rows: list[TableRow] = []
            for row in measured.classes():
                single = f"{row.verdicts_right.part} of {row.verdicts_right.whole}"
                figures = (row.pairs, row.pairs_right.part, single, row.ties, row.failed)
                rows.append(TableRow((on_one_line(row.name), *map(str, figures))))
            for line in table_lines(_COLUMNS, rows, console.width):
                console.print(line)
        for line in calibration.calibration_lines(measured):
            console.print(visible_text(line))
