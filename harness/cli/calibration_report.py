"""The report of `harness doctor --judge`: what it will cost, then how often the judge is right, as a table or JSON."""

from pathlib import Path

import anyio
from rich import box
from rich.table import Table

from harness.cli.console import stderr, stdout
from harness.cli.output import print_json
from harness.cli.progress_bars import ProgressBars
from harness.core.errors import ExitCode, Interrupted, UsageError
from harness.doctor import (
    Calibration,
    DoctorRequest,
    Findings,
    bundled_pairs,
    calibrate,
    calibration_json,
    calibration_lines,
    count_calibration_calls,
    read_pairs,
    run_free_checks,
)
from harness.judging import Rubric
from harness.pipeline import JudgeSpec
from harness.report import visible_text

_JUDGE_CHECKS = ("judge", "judge key", "rubric")


def report_calibration(request: DoctorRequest, pairs: Path | None, *, as_json: bool) -> ExitCode:
    """Ask the judge about every pair and print how often it is right; return the exit code."""
    labelled = read_pairs(pairs) if pairs else bundled_pairs()
    spec, rubric = _judge(anyio.run(run_free_checks, request, ()))
    calibration = Calibration(spec.model, rubric.label, pairs=labelled, secrets=request.secrets)
    console = stderr()
    console.print(
        f"asking {spec.places}: {count_calibration_calls(labelled)} calls for {len(labelled)} pairs, "
        f"each in both orders (rubric: {rubric.name}); verdicts are not kept on disk",
        soft_wrap=True,
    )
    if spec.offline:
        console.print("SELF-TEST: the embedded judge measures, and says nothing of any LLM.", style="bold yellow")
    try:
        with ProgressBars(console, quiet=False) as bars:
            anyio.run(calibrate, spec, rubric, request, calibration, bars)
    except KeyboardInterrupt:
        _print(calibration, as_json=as_json)
        raise Interrupted(f"interrupted after {len(calibration.trials)} of {len(labelled)} pairs") from None
    _print(calibration, as_json=as_json)
    return _exit_code(calibration)


def _judge(findings: Findings) -> tuple[JudgeSpec, Rubric]:
    failed = [check for check in findings.checks if check.status == "fail"]
    of_judge = [check for check in failed if check.name in _JUDGE_CHECKS]
    if findings.judge is None or findings.rubric is None or of_judge:
        reasons = [f"{c.name}: {c.found}" + (f"; {c.do}" if c.do else "") for c in (of_judge or failed)[:1]]
        raise UsageError("".join(reasons) or "there is no judge; `harness doctor` says why")
    if findings.judge.jurors:
        raise UsageError("doctor --judge measures one judge at a time: give one --judge-model")
    return findings.judge, findings.rubric


def _exit_code(calibration: Calibration) -> ExitCode:
    if calibration.out_of_quota:
        return ExitCode.BUDGET
    if not calibration.pairs_right.whole:
        return ExitCode.NOTHING_RANKABLE
    return ExitCode.FAILURES if calibration.failures else ExitCode.DONE


def _print(calibration: Calibration, *, as_json: bool) -> None:
    if as_json:
        print_json(calibration_json(calibration))
        return
    console = stdout()
    console.print(_table(calibration))
    for line in calibration_lines(calibration):
        console.print(visible_text(line), soft_wrap=True)


def _table(calibration: Calibration) -> Table:
    title = f"judge {calibration.judge}, rubric {calibration.rubric}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("class")
    for name in ("pairs", "right", "single verdicts right", "called a tie", "failed"):
        table.add_column(name, justify="right")
    for row in calibration.classes():
        single = f"{row.verdicts_right.part} of {row.verdicts_right.whole}"
        figures = (row.pairs, row.pairs_right.part, single, row.ties, row.failed)
        table.add_row(row.name, *map(str, figures))
    return table
