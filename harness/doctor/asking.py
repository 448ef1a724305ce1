"""Asking: one small call for each thing that only an endpoint can tell."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import openai
from agents import ModelSettings, function_tool

from harness.api_errors import failure_of, refused
from harness.archive import MemoryStore
from harness.clock import now
from harness.doctor.asked import Asked
from harness.doctor.checks import Check, from_error, without_secrets
from harness.doctor.looking import Findings
from harness.doctor.probe import PATIENCE_S, Answer, Probe
from harness.doctor.subject import Subject
from harness.errors import HarnessError
from harness.judging import Rubric, Task
from harness.records import Judged, Unjudged
from harness.transcript import Transcript
from harness.wiring import JudgeSpec, make_judge

_FEW, _SOME = 16, 1024
"""Tokens for a word (the Responses API takes no smaller limit), and for a tool call of a model that thinks first."""
_WORD = "Reply with the word ok and nothing else."
_CALL = "Call the function search with the query 'arena'. Do not answer yourself."

_NOBODY = Check("live", "skipped", "there is no model to ask, or what failed above has to be mended first")

_TASK = Task("doctor", "Which is older, Lisp or Python? One sentence.")
_SOUND = Transcript("(no steps)", "Lisp is older: it is from 1958, Python from 1991.")
_WRONG = Transcript("(no steps)", "Python is older.")


@function_tool
def search(query: str) -> str:
    """Search for articles.

    Args:
        query: A few words to look for.
    """
    return f"No results for {query!r}."


def calls_to_make(findings: Findings) -> tuple[int, int]:
    """Return how many calls `ask` makes to the agent's model and to the judge; each refused setting adds one."""
    failed = {c.name for c in findings.checks if c.status == "fail"}
    subject, judge = findings.subject, findings.judge
    agents = 3 + _takes_seed(subject) if subject and not subject.spec.offline else 0
    judges = 1 if judge and findings.rubric and not judge.offline else 0
    return agents * (not failed & {"key"}), judges * (not failed & {"judge key"})


def offer(asked: Asked, findings: Findings) -> Check:
    """Return what stands in the place of the calls where none is to be made."""
    agents, judges = calls_to_make(findings)
    if not agents + judges:
        return _NOBODY
    found = "no model was asked; key, model, temperature, seed, tool calls and the judge's replies are untested"
    count = f"{agents + judges} small calls ({agents} to the agent's model, {judges} to the judge)"
    return without_secrets(
        Check("live", "skipped", found, f"{asked.command('doctor')} --live   # {count}"), asked.secrets
    )


async def ask(asked: Asked, findings: Findings) -> AsyncIterator[Check]:
    """Make the calls and yield what each one shows. Nothing an endpoint does makes this raise."""
    agents, judges = calls_to_make(findings)
    answers = True
    if agents and findings.subject:
        async for check in _ask_agent(asked, findings.subject):
            answers = answers and not (check.name == "reply" and check.status != "ok")
            yield without_secrets(check, asked.secrets)
    if judges and findings.judge and findings.rubric:
        if not answers and _same_place(findings.subject, findings.judge):
            yield Check("judge reply", "skipped", "the same model as the agent's, which did not reply")
        else:
            yield without_secrets(await _ask_judge(asked, findings.judge, findings.rubric), asked.secrets)
    if not agents + judges:
        yield _NOBODY


async def _ask_agent(asked: Asked, subject: Subject) -> AsyncIterator[Check]:
    probe = Probe(subject, asked.settings)
    try:
        first = _reply(subject, await probe.ask(_WORD, ModelSettings(), tokens=_FEW))
        yield first
        if first.status != "ok":
            yield Check("temperature, seed, tool call", "skipped", "not asked, since there was no reply")
            return
        yield _temperature(subject, await probe.ask(_WORD, ModelSettings(temperature=0.0), tokens=_FEW))
        yield await _seed(subject, probe)
        yield _tool_call(subject, await probe.ask(_CALL, ModelSettings(), tokens=_SOME, tools=[search]))
    finally:
        await probe.aclose()


def _reply(subject: Subject, answer: Answer) -> Check:
    if not answer.replied:
        return _trouble("reply", subject, answer)
    told = answer.call.wire.model if answer.call else None
    named = f", and calls itself {told}" if told and told != subject.spec.model else ""
    return Check("reply", "ok", f"{_model(subject)} at {_host(subject)} replied in {answer.took_s:.1f} s{named}")


def _temperature(subject: Subject, answer: Answer) -> Check:
    if not answer.replied:
        return _trouble("temperature", subject, answer)
    if answer.left_out:
        return Check("temperature", "warn", "; ".join(answer.left_out),
                     "name another --model for a greedy anchor, or --strict-temperature to stop there")  # fmt: skip
    return Check("temperature", "ok", "0 is accepted")


async def _seed(subject: Subject, probe: Probe) -> Check:
    if not _takes_seed(subject):
        return Check("seed", "skipped", "only the chat API of an endpoint gets one")
    answer = await probe.ask(_WORD, ModelSettings(), tokens=_FEW, seed=1)
    if not answer.replied:
        return _trouble("seed", subject, answer)
    if answer.left_out:
        return Check("seed", "warn", "; ".join(answer.left_out), "nothing: samples then differ from run to run")
    return Check("seed", "ok", "accepted")


def _tool_call(subject: Subject, answer: Answer) -> Check:
    """A refusal stops only the runs of agents that have functions to call."""
    calls = [item for item in answer.output if item.type == "function_call"]
    mend = "vLLM: --enable-auto-tool-choice --tool-call-parser ...; llama.cpp: --jinja; or a model trained for tools"
    if calls:
        sound = any(c.name == search.name and _is_object(c.arguments) for c in calls)
        return Check("tool call", "ok", "comes back as one") if sound else Check(
            "tool call", "warn", f"comes back as {calls[0].name}({calls[0].arguments})"[:300], mend
        )  # fmt: skip
    if answer.cut:
        return Check("tool call", "warn", f"none within {_SOME} tokens", "a model that thinks less before it acts")
    if answer.replied:
        said = " ".join(" ".join(_texts(answer.output)).split())[:200]
        return Check("tool call", "warn", f"none: the model was told to call a function, and wrote {said!r}", mend)
    trouble = _trouble("tool call", subject, answer)
    status = "fail" if subject.calls_functions and trouble.status == "fail" else "warn"
    return Check("tool call", status, trouble.found, mend)


async def _ask_judge(asked: Asked, spec: JudgeSpec, rubric: Rubric) -> Check:
    """Ask the very judge of a run for a verdict on a tiny pair."""
    patience_s = min(PATIENCE_S, asked.settings.judge_timeout)
    try:
        judge, close = make_judge(spec, rubric, asked.settings, asked.environ, store=MemoryStore(), clock=now)
        try:
            with anyio.fail_after(patience_s):
                return _verdict(await judge(_TASK, _SOUND, _WRONG), rubric)
        finally:
            await close()
    except HarnessError as exc:
        return from_error("judge reply", exc)
    except TimeoutError:
        return _late("judge reply", patience_s)
    except Exception as exc:  # noqa: BLE001 - whatever an endpoint does is a finding
        return _unreadable("judge reply", exc)


def _verdict(verdict: Judged | Unjudged, rubric: Rubric) -> Check:
    if isinstance(verdict, Unjudged):
        failure = verdict.failure
        if failure.kind == "output":
            return Check("judge reply", "fail", f"does not fit rubric {rubric.label}, even when asked again: "
                         f"{failure.message}", "name a stronger judge with --judge-model")  # fmt: skip
        return Check("judge reply", "fail", f"none: {failure.kind}: {failure.message}", "see to the judge's endpoint")
    fits = f"fits rubric {rubric.label}" + (" when asked again" if verdict.repaired else "")
    if verdict.form == "json_schema" and not verdict.repaired:
        return Check("judge reply", "ok", f"json_schema is accepted, and the reply {fits}")
    return Check("judge reply", "warn", f"as {verdict.form}: {fits}",
                 "nothing, unless verdicts fail: then another --judge-model, or a server with json_schema")  # fmt: skip


def _trouble(name: str, subject: Subject, answer: Answer) -> Check:
    exc = answer.error
    match exc:
        case HarnessError():
            return from_error(name, exc)
        case openai.APITimeoutError() | TimeoutError():
            return _late(name, answer.took_s)
        case openai.OpenAIError():
            if refusal := refused(exc, _model(subject), _host(subject)):
                return from_error(name, refusal)
            code = f" ({exc.status_code})" if isinstance(exc, openai.APIStatusError) else ""
            return Check(name, "fail", f"{_host(subject)} failed{code}: {failure_of(exc).message}",
                         "ask again in a while; a run waits and tries again a few times")  # fmt: skip
        case _:
            return _unreadable(name, exc)


def _late(name: str, after_s: float) -> Check:
    return Check(name, "fail", f"no reply within {after_s:.0f} s", "is the model still loading? Ask again")


def _unreadable(name: str, exc: BaseException | None) -> Check:
    said = " ".join(str(exc).split())[:200]
    return Check(name, "fail", f"what came back cannot be used ({type(exc).__name__}: {said})",
                 "is it an OpenAI-compatible address, and is --api right?")  # fmt: skip


def _same_place(subject: Subject | None, judge: JudgeSpec) -> bool:
    agents = subject.spec.endpoint if subject else None
    return bool(subject and agents and subject.spec.model == judge.model and agents.base_url == judge.base_url)


def _takes_seed(subject: Subject | None) -> bool:
    """As in a rollout: no seed on the Responses API, nor without an endpoint."""
    return bool(subject and subject.spec.endpoint and subject.spec.endpoint.api == "chat")


def _model(subject: Subject) -> str:
    return subject.spec.model or type(subject.agent.model).__name__


def _host(subject: Subject) -> str:
    return subject.spec.endpoint.host if subject.spec.endpoint and not subject.own_model else "the agent's endpoint"


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _texts(output: Any) -> list[str]:
    return [part.text for item in output if item.type == "message" for part in item.content if hasattr(part, "text")]
