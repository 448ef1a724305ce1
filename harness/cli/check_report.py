"""The report of `harness doctor`: each check as it ends, as an aligned entry, or all of them as JSON."""

import textwrap
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict

import anyio
from rich.console import Console

from harness.cli.console import stderr, stdout
from harness.cli.output import print_json
from harness.cli.process import stdout_for_results
from harness.core.errors import ExitCode, Interrupted
from harness.core.wording import counted
from harness.doctor.checks import Check, DoctorRequest, Status
from harness.doctor.free_checks import Findings, run_free_checks
from harness.doctor.live_checks import count_live_calls, offer_live_checks, run_live_checks
from harness.doctor.local_servers import parse_ports
from harness.report.terminal.table import visible_text

_STYLES: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "bold red", "skipped": "dim"}
_INDENT = " " * 23


def report_checks(request: DoctorRequest, ports: str | None, *, live: bool, as_json: bool) -> ExitCode:
    """Run the checks and print them; return the exit code."""
    try:
        with stdout_for_results() if as_json else nullcontext():  # what an agent's file prints is not the result
            checks = anyio.run(_run_checks, request, parse_ports(ports), live, None if as_json else stdout())
    except KeyboardInterrupt:
        raise Interrupted("interrupted") from None
    if as_json:
        print_json([asdict(check) for check in checks])
    return ExitCode.USAGE if any(check.status == "fail" for check in checks) else ExitCode.DONE


async def _run_checks(request: DoctorRequest, ports: Sequence[int], live: bool, console: Console | None) -> list[Check]:
    checks: list[Check] = []

    def add(check: Check) -> None:
        checks.append(check)
        if console:
            _print(console, check)

    findings = await run_free_checks(request, ports)
    for check in findings.checks:
        add(check)
    if not live:
        add(offer_live_checks(request, findings))
        return checks
    _announce(findings)
    async for check in run_live_checks(request, findings):
        add(check)
    return checks


def _announce(findings: Findings) -> None:
    model_calls, judge_calls = count_live_calls(findings)
    places = [f"agent: {findings.agent.spec.place}"] if findings.agent and model_calls else []
    places += [f"judge: {findings.judge.places}"] if findings.judge and judge_calls else []
    if places:
        stderr().print(
            f"asking: {counted(model_calls, 'small call')} to the agent's model and {judge_calls} to the judge "
            f"({', '.join(places)}); more only where one is refused or fails",
            soft_wrap=True,
        )


def _print(console: Console, check: Check) -> None:
    """Print a check as one aligned entry; what to type stays on one line, to be copied."""
    head = f"{check.status:<8}{check.name:<15}"
    text = textwrap.fill(
        check.found,
        console.width,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    ).removeprefix(_INDENT)
    console.print(visible_text((head[:8], _STYLES[check.status]), head[8:], text), soft_wrap=True)
    for line in (check.do or "").splitlines():
        console.print(visible_text(f"{_INDENT}> {line}"), soft_wrap=True)
