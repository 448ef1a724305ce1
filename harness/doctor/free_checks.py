"""The checks that cost nothing, in the order in which a run settles what they check. No model is asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import HarnessError, UsageError
from harness.core.settings import DEFAULT_RUBRIC
from harness.doctor.agent_checks import CheckedAgent, check_agent, find_agent
from harness.doctor.checks import Check, failed_check, fit_to_print
from harness.doctor.endpoint_checks import endpoint_check, judge_checks, key_check, run_check
from harness.doctor.local_servers import server_checks
from harness.doctor.machine_checks import machine_checks, tracing_check
from harness.doctor.request import DoctorRequest
from harness.endpoints.address import agent_servers
from harness.judging.rubric import Rubric
from harness.judging.rubric_files import load_rubric
from harness.pipeline.resolve import JudgeSpec
from harness.rollouts.loading import NoSuchAgent


@dataclass(frozen=True)
class Findings:
    """What the free checks found. What is None could not be settled; a failed check says why."""

    checks: tuple[Check, ...]
    agent: CheckedAgent | None = None
    judge: JudgeSpec | None = None
    rubric: Rubric | None = None


async def run_free_checks(request: DoctorRequest, ports: Sequence[int]) -> Findings:
    """Check the machine, the agent, its endpoint and its judge, and look for model servers at `ports`.

    Raises UsageError for settings that cannot be read; everything else that is wrong is a failed check.
    """
    checks = machine_checks()
    loaded, agent, judge, rubric, endpoint = None, None, None, None, None
    try:
        servers = () if request.settings.offline else agent_servers(request.settings, request.credentials)
    except UsageError as exc:
        checks.append(failed_check("endpoint", exc))
    else:
        endpoint = next(iter(servers), None)
        loaded = find_agent(request, Path.cwd())
        if isinstance(loaded, HarnessError):
            agent, of_agent = None, [failed_check("agent", loaded)]
        else:
            agent, of_agent = await check_agent(request, loaded)
        judge, of_judge = judge_checks(request, agent)
        rubric, of_rubric = _check_rubric(request, agent)
        checks += [*of_agent, tracing_check()]
        checks += [*(endpoint_check(request, server) for server in servers or (None,)), key_check(request, endpoint)]
        checks += [*of_judge, of_rubric]
    failed = [check.name for check in checks if check.status == "fail"]
    checks.append(run_check(request, failed, agent, judge, runs_elsewhere=not isinstance(loaded, NoSuchAgent)))
    checks += await server_checks(request, ports, endpoint, agent.spec.model if agent else None)
    printed = tuple(fit_to_print(check, request.secrets) for check in checks)
    return Findings(checks=printed, agent=agent, judge=judge, rubric=rubric)


def _check_rubric(request: DoctorRequest, agent: CheckedAgent | None) -> tuple[Rubric | None, Check]:
    of_agent = agent.spec.loaded.rubric if agent else None
    try:
        rubric = load_rubric(request.settings.rubric or of_agent or DEFAULT_RUBRIC)
    except UsageError as exc:
        return None, failed_check("rubric", exc)
    return rubric, Check("rubric", "ok", rubric.label)
