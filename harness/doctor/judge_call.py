"""The call to the judge: the very judge of a run, its rubric and its prompt, on a tiny pair."""

from collections.abc import Mapping

import anyio

from harness.archive import MemoryStore
from harness.core.clock import now
from harness.core.errors import HarnessError
from harness.core.settings import Settings
from harness.core.verdicts import Judged, Unjudged
from harness.doctor.checks import Check, from_error
from harness.doctor.failed_calls import late, unreadable
from harness.doctor.model_probe import PATIENCE_S
from harness.judging import Rubric, Task
from harness.pipeline import JudgeSpec, make_judge
from harness.transcripts import Transcript

JUDGE_REPLY = "judge reply"
_TASK = Task("doctor", "Which is older, Lisp or Python? One sentence.")
_SOUND = Transcript("(no steps)", "Lisp is older: it is from 1958, Python from 1991.")
_WRONG = Transcript("(no steps)", "Python is older.")


async def ask_judge(spec: JudgeSpec, rubric: Rubric, settings: Settings, environ: Mapping[str, str]) -> Check:
    """Ask for a verdict, and tell in which form it came and whether it fits the rubric."""
    patience_s = min(PATIENCE_S, settings.judge_timeout)
    try:
        with anyio.fail_after(patience_s):
            return _told(await _verdict(spec, rubric, settings, environ), rubric)
    except HarnessError as exc:
        return from_error(JUDGE_REPLY, exc)
    except TimeoutError:
        return late(JUDGE_REPLY, patience_s)
    except Exception as exc:  # noqa: BLE001 - whatever an endpoint does is a finding
        return unreadable(JUDGE_REPLY, exc)


async def _verdict(
    spec: JudgeSpec, rubric: Rubric, settings: Settings, environ: Mapping[str, str]
) -> Judged | Unjudged:
    judge, close = make_judge(spec, rubric, settings, environ, store=MemoryStore(), clock=now)
    try:
        return await judge(_TASK, _SOUND, _WRONG)
    finally:
        await close()


def _told(verdict: Judged | Unjudged, rubric: Rubric) -> Check:
    if isinstance(verdict, Unjudged):
        return _failed(verdict, rubric)
    refused = "" if verdict.form == "json_schema" else "json_schema is refused; "
    again = ", when asked again" if verdict.repaired else ""
    found = f"{refused}{verdict.form} is accepted, and the reply fits rubric {rubric.name}{again}"
    if refused or again:
        return Check(JUDGE_REPLY, "warn", found, "nothing, unless verdicts fail: then name another --judge-model")
    return Check(JUDGE_REPLY, "ok", found)


def _failed(verdict: Unjudged, rubric: Rubric) -> Check:
    failure = verdict.failure
    if failure.kind == "output":
        found = f"does not fit rubric {rubric.name}, even when asked again: {failure.message}"
        return Check(JUDGE_REPLY, "fail", found, "name a stronger judge with --judge-model")
    return Check(
        JUDGE_REPLY,
        "fail",
        f"none ({failure.kind}): {failure.message}",
        "ask again in a while, or see to the judge's server",
    )
