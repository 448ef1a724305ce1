"""`harness doctor`: would a run work, and what is there to set? With --judge: is the judge right?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from harness.cli import options
from harness.core.errors import ExitCode, UsageError


@click.command()
@options.agent_option
@options.setting_options(
    *("model", "base_url", "api", "judge_model", "judge_base_url", "judge_api", "judge_label", "rubric", "offline"),
    *("judge_timeout", "give_up", "approve"),
)
@options.config_option
@click.option("--live", is_flag=True, help="Ask the models too: one small call for each thing that only they can tell.")
@click.option(
    "--judge", is_flag=True, help="Ask the judge about pairs with known answers, and say how often it is right."
)
@click.option(
    "--pairs",
    type=options.FILE,
    metavar="FILE",
    help="With --judge: your own pairs, JSONL or CSV: query, a, b, label a|b|tie; or query, chosen, rejected. "
    "[default: packaged]",
)
@click.option(
    "--ports",
    metavar="LIST",
    help="Ports of this machine to look for model servers at, with commas; an empty list for none. "
    "[default: 8000,8080,11434,1234,4000,30000]",
)
@options.json_option
@options.wide_option
@click.pass_obj
def doctor(
    environ: Mapping[str, str],
    agent: str,
    flags: Mapping[str, Any],
    config: Path | None,
    pairs: Path | None,
    ports: str | None,
    *,
    live: bool,
    judge: bool,
    as_json: bool,
) -> ExitCode:
    """Tell what `run` with the same options would use, whether it would work, and what to set where it would not.

    Without --live no model is asked and nothing is spent. A model server found on this machine is shown with the
    command that uses it; doctor never switches to one. Exits 2 if anything failed that would stop a run. With --judge
    only the judge is looked at: it is asked about each pair in both orders, and its verdicts are compared with the
    known answers.
    """
    from harness.cli.process import silence_logs
    from harness.cli.program import program
    from harness.core.clock import now
    from harness.doctor.checks import DoctorRequest

    if pairs and not judge:
        raise UsageError("--pairs is for --judge, which asks the judge about each pair: add --judge")
    silence_logs()
    request = DoctorRequest(agent=agent, flags=flags, config=config, environ=environ, clock=now, program=program())
    if judge:
        from harness.cli.calibration_report import report_calibration

        return report_calibration(request, pairs, as_json=as_json)
    from harness.cli.check_report import report_checks

    return report_checks(request, ports, live=live, as_json=as_json)
