"""The doctor for Python callers: `await harness.check_setup(...)` and `await harness.check_judge(...)`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack, cast

from harness.core.errors import UsageError, as_spoken, option
from harness.core.progress import Progress, Silent, now
from harness.core.python_door import ArgumentRules, awaited_door, like, of_kind
from harness.core.settings import JUDGE_KEY
from harness.core.settings_sources import environment
from harness.core.settings_types import CommonSettings
from harness.core.sync import in_step
from harness.doctor.calibration import Calibration, bundled_pairs, calibrate, calibration_json
from harness.doctor.checks import Check, DoctorRequest
from harness.doctor.free_checks import Findings, run_free_checks
from harness.doctor.live_checks import run_live_checks
from harness.formats.labelled_pairs import read_pairs
from harness.judging.rubric import Rubric
from harness.pipeline.resolve import JudgeSpec


def _ports(value: Any) -> str | None:
    several = isinstance(value, list | tuple | range)
    fits = several and all(type(port) is int and 0 < port < 65536 for port in cast("Sequence[object]", value))
    return None if fits else "give a list of ports, from 1 to 65535"


_RULES: ArgumentRules = {
    "agent": of_kind(str, Path, instead="give an agent's name or file"),
    "live": of_kind(bool, instead="give True or False"),
    "ports": _ports,
    "pairs": of_kind(str, Path, instead="give a file of pairs", optional=True),
    "progress": like(Progress, "an object with the methods of"),
}


@partial(awaited_door, rules=_RULES)
async def check_setup(
    agent: str | Path = "search", *, live: bool = False, ports: Sequence[int] = (), **settings: Unpack[CommonSettings]
) -> list[Check]:
    """Check what a run would use and whether it would work, as `harness doctor` does; `fail` would stop a run.

    `agent` is what --agent takes. With `live` the models are asked too, one small call for each thing that only they
    can tell. `ports` are those of this machine to look for model servers at. Raises UsageError for settings that
    cannot be read.
    """
    request = _request(str(agent), settings)
    findings = await run_free_checks(request, ports)
    live_checks = [check async for check in run_live_checks(request, findings)] if live else []
    checks = (*findings.checks, *live_checks)
    return [replace(check, found=as_spoken(check.found), do=check.do and as_spoken(check.do)) for check in checks]


@partial(awaited_door, rules=_RULES)
async def check_judge(
    pairs: str | Path | None = None, *, progress: Progress | None = None, **settings: Unpack[CommonSettings]
) -> dict[str, Any]:
    """Ask the judge about pairs with known answers, and return what `harness doctor --judge --json` prints.

    `pairs` is a file of your own pairs; None are the packaged ones. Raises UsageError where there is no judge, Refused
    where the first call is refused.
    """
    labelled = bundled_pairs() if pairs is None else read_pairs(Path(pairs))
    request = _request("search", settings)
    spec, rubric = judge_to_check(await run_free_checks(request, None))
    calibration = Calibration(spec.model, rubric.label, pairs=labelled, secrets=request.secrets)
    await calibrate(spec, rubric, request, calibration, progress or Silent())
    return calibration_json(calibration)


check_judge_sync = in_step(check_judge)
check_setup_sync = in_step(check_setup)


def judge_to_check(findings: Findings) -> tuple[JudgeSpec, Rubric]:
    """Return the one judge that the free checks found, and its rubric. Raises UsageError where there is none."""
    failed = [check for check in findings.checks if check.status == "fail"]
    of_judge = [check for check in failed if check.name in {"judge", "judge key", "rubric"}]
    if findings.judge is None or findings.rubric is None or of_judge:
        reasons = [f"{c.name}: {c.found}" + (f"; {c.do}" if c.do else "") for c in (of_judge or failed)[:1]]
        raise UsageError(as_spoken("".join(reasons)) or "there is no judge; `harness doctor` says why")
    if findings.judge.jurors:
        raise UsageError(f"one judge is measured at a time: give one {option('judge_model')}")
    return findings.judge, findings.rubric


def _request(agent: str, settings: Mapping[str, Any]) -> DoctorRequest:
    environ = {k: value for k, value in environment().items() if k == JUDGE_KEY or not k.startswith("HARNESS_")}
    return DoctorRequest(agent=agent, flags=settings, config=None, environ=environ, clock=now)
