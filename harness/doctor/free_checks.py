"""Looking: everything that can be told without asking a model, in the order in which a run settles it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import UsageError
from harness.doctor.agent_checks import Subject, look_at_agent
from harness.doctor.checks import Check, fit_to_print, from_error
from harness.doctor.endpoints import endpoint_check, judge_checks, key_check, run_check
from harness.doctor.local import server_checks
from harness.doctor.machine import machine_checks, tracing_check
from harness.doctor.request import Asked
from harness.endpoints import agent_endpoint
from harness.judging import Rubric, load_rubric
from harness.pipeline import JudgeSpec


@dataclass(frozen=True)
class Findings:
    """What was found for free. What is None could not be settled; a failed check says why."""

    checks: tuple[Check, ...]
    subject: Subject | None = None
    judge: JudgeSpec | None = None
    rubric: Rubric | None = None


async def look(asked: Asked, ports: Sequence[int]) -> Findings:
    """Look at the machine, the agent, its endpoint and its judge, and for servers at `ports`. No model is asked.

    Raises UsageError for settings that cannot be read; all else that is wrong is a failed check.
    """
    checks = machine_checks()
    subject, judge, rubric, endpoint = None, None, None, None
    try:
        endpoint = None if asked.settings.offline else agent_endpoint(asked.settings, asked.environ)
    except UsageError as exc:
        checks.append(from_error("endpoint", exc))
    else:
        subject, seen = await look_at_agent(asked, Path.cwd())
        judge, heard = judge_checks(asked, subject)
        rubric, read = _rubric(asked)
        checks += [*seen, tracing_check(), endpoint_check(asked, endpoint), key_check(asked, endpoint), *heard, read]
    checks.append(run_check(asked, [c.name for c in checks if c.status == "fail"], subject, judge))
    checks += await server_checks(asked, ports, endpoint, subject.spec.model if subject else None)
    return Findings(tuple(fit_to_print(c, asked.secrets) for c in checks), subject, judge, rubric)


def _rubric(asked: Asked) -> tuple[Rubric | None, Check]:
    try:
        rubric = load_rubric(asked.settings.rubric)
    except UsageError as exc:
        return None, from_error("rubric", exc)
    return rubric, Check("rubric", "ok", rubric.label)
