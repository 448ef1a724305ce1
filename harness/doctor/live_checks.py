"""The checks that ask a model: one small call for each thing that only an endpoint can tell."""

from collections.abc import AsyncIterator

from harness.core.plurals import counted
from harness.doctor.agent_checks import CheckedAgent
from harness.doctor.checks import Check, fit_to_print
from harness.doctor.free_checks import Findings
from harness.doctor.judge_call import JUDGE_REPLY, ask_judge
from harness.doctor.model_calls import ask_model, count_model_calls
from harness.doctor.request import DoctorRequest
from harness.pipeline.resolve import JudgeSpec, member_keys


def count_live_calls(findings: Findings) -> tuple[int, int]:
    """Return how many calls `run_live_checks` makes to the agent's model, and how many to the judge.

    More are made only where a call is refused or fails.
    """
    failed = {check.name for check in findings.checks if check.status == "fail"}
    agent, judge = findings.agent, findings.judge
    model_calls = judge_calls = 0
    if agent and not agent.spec.offline and "key" not in failed:
        model_calls = count_model_calls(agent)
    if judge and findings.rubric and "judge key" not in failed:
        judge_calls = sum(not juror.offline for juror in judge.members)
    return model_calls, judge_calls


def offer_live_checks(request: DoctorRequest, findings: Findings) -> Check:
    """Return the check that stands in the place of the calls where they are not made."""
    models, judges = count_live_calls(findings)
    if not models + judges:
        return _nobody_to_ask(findings)
    finding = (
        "no model was asked, so key, model, temperature, seed, tool calls and the judge's replies are untested; "
        f"--live makes {counted(models, 'small call')} to the agent's model and {judges} to the judge"
    )
    return fit_to_print(Check("live", "skipped", finding, f"{request.command('doctor')} --live"), request.secrets)


async def run_live_checks(request: DoctorRequest, findings: Findings) -> AsyncIterator[Check]:
    """Make the calls and yield what each one shows. Nothing that an endpoint does makes this raise."""
    models, judges = count_live_calls(findings)
    if not models + judges:
        yield _nobody_to_ask(findings)
    silent = None
    if findings.agent and models:
        async for check in ask_model(findings.agent, request.settings):
            if check.name == "reply" and check.status == "fail":
                silent = findings.agent
            yield fit_to_print(check, request.secrets)
    if judges:
        async for check in _ask_judges(request, findings, silent):
            yield fit_to_print(check, request.secrets)


async def _ask_judges(request: DoctorRequest, findings: Findings, silent: CheckedAgent | None) -> AsyncIterator[Check]:
    """Ask each judge, but for one that is the model of an agent that was `silent` just before."""
    if findings.judge is None or findings.rubric is None:
        return
    for juror, credentials in member_keys(findings.judge, request.settings, request.credentials):
        if silent and _same_model(silent, juror):
            yield Check(JUDGE_REPLY, "skipped", "it is the agent's model, which did not reply")
        elif not juror.offline:
            yield await ask_judge(juror, findings.rubric, request, credentials)


def _nobody_to_ask(findings: Findings) -> Check:
    failed = any(check.status == "fail" for check in findings.checks)
    why = "what failed above has to be mended first" if failed else "there is no model to ask"
    return Check("live", "skipped", why)


def _same_model(agent: CheckedAgent, judge: JudgeSpec) -> bool:
    endpoint = agent.spec.endpoint
    return endpoint is not None and agent.spec.model == judge.model and endpoint.base_url == judge.base_url
