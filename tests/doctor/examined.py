"""The doctor asked in this process: what it checks, for a run with given flags and environment."""

from collections.abc import Sequence
from pathlib import Path

from harness.doctor.checks import Check, DoctorRequest
from harness.doctor.free_checks import Findings, run_free_checks
from harness.doctor.live_checks import run_live_checks
from tests.builders import AT
from tests.fake_endpoint import FakeEndpoint, Refuse, Say, Script

KEY = "sk-proj-4f9A77q2Zx81"
LIVE = ("reply", "temperature", "seed", "tool call", "judge reply")


def a_request(
    agent: str = "search", *, environ: dict[str, str] | None = None, config: Path | None = None, **flags: object
) -> DoctorRequest:
    return DoctorRequest(agent=agent, flags=flags, config=config, environ=environ or {}, clock=lambda: AT)


def at(endpoint: FakeEndpoint, **more: str) -> dict[str, str]:
    """The environment of a user of `endpoint`."""
    return {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": KEY, **more}


async def found_for_free(request: DoctorRequest, ports: Sequence[int] = ()) -> dict[str, Check]:
    """The free checks by name."""
    return by_name((await run_free_checks(request, ports)).checks)


async def found_live(request: DoctorRequest) -> dict[str, Check]:
    """The free and the live checks by name."""
    findings: Findings = await run_free_checks(request, ())
    return by_name([*findings.checks, *[check async for check in run_live_checks(request, findings)]])


def by_name(checks: Sequence[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def failed(checks: dict[str, Check]) -> bool:
    """Whether the command would end with exit code 2."""
    return any(check.status == "fail" for check in checks.values())


def refusing(field: str, refusal: Refuse) -> Script:
    """Refuses requests with a field, and says ok to the others."""
    return lambda seen: refusal if field in seen.body else Say("ok")
