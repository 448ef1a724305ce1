"""The checks that ask a model: one small call for each thing that only an endpoint can tell."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import anyio
import openai
from agents import ModelSettings, function_tool
from agents.exceptions import UserError

from harness.archive.store import MemoryStore
from harness.core.errors import HarnessError
from harness.core.settings import Settings
from harness.core.verdicts import Judged, Unjudged
from harness.core.wording import counted
from harness.doctor.agent_checks import CheckedAgent
from harness.doctor.checks import Check, DoctorRequest, failed_check, fit_to_print
from harness.doctor.free_checks import Findings
from harness.doctor.model_probe import PATIENCE_S, ModelProbe, ProbeReply
from harness.endpoints.address import Endpoint
from harness.endpoints.credentials import Credentials
from harness.endpoints.errors import as_refusal, read_failure
from harness.judging.judges import PairwiseJudge
from harness.judging.prompt import Task
from harness.judging.rubric import Rubric
from harness.pipeline.resolve import JudgeSpec, member_keys
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import open_judge_models
from harness.transcripts.transcript import Transcript


def failed_call(name: str, exc: BaseException | None, model: str, host: str, *, after_s: float) -> Check:
    """Return the failed check for a call to the agent's model that ended in `exc` after `after_s` seconds."""
    match exc:
        case HarnessError():
            return failed_check(name, exc)
        case UserError():
            return Check(name, "fail", str(exc), "name another --model, or its server with --base-url")
        case openai.APITimeoutError() | TimeoutError():
            return late_reply(name, after_s)
        case openai.OpenAIError():
            if refusal := as_refusal(exc, model, host):
                return failed_check(name, refusal)
            code = f" ({exc.status_code})" if isinstance(exc, openai.APIStatusError) else ""
            finding = f"{host} failed{code}: {read_failure(exc).message}"
            return Check(name, "fail", finding, "ask again in a while; a run waits and tries again a few times")
        case _:
            return unreadable_reply(name, exc)


def late_reply(name: str, after_s: float) -> Check:
    """Return the failed check for a reply that did not come within `after_s` seconds."""
    return Check(name, "fail", f"no reply within {after_s:.0f} s", "is the model still loading? Ask again")


def unreadable_reply(name: str, exc: BaseException | None) -> Check:
    """Return the failed check for a reply that is not a model's."""
    message = " ".join(str(exc).split())[:200]
    finding = f"what came back is no model's reply ({type(exc).__name__}: {message})"
    return Check(name, "fail", finding, "is it an OpenAI-compatible address, and is --api right?")


_WORD_TOKENS = 16
"""Enough for a word; the Responses API takes no lower limit."""
_CALL_TOKENS = 1024
"""Enough for a function call of a model that thinks first."""
_SAY_OK = "Reply with the word ok and nothing else."
_CALL = "Call the function search with the query 'arena'. Do not answer yourself."
_TOOL_ADVICE = (
    "vLLM: --enable-auto-tool-choice --tool-call-parser PARSER; llama.cpp: --jinja; or a model trained for tools"
)


@function_tool
def search(query: str) -> str:
    """Search for articles.

    Args:
        query: A few words to look for.
    """
    return f"No results for {query!r}."


def count_model_calls(agent: CheckedAgent) -> int:
    """Return how many calls `ask_model` makes if nothing is refused."""
    return (4 if agent.takes_seed else 3) + len(_further(agent))


async def ask_model(agent: CheckedAgent, settings: Settings) -> AsyncIterator[Check]:
    """Make the calls one after the other; where the first gets no reply the others are not made.

    Of several servers the first gets them, and each of the others one.
    """
    async for check in _ask_first(agent, settings):
        yield check
    for server in _further(agent):
        there = replace(agent, spec=replace(agent.spec, endpoint=server))
        probe = ModelProbe(there, settings)
        try:
            yield reply_check(there, await probe.ask(_SAY_OK, ModelSettings(), tokens=_WORD_TOKENS), "server reply")
        finally:
            await probe.aclose()


def _further(agent: CheckedAgent) -> Sequence[Endpoint]:
    """Return the servers beside the first, where the agent's models are asked at them."""
    return () if agent.has_own_endpoint else agent.spec.servers[1:]


async def _ask_first(agent: CheckedAgent, settings: Settings) -> AsyncIterator[Check]:
    probe = ModelProbe(agent, settings)
    try:
        first = reply_check(agent, await probe.ask(_SAY_OK, ModelSettings(), tokens=_WORD_TOKENS))
        yield first
        if first.status == "fail":
            for name in ("temperature", "seed", "tool call"):
                yield Check(name, "skipped", "not tried, since there was no reply")
            return
        greedy = ModelSettings(temperature=0.0)
        yield temperature_check(agent, await probe.ask(_SAY_OK, greedy, tokens=_WORD_TOKENS))
        if agent.takes_seed:
            yield seed_check(agent, await probe.ask(_SAY_OK, ModelSettings(), tokens=_WORD_TOKENS, seed=1))
        else:
            yield Check("seed", "skipped", "a run sends none here: only the chat API of an endpoint has seeds")
        yield tool_call_check(agent, await probe.ask(_CALL, ModelSettings(), tokens=_CALL_TOKENS, tools=[search]))
    finally:
        await probe.aclose()


def reply_check(agent: CheckedAgent, reply: ProbeReply, check: str = "reply") -> Check:
    """Say whether the model replies at all, and by which name."""
    if not reply.replied:
        return _failed(check, agent, reply)
    name = reply.call.wire.model if reply.call else None
    named = f", and calls itself {name}" if name and name != agent.spec.model else ""
    return Check(check, "ok", f"{agent.model_name} at {agent.host} replied in {reply.took_s:.1f} s{named}")


def temperature_check(agent: CheckedAgent, reply: ProbeReply) -> Check:
    """Say whether temperature 0, the anchor's, is accepted."""
    if not reply.replied:
        return _failed("temperature", agent, reply)
    if reply.left_out:
        advice = "name another --model for a greedy anchor, or stop there with --strict-temperature"
        return Check("temperature", "warn", "; ".join(reply.left_out), advice)
    return Check("temperature", "ok", "0 is accepted")


def seed_check(agent: CheckedAgent, reply: ProbeReply) -> Check:
    """Say whether a seed is accepted."""
    if not reply.replied:
        return _failed("seed", agent, reply)
    if reply.left_out:
        return Check("seed", "warn", "; ".join(reply.left_out), "nothing: the samples differ all the same")
    return Check("seed", "ok", "accepted")


def tool_call_check(agent: CheckedAgent, reply: ProbeReply) -> Check:
    """Say whether the function was called, and what came instead. Fails where the agent cannot do without."""
    calls = [item for item in reply.output if item.type == "function_call"]
    if any(call.name == search.name and _is_object(call.arguments) for call in calls):
        return Check("tool call", "ok", "a function is called when it should be")
    if calls:
        finding = f"comes back as {calls[0].name}({calls[0].arguments})"[:300]
        return Check("tool call", "warn", finding, _TOOL_ADVICE)
    if reply.cut:
        finding = f"none within {_CALL_TOKENS} tokens"
        return Check("tool call", "warn", finding, "take a model that thinks less, or see --timeout")
    if reply.replied:
        text = " ".join(" ".join(_texts(reply.output)).split())[:200]
        return Check("tool call", "warn", f"none: told to call a function, the model wrote {text!r}", _TOOL_ADVICE)
    failed = _failed("tool call", agent, reply)
    stops_run = agent.offers_functions  # otherwise no call of a run carries functions
    return Check("tool call", "fail" if stops_run else "warn", failed.found, _TOOL_ADVICE)


def _failed(name: str, agent: CheckedAgent, reply: ProbeReply) -> Check:
    return failed_call(name, reply.error, agent.model_name, agent.host, after_s=reply.took_s)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _texts(output: Sequence[Any]) -> list[str]:
    return [part.text for item in output if item.type == "message" for part in item.content if hasattr(part, "text")]


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
    run_env = RunEnvironment(credentials.environ, request.clock)
    async with open_judge_models(spec, request.settings, credentials, MemoryStore(), run_env) as (model,):
        return await PairwiseJudge(model, rubric)(_TASK, _RIGHT, _WRONG)


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
