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
from harness.core.errors import ExitCode, Interrupted
from harness.core.settings import environment
from harness.doctor import Asked, Check, Status, ask, calls_to_make, look, offer, ports_from

_STYLES: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "bold red", "skipped": "dim"}
_INDENT = " " * 23


def doctor_command(
    *, agent: str, flags: Mapping[str, Any], config: Path | None, live: bool, ports: str | None, as_json: bool
) -> None:
    """Do `harness doctor`."""
    hush(verbose=False)
    asked = Asked(agent, flags, config, environment(), program=f"{shlex.quote(python_here())} -m harness")
    try:
        checks = anyio.run(_examine, asked, ports_from(ports), live, None if as_json else stdout())
    except KeyboardInterrupt:
        raise Interrupted("interrupted") from None
    if as_json:
        typer.echo(json.dumps([asdict(c) for c in checks], ensure_ascii=False, indent=1))
    if any(c.status == "fail" for c in checks):
        raise typer.Exit(ExitCode.USAGE)


async def _examine(asked: Asked, ports: Sequence[int], live: bool, console: Console | None) -> list[Check]:
    checks: list[Check] = []

    def tell(check: Check) -> None:
        checks.append(check)
        if console:
            _print(console, check)

    findings = await look(asked, ports)
    for check in findings.checks:
        tell(check)
    if not live:
        tell(offer(asked, findings))
        return checks
    _announce(*calls_to_make(findings))
    async for check in ask(asked, findings):
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
