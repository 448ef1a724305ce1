"""`harness doctor`: would a run work, and what is there to set?"""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options as o


def doctor(
    agent: o.Agent = "search",
    model: o.Model = None,
    base_url: o.BaseUrl = None,
    api: o.Api = None,
    judge_model: o.JudgeModel = None,
    judge_base_url: o.JudgeBaseUrl = None,
    judge_api: o.JudgeApi = None,
    judge_label: o.JudgeLabel = None,
    rubric: o.Rubric = None,
    config: o.Config = None,
    live: Annotated[
        bool, typer.Option("--live", help="Ask the models too: one small call for each thing that only they can tell.")
    ] = False,
    judge: Annotated[
        bool,
        typer.Option("--judge", help="Ask the judge about pairs with known answers, and say how often it is right."),
    ] = False,
    pairs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl", help="With --judge: your own pairs (query, a, b, label a|b|tie). [default: packaged]"
        ),
    ] = None,
    ports: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Ports of this machine to look for model servers at, with commas; an empty list for none. "
            "[default: 8000,8080,11434,1234,4000,30000]",
        ),
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Tell what `run` with the same options would use, whether it would work, and what to set where it would not.

    Without --live no model is asked and nothing is spent. A model server found on this machine is shown with the
    command that uses it, and never switched to. Exits 2 if anything failed that would stop a run. With --judge
    nothing is looked at but the judge: it is asked about each pair in both orders, and what it says is compared.
    """
    flags = {
        "model": model,
        "base_url": base_url,
        "api": api,
        "judge_model": judge_model,
        "judge_base_url": judge_base_url,
        "judge_api": judge_api,
        "judge_label": judge_label,
        "rubric": rubric,
    }
    if pairs and not judge:
        from harness.core.errors import UsageError

        raise UsageError("--pairs is for --judge, which asks the judge about each pair: add --judge")
    if judge:
        from harness.cli.calibrating import calibrate_command

        calibrate_command(agent=agent, flags=flags, config=config, pairs=pairs, as_json=as_json)
        return
    from harness.cli.examining import doctor_command

    doctor_command(agent=agent, flags=flags, config=config, live=live, ports=ports, as_json=as_json)
