"""What `doctor` does once parsed: look, announce the calls, ask, print."""

import json
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
import typer
from rich.console import Console
from rich.text import Text

from harness.cli.output import python_here, stderr, stdout
from harness.cli.running import hush
from harness.core.clock import now
from harness.core.errors import ExitCode, Interrupted
from harness.core.settings_sources import environment
from harness.doctor import (
    Check,
    DoctorRequest,
    Status,
    count_live_calls,
    offer_live_checks,
    parse_ports,
    run_free_checks,
    run_live_checks,
)

_STYLES: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "bold red", "skipped": "dim"}
_INDENT = " " * 23


def doctor_command(
    *, agent: str, flags: Mapping[str, Any], config: Path | None, live: bool, ports: str | None, as_json: bool
) -> None:
    """Do `harness doctor`."""
    hush(verbose=False)
    request = DoctorRequest(
        agent=agent,
        flags=flags,
        config=config,
        environ=environment(),
        clock=now,
        program=f"{shlex.quote(python_here())} -m harness",
    )
    try:
        checks = anyio.run(_examine, request, parse_ports(ports), live, None if as_json else stdout())
    except KeyboardInterrupt:
        raise Interrupted("interrupted") from None
    if as_json:
        typer.echo(json.dumps([asdict(c) for c in checks], ensure_ascii=False, indent=1))
    if any(c.status == "fail" for c in checks):
        raise typer.Exit(ExitCode.USAGE)


async def _examine(request: DoctorRequest, ports: Sequence[int], live: bool, console: Console | None) -> list[Check]:
    checks: list[Check] = []

    def tell(check: Check) -> None:
        checks.append(check)
        if console:
            _print(console, check)

    findings = await run_free_checks(request, ports)
    for check in findings.checks:
        tell(check)
    if not live:
        tell(offer_live_checks(request, findings))
        return checks
    _announce(*count_live_calls(findings))
    async for check in run_live_checks(request, findings):
        tell(check)
    return checks


def _announce(models: int, judges: int) -> None:
    if models + judges:
        stderr().print(
            f"asking: {models} small calls to the agent's model and {judges} to the judge; "
            "more only where one is refused or fails",
            highlight=False,
            soft_wrap=True,
        )


def _print(console: Console, check: Check) -> None:
    """Print a check as one aligned entry; what to type stays on one line, to be copied."""
    head = f"{check.status:<8}{check.name:<15}"
    found = textwrap.fill(
        check.found,
        console.width,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    ).removeprefix(_INDENT)
    console.print(Text.assemble((head[:8], _STYLES[check.status]), head[8:], found), soft_wrap=True)
    for line in (check.do or "").splitlines():
        console.print(Text(f"{_INDENT}> {line}"), soft_wrap=True)
