"""The report of `harness doctor --judge`: what it will cost, then how often the judge is right, as a table or JSON."""

from pathlib import Path

import anyio

from harness.cli.console import stderr, stdout
from harness.cli.output import print_json
from harness.cli.progress_bars import ProgressBars
from harness.core.errors import ExitCode, Interrupted
from harness.core.wording import counted
from harness.doctor.calibration import Calibration, ClassResult, bundled_pairs, calibrate, count_calibration_calls
from harness.doctor.calibration_summary import calibration_json, calibration_lines
from harness.doctor.checks import DoctorRequest
from harness.doctor.free_checks import run_free_checks
from harness.doctor.from_python import judge_to_check
from harness.formats.labelled_pairs import read_pairs
from harness.report.terminal.table import Column, TableRow, on_one_line, table_lines, visible_text


def report_calibration(request: DoctorRequest, pairs: Path | None, *, as_json: bool) -> ExitCode:
    """Ask the judge about every pair and print how often it is right; return the exit code."""
    labelled = read_pairs(pairs) if pairs else bundled_pairs()
    spec, rubric = judge_to_check(anyio.run(run_free_checks, request, ()))
    calibration = Calibration(spec.model, rubric.label, pairs=labelled, secrets=request.secrets)
    console, pairs_asked = stderr(), counted(len(labelled), "pair")
    console.print(
        f"asking {spec.places}: {counted(count_calibration_calls(labelled), 'call')} for {pairs_asked}, "
        f"each in both orders (rubric: {rubric.name}); verdicts are not kept on disk",
        soft_wrap=not console.is_terminal,
    )
    if spec.offline:
        console.print("SELF-TEST: the embedded judge measures, and says nothing of any LLM.", style="bold yellow")
    try:
        with ProgressBars(console, quiet=False) as bars:
            anyio.run(calibrate, spec, rubric, request, calibration, bars)
    except KeyboardInterrupt:
        _print(calibration, as_json=as_json)
        raise Interrupted(f"interrupted after {len(calibration.trials)} of {pairs_asked}") from None
    _print(calibration, as_json=as_json)
    return _exit_code(calibration)


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
    console.print(visible_text(f"judge {calibration.judge}, rubric {calibration.rubric}", style="bold"))
    if calibration.verdicts_right.whole:
        for line in table_lines(_COLUMNS, map(_row, calibration.classes()), console.width):
            console.print(line)
    for line in calibration_lines(calibration):
        console.print(visible_text(line))


_COLUMNS = (
    Column("class", 1, wish=20),
    Column("pairs", 3, right=True),
    Column("right", 2, right=True),
    Column("single verdicts right", 6, right=True),
    Column("called a tie", 5, right=True),
    Column("failed", 4, right=True),
)


def _row(row: ClassResult) -> TableRow:
    single = f"{row.verdicts_right.part} of {row.verdicts_right.whole}"
    figures = (row.pairs, row.pairs_right.part, single, row.ties, row.failed)
    return TableRow((on_one_line(row.name), *map(str, figures)))
