"""`harness validate`: is an archive whole?"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from harness.cli import options
from harness.core.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.pipeline.validation import Validation


@click.command()
@options.run_argument
@click.option("--repair", is_flag=True, help="Move damaged lines into the run's folder damaged/; the rest stays.")
@options.setting_option("runs_dir")
@options.json_option
@click.pass_obj
def validate(environ: Mapping[str, str], run: str, runs_dir: Path | None, *, repair: bool, as_json: bool) -> ExitCode:
    """Check every line, checksum, hash, reference and ranking of a run, or of a comparison. Exit code 5 if damaged.

    A notice (a last line cut off by a kill, a text that nothing refers to, a ranking cut short) is no damage.
    """
    from harness.archive.layout import find_archived
    from harness.cli.archived_run import runs_folder
    from harness.cli.output import print_json, say
    from harness.core.clock import now
    from harness.pipeline.comparing.validation import validate_comparison
    from harness.pipeline.validation import validate_run

    folder, kind = find_archived(run, runs_folder(runs_dir, environ))
    look = validate_comparison if kind == "comparison" else validate_run
    validation = look(folder, now, repair=repair)
    if as_json:
        findings = [
            {"kind": finding.kind, "file": str(finding.path), "line": finding.line, "reason": finding.reason}
            for finding in validation.findings
        ]
        print_json(findings)
    else:
        for finding in validation.findings:
            say(str(finding))
        say(_summary(folder, validation, repair=repair))
    return ExitCode.DAMAGED if validation.damaged else ExitCode.DONE


def _summary(folder: Path, validation: Validation, *, repair: bool) -> str:
    from harness.archive.layout import ASIDE
    from harness.core.wording import command

    if validation.damaged:
        hint = f"; `{command(f'validate {shlex.quote(str(folder))} --repair')}` moves damaged lines aside"
        if any(finding.by_hand for finding in validation.remaining):
            hint = "; no repair mends that: put right by hand what is named above"
        return f"{folder}: damaged{hint}"
    if repair and any(finding.kind == "damage" for finding in validation.findings):
        resume = f"`{command(f'resume {shlex.quote(str(folder))}')}`"
        return f"{folder}: whole, less the lines now in {ASIDE}/; {resume} does what is missing"
    return f"{folder}: whole"
