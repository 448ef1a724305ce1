"""The call to the judge: the same judge, rubric and prompt as in a run, on a tiny pair."""

import anyio

from harness.archive.memory_store import MemoryStore
from harness.core.errors import HarnessError
from harness.core.verdicts import Judged, Unjudged
from harness.doctor.checks import Check, failed_check
from harness.doctor.failed_calls import late_reply, unreadable_reply
from harness.doctor.model_probe import PATIENCE_S
from harness.doctor.request import DoctorRequest
from harness.endpoints.credentials import Credentials
from harness.judging.prompt import Task
from harness.judging.rubric import Rubric
from harness.pipeline.resolve import JudgeSpec
from harness.pipeline.stages import open_judge
from harness.pipeline.surroundings import Surroundings
from harness.transcripts.transcript import Transcript

JUDGE_REPLY = "judge reply"
_TASK = Task("doctor", "Which is older, Lisp or Python? One sentence.")
_RIGHT = Transcript("(no steps)", "Lisp is older: it is from 1958, Python from 1991.")
_WRONG = Transcript("(no steps)", "Python is older.")


async def ask_judge(spec: JudgeSpec, rubric: Rubric, request: DoctorRequest, credentials: Credentials) -> Check:
    """Ask for a verdict with the key in `credentials`. Return the form it came in and whether it fits the rubric."""
    patience_s = min(PATIENCE_S, request.settings.judge_timeout)
    try:
        with anyio.fail_after(patience_s):
            return verdict_check(await _verdict(spec, rubric, request, credentials), rubric)
    except HarnessError as exc:
        return failed_check(JUDGE_REPLY, exc)
    except TimeoutError:
        return late_reply(JUDGE_REPLY, patience_s)
    except Exception as exc:  # noqa: BLE001 - whatever an endpoint does is a failed check
        return unreadable_reply(JUDGE_REPLY, exc)


async def _verdict(
    spec: JudgeSpec, rubric: Rubric, request: DoctorRequest, credentials: Credentials
) -> Judged | Unjudged:
    surroundings = Surroundings(credentials.environ, request.clock)
    async with open_judge(spec, rubric, request.settings, credentials, MemoryStore(), surroundings) as judge:
        return await judge(_TASK, _RIGHT, _WRONG)


def verdict_check(verdict: Judged | Unjudged, rubric: Rubric) -> Check:
    """Return the check that a verdict on the pair stands for."""
    if isinstance(verdict, Unjudged):
        return _failed_verdict(verdict, rubric)
    refused = "" if verdict.form == "json_schema" else "json_schema is refused; "
    again = ", when asked again" if verdict.repaired else ""
    finding = f"{refused}{verdict.form} is accepted, and the reply fits rubric {rubric.name}{again}"
    if refused or again:
        return Check(JUDGE_REPLY, "warn", finding, "nothing, unless verdicts fail: then name another --judge-model")
    return Check(JUDGE_REPLY, "ok", finding)


def _failed_verdict(verdict: Unjudged, rubric: Rubric) -> Check:
    failure = verdict.failure
    if failure.kind == "output":
        finding = f"does not fit rubric {rubric.name}, even when asked again: {failure.message}"
        return Check(JUDGE_REPLY, "fail", finding, "name a stronger judge with --judge-model")
    finding = f"none ({failure.kind}): {failure.message}"
    return Check(JUDGE_REPLY, "fail", finding, "ask again in a while, or see to the judge's server")
