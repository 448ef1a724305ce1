"""Asking: one small call for each thing that only an endpoint can tell."""

from collections.abc import AsyncIterator

from harness.doctor.agent_checks import Subject
from harness.doctor.checks import Check, fit_to_print
from harness.doctor.free_checks import Findings
from harness.doctor.judge_call import JUDGE_REPLY, ask_judge
from harness.doctor.model_calls import ask_model, number_of_calls
from harness.doctor.request import Asked
from harness.pipeline import JudgeSpec, member_keys


def calls_to_make(findings: Findings) -> tuple[int, int]:
    """Return how many calls `ask` makes to the agent's model and to the judge.

    More are made only where one is refused or fails.
    """
    failed = {c.name for c in findings.checks if c.status == "fail"}
    subject, judge = findings.subject, findings.judge
    asks_model = subject is not None and not subject.spec.offline and "key" not in failed
    asks_judge = judge is not None and findings.rubric is not None and "judge key" not in failed
    judges = [juror for juror in judge.members if not juror.offline] if judge and asks_judge else []
    return number_of_calls(subject) if subject and asks_model else 0, len(judges)


def offer(asked: Asked, findings: Findings) -> Check:
    """Return what stands in the place of the calls where they are not made."""
    models, judges = calls_to_make(findings)
    if not models + judges:
        return _nobody(findings)
    found = (
        "no model was asked, so key, model, temperature, seed, tool calls and the judge's replies are untested; "
        f"--live makes {models} small calls to the agent's model and {judges} to the judge"
    )
    return fit_to_print(Check("live", "skipped", found, f"{asked.command('doctor')} --live"), asked.secrets)


async def ask(asked: Asked, findings: Findings) -> AsyncIterator[Check]:
    """Make the calls and yield what each one shows. Nothing an endpoint does makes this raise."""
    models, judges = calls_to_make(findings)
    subject, judge, rubric, silent = findings.subject, findings.judge, findings.rubric, False
    if not models + judges:
        yield _nobody(findings)
    if subject and models:
        async for check in ask_model(subject, asked.settings):
            silent = silent or (check.name == "reply" and check.status == "fail")
            yield fit_to_print(check, asked.secrets)
    if judge and rubric and judges:
        for juror, environ in member_keys(judge, asked.settings, asked.environ):
            if silent and _same_model(subject, juror):
                yield Check(JUDGE_REPLY, "skipped", "it is the agent's model, which did not reply")
            elif not juror.offline:
                yield fit_to_print(await ask_judge(juror, rubric, asked.settings, environ), asked.secrets)


def _nobody(findings: Findings) -> Check:
    failed = any(c.status == "fail" for c in findings.checks)
    why = "what failed above has to be mended first" if failed else "there is no model to ask"
    return Check("live", "skipped", why)


def _same_model(subject: Subject | None, judge: JudgeSpec) -> bool:
    endpoint = subject.spec.endpoint if subject else None
    return bool(subject and endpoint and subject.spec.model == judge.model and endpoint.base_url == judge.base_url)
