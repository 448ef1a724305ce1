"""The report of `harness doctor --judge`: what it will cost, then how often the judge is right, as a table or JSON."""

from collections.abc import Iterator
from pathlib import Path

import anyio
from rich.text import Text

from harness.cli.console import stderr, stdout
from harness.cli.output import print_json
from harness.cli.progress_bars import ProgressBars
from harness.core.errors import ExitCode, Interrupted, UsageError
from harness.doctor import (
    Calibration,
    ClassResult,
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
from harness.report import Column, TableRow, on_one_line, table_lines, visible_text

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
    for line in _table(calibration, console.width):
        console.print(line)
    for line in calibration_lines(calibration):
        console.print(visible_text(line), soft_wrap=True)


_COLUMNS = (
    Column("class", 1, wish=20),
    Column("pairs", 3, right=True),
    Column("right", 2, right=True),
    Column("single verdicts right", 6, right=True),
    Column("called a tie", 5, right=True),
    Column("failed", 4, right=True),
)


def _table(calibration: Calibration, width: int) -> Iterator[Text]:
    yield visible_text(f"judge {calibration.judge}, rubric {calibration.rubric}", style="bold")
    yield from table_lines(_COLUMNS, map(_row, calibration.classes()), width)


def _row(row: ClassResult) -> TableRow:
    single = f"{row.verdicts_right.part} of {row.verdicts_right.whole}"
    figures = (row.pairs, row.pairs_right.part, single, row.ties, row.failed)
    return TableRow((on_one_line(row.name), *map(str, figures)))
