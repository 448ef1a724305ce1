"""The doctor for Python callers: `check_setup`, `check_judge`, `check_planted`; and which judges are asked."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack, cast

from harness.archive.reader import RunReader
from harness.archive.run_info import find_run
from harness.core.errors import JudgeFailed, UsageError, as_spoken
from harness.core.progress import Logged, Progress, Silent, now
from harness.core.python_door import ArgumentRules, awaited_door, like, of_kind
from harness.core.settings import JUDGE_KEY, SETTINGS
from harness.core.settings_sources import environment
from harness.core.settings_types import CommonSettings
from harness.core.sync import in_step
from harness.doctor.calibration import bundled_pairs, calibration_json, calibration_lines, judges_compared_json
from harness.doctor.checks import Check, DoctorRequest
from harness.doctor.free_checks import Findings, run_free_checks
from harness.doctor.live_checks import run_live_checks
from harness.doctor.planted import JudgeToCheck, calibrate, judge_planted, plan_planted
from harness.doctor.recorded_pairs import AnyPair, planted_pairs, read_any_pairs
from harness.pipeline.app_checks import judge_objects
from harness.pipeline.labelling import answer_labels
from harness.pipeline.resolve import member_keys
from harness.pipeline.run_environment import RunEnvironment
from harness.report.json import judges_json
from harness.report.summary.judges import judges_side_by_side
from harness.report.text import SELF_TEST


def _ports(value: Any) -> str | None:
    several = isinstance(value, list | tuple | range)
    fits = several and all(type(port) is int and 0 < port < 65536 for port in cast("Sequence[object]", value))
    return None if fits else "give a list of ports, from 1 to 65535"


_RULES: ArgumentRules = {
    "agent": of_kind(str, Path, instead="give an agent's name or file"),
    "dry_run": of_kind(bool, instead="give True or False"),
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

    `pairs` is a file of your own pairs; None are the packaged ones. Several judges are compared: `judges` holds what
    each comes to, `agreements` how often two name the same side. Of a judge: `judged` of `pairs`; shares (`count` of
    `of`) of what is right, by both orders (`accuracy`) and by each verdict (`single_verdicts`), and of `flips` and
    `first_wins`; `kappa`, `information`, `first_side` (points); `usd` and `seconds` a verdict; `classes`; `failures`
    (how many, by reason); `trials`, one a pair. Without a key the embedded judge is asked, and a note says so.
    Raises UsageError where there is no judge, Refused where the first call is refused, JudgeFailed without a verdict.
    """
    request = _request("search", settings)
    asked = judges_to_check(await run_free_checks(request, None), request)
    labelled = pairs_to_ask(asked, Path(pairs) if pairs is not None else None, request.settings.runs_dir)
    calibrations = [judge.calibration(labelled, request.secrets) for judge in asked]
    watcher = progress or Logged()
    if any(judge.spec.offline for judge in asked):
        watcher.note(SELF_TEST)
    for judge, calibration in zip(asked, calibrations, strict=True):
        await calibrate(judge, request, calibration, watcher)
    if not any(each.verdicts_right.whole for each in calibrations):
        raise JudgeFailed(". ".join(f"{each.judge}: {'; '.join(calibration_lines(each))}" for each in calibrations))
    return calibration_json(calibrations[0]) if len(calibrations) == 1 else judges_compared_json(calibrations)


@partial(awaited_door, rules=_RULES)
async def check_planted(
    run: Any = "last",
    *,
    judge_agent: str | Sequence[str] = (),
    dry_run: bool = False,
    trust_archive: bool = False,
    runs_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Ask the judges of a run about planted pairs, and return what `harness judges --planted --json` prints.

    `run` is a Run, its folder, its id, or `last` in `runs_dir`. With `dry_run` nobody is asked, and the judges, the
    most calls and their cost are returned. Raises UsageError where no judge can be asked, Refused for the first call.
    """
    folder = find_run(str(getattr(run, "path", run)), Path(runs_dir or SETTINGS["runs_dir"].default))
    agents = [judge_agent] if isinstance(judge_agent, str) else judge_agent
    with RunReader(folder) as reader:
        side = judges_side_by_side(reader, reader.rankings(), answer_labels(reader, None))
        ids = [each.ranking for each in side.rankings]
        plan = await plan_planted(reader, ids, agents, environment(), trust_archive=trust_archive)
        if dry_run:
            return plan.as_json()
        planted = await judge_planted(plan, RunEnvironment(environment(), progress=progress or Silent()))
        return {"run": folder.name, "path": str(folder)} | judges_json(replace(side, planted=planted))


check_judge_sync = in_step(check_judge)
check_planted_sync = in_step(check_planted)
check_setup_sync = in_step(check_setup)


def judges_to_check(findings: Findings, request: DoctorRequest) -> list[JudgeToCheck]:
    """Return the judges that the free checks found. Raises UsageError where there is none.

    Models come before agents, and go by a rubric with `evidence: yes` twice: first without what a program found in the
    answers.
    """
    failed = [check for check in findings.checks if check.status == "fail"]
    of_judge = [check for check in failed if check.name in {"judge", "judge key", "rubric"}]
    if findings.judge is None or findings.rubric is None or of_judge:
        reasons = [f"{c.name}: {c.found}" + (f"; {c.do}" if c.do else "") for c in (of_judge or failed)[:1]]
        raise UsageError(as_spoken("".join(reasons)) or "there is no judge; `harness doctor` says why")
    rubric, agents, asked = findings.rubric, findings.judge_agents, list[JudgeToCheck]()
    members = member_keys(findings.judge, request.settings, request.credentials)
    for spec, keys in sorted(members, key=lambda member: member[0].agent is not None):
        if rubric.evidence and not spec.agent:
            asked.append(JudgeToCheck(spec, rubric.model_copy(update={"evidence": False}), keys, agents))
        asked.append(JudgeToCheck(spec, rubric, keys, agents))
    return asked


def pairs_to_ask(asked: Sequence[JudgeToCheck], own: Path | None, runs_dir: Path) -> Sequence[AnyPair]:
    """Return a user's own pairs, else the packaged ones: those without a visible defect where a judge looks further.

    Raises UsageError naming line and fault.
    """
    if own:
        return read_any_pairs(own, runs_dir)
    further = any(judge.spec.agent or judge.rubric.evidence for judge in asked)
    return [*bundled_pairs(), *(planted_pairs() if further else ())]


def _request(agent: str, settings: Mapping[str, Any]) -> DoctorRequest:
    environ = {k: value for k, value in environment().items() if k == JUDGE_KEY or not k.startswith("HARNESS_")}
    agents = judge_objects(settings)
    return DoctorRequest(agent=agent, flags=settings, config=None, environ=environ, clock=now, judge_agents=agents)
