"""What `doctor --judge` does once parsed: say what it takes, ask, print how often the judge is right."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import typer
from rich import box
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from harness.cli.output import stderr, stdout
from harness.cli.running import hush
from harness.cli.watching import Watcher
from harness.core.clock import now
from harness.core.errors import ExitCode, Interrupted, UsageError
from harness.core.settings_sources import environment
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

_JUDGES = ("judge", "judge key", "rubric")


def calibrate_command(
    *, agent: str, flags: Mapping[str, Any], config: Path | None, pairs: Path | None, as_json: bool
) -> None:
    """Do `harness doctor --judge`."""
    hush(verbose=False)
    request = DoctorRequest(agent=agent, flags=flags, config=config, environ=environment(), clock=now)
    labelled = read_pairs(pairs) if pairs else bundled_pairs()
    spec, rubric = _judge(anyio.run(run_free_checks, request, ()))
    found = Calibration(spec.model, rubric.label, pairs=labelled, secrets=request.secrets)
    console = stderr()
    console.print(
        f"asking {spec.model}: {count_calibration_calls(labelled)} calls for {len(labelled)} pairs, "
        f"each in both orders (rubric: {rubric.name}); verdicts are not kept on disk",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    if spec.offline:
        console.print("SELF-TEST: the embedded judge measures, and says nothing of any LLM.", style="bold yellow")
    try:
        with Watcher(console, quiet=False) as watcher:
            anyio.run(calibrate, spec, rubric, request, found, watcher)
    except KeyboardInterrupt:
        _tell(found, as_json=as_json)
        raise Interrupted(f"interrupted after {len(found.trials)} of {len(labelled)} pairs") from None
    _tell(found, as_json=as_json)
    code = _exit_code(found)
    if code is not ExitCode.DONE:
        raise typer.Exit(code)


def _judge(findings: Findings) -> tuple[JudgeSpec, Rubric]:
    bad = [c for c in findings.checks if c.status == "fail" and c.name in _JUDGES]
    if findings.judge is None or findings.rubric is None or bad:
        bad = bad or [c for c in findings.checks if c.status == "fail"]
        raise UsageError(
            "; ".join(f"{c.name}: {c.found}" + (f"; {c.do}" if c.do else "") for c in bad[:1])
            or "there is no judge; `harness doctor` says why"
        )
    if findings.judge.jurors:
        raise UsageError("doctor --judge measures one judge at a time: give one --judge-model")
    return findings.judge, findings.rubric


def _exit_code(found: Calibration) -> ExitCode:
    if found.out_of_quota:
        return ExitCode.BUDGET
    if not found.pairs_right.whole:
        return ExitCode.NOTHING_RANKABLE
    return ExitCode.FAILURES if found.failures else ExitCode.DONE


def _tell(found: Calibration, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(calibration_json(found), ensure_ascii=False, indent=1))
        return
    console = stdout()
    console.print(_table(found))
    for line in calibration_lines(found):
        console.print(Text(line), soft_wrap=True)


def _table(found: Calibration) -> Table:
    title = escape(f"judge {found.judge}, rubric {found.rubric}")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("class")
    for name in ("pairs", "right", "single verdicts right", "called a tie", "failed"):
        table.add_column(name, justify="right")
    for row in found.classes():
        single = f"{row.verdicts_right.part} of {row.verdicts_right.whole}"
        figures = (row.pairs, row.pairs_right.part, single, row.ties, row.failed)
        table.add_row(escape(row.name), *map(str, figures))
    return table
