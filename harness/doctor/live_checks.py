"""The checks that ask a model: one small call for each thing that only an endpoint can tell."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any

import anyio
import openai
from agents import Agent, FunctionTool, ModelSettings, RunConfig, Runner, function_tool
from agents.exceptions import UserError

from harness.archive.store import MemoryStore
from harness.core.errors import HarnessError, counted
from harness.core.rankings import Judged, Unjudged
from harness.core.records import AGENT_FAILURES
from harness.core.settings import Settings
from harness.doctor.checks import Check, DoctorRequest, failed_check, fit_to_print
from harness.doctor.free_checks import CheckedAgent, Findings
from harness.doctor.planted import JudgeToCheck
from harness.endpoints.address import Endpoint
from harness.endpoints.gate import EndpointState, Gate
from harness.endpoints.refused_settings import RefusedSettings, refused_setting
from harness.endpoints.retries import as_refusal, may_succeed_later, read_failure
from harness.judging.judges import PairwiseJudge
from harness.judging.prompt import Task
from harness.judging.rubric import Rubric
from harness.pipeline.resolve import member_keys
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import open_judge_models
from harness.rollouts.graph import reachable
from harness.rollouts.models import RecordedProvider, provider_for, recorded
from harness.rollouts.recorder import RecordedCall, Recorder
from harness.transcripts.transcript import Transcript

PATIENCE_S = 60.0
_OTHER_SERVER = "is it an OpenAI-compatible address, and is --api right?"
_CAPS = ("max_tokens", "max_output_tokens", "max_completion_tokens")


@dataclass(frozen=True)
class ProbeReply:
    """How a call ended."""

    call: RecordedCall | None
    error: BaseException | None
    left_out: tuple[str, ...]
    """What a run would note of settings that were refused."""
    took_s: float

    @property
    def cut(self) -> bool:
        """Whether the reply ended at the limit on its tokens."""
        call = self.call
        return call is not None and (call.wire.finish == "length" or "response.incomplete" in str(call.error))

    @property
    def replied(self) -> bool:
        """Whether the model took the call, which a cut reply shows too."""
        return self.call is not None and (self.call.response is not None or self.cut)

    @property
    def output(self) -> Sequence[Any]:
        """The reply's items."""
        return self.call.response.output if self.call and self.call.response else ()


class ModelProbe:
    """Asks the agent's model as a run would: same endpoint, same settings of the agent, same handling of refusals."""

    def __init__(self, agent: CheckedAgent, settings: Settings) -> None:
        self._agent, self._settings = agent.agent, settings
        self._provider, self._client = provider_for(agent.spec.endpoint, Gate.impatient())
        self._capped = True

    async def ask(
        self,
        prompt: str,
        sampling: ModelSettings,
        *,
        tokens: int,
        tools: Sequence[FunctionTool] = (),
        seed: int | None = None,
    ) -> ProbeReply:
        """Send `prompt` alone; once more without a limit on tokens where the endpoint refuses the limit."""
        notes: list[str] = []
        state = EndpointState(Gate.impatient(), RefusedSettings(notes.append, strict=self._settings.strict_temperature))
        recorder = Recorder(on_reply=lambda: None, state=state, seed=seed)
        bare = Agent[Any](  # with the agent's model and model settings, and nothing else of its own
            self._agent.name,
            instructions="You follow instructions to the letter.",
            tools=list(tools),
            model=self._agent.model,
            model_settings=replace(self._agent.model_settings, tool_choice=None),
            tool_use_behavior="stop_on_first_tool",
        )
        config = RunConfig(
            model=self._settings.model,
            model_provider=RecordedProvider(self._provider, recorder),
            model_settings=replace(sampling, max_tokens=tokens) if self._capped else sampling,
            tracing_disabled=True,
        )
        started, error = anyio.current_time(), None
        try:
            with anyio.fail_after(min(PATIENCE_S, self._settings.timeout)):
                asked = bare.clone(**recorded(bare, recorder))
                await Runner.run(asked, prompt, max_turns=1, run_config=config)
        except Exception as exc:  # noqa: BLE001 - whatever an endpoint does is a failed check
            error = exc
        if self._capped and refused_setting(error, _CAPS) is not None:
            self._capped = False
            return await self.ask(prompt, sampling, tokens=tokens, tools=tools, seed=seed)
        call = recorder.calls[-1] if recorder.calls else None
        took_s = anyio.current_time() - started
        return ProbeReply(call=call, error=error, left_out=tuple(notes), took_s=took_s)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client:
            await self._client.close()


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
            status = exc.status_code if isinstance(exc, openai.APIStatusError) else None
            finding = f"{host} failed{f' ({status})' if status else ''}: {read_failure(exc).message}"
            later = isinstance(exc, openai.RateLimitError) or may_succeed_later(status, no_reply=status is None)
            advice = "ask again in a while; a run waits and tries again a few times" if later else _OTHER_SERVER
            return Check(name, "fail", finding, advice)
        case _:
            return unreadable_reply(name, exc)


def late_reply(name: str, after_s: float, last_error: str | None = None) -> Check:
    """Return the failed check for a reply that did not come within `after_s` seconds, and after which error."""
    why = f"; the last error: {last_error}" if last_error else ""
    return Check(name, "fail", f"no reply within {after_s:.0f} s{why}", "is the model still loading? Ask again")


def unreadable_reply(name: str, exc: BaseException | None) -> Check:
    """Return the failed check for a reply that is not a model's."""
    message = " ".join(str(exc).split())[:200]
    finding = f"what came back is no model's reply ({type(exc).__name__}: {message})"
    return Check(name, "fail", finding, _OTHER_SERVER)


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


async def ask_model(agent: CheckedAgent, settings: Settings) -> AsyncIterator[Check]:
    """Make the calls one after the other; where the first gets no reply the others are not made.

    Of several servers the first gets them, and each of the others one.
    """
    word, greedy = ModelSettings(), ModelSettings(temperature=0.0)
    async with aclosing(ModelProbe(agent, settings)) as probe:
        first = reply_check(agent, await probe.ask(_SAY_OK, word, tokens=_WORD_TOKENS))
        yield first
        if first.status == "fail":
            for name in ("temperature", "seed", "tool call"):
                yield Check(name, "skipped", "not tried, since there was no reply")
        else:
            advice = "name another --model for a greedy anchor, or stop there with --strict-temperature"
            reply = await probe.ask(_SAY_OK, greedy, tokens=_WORD_TOKENS)
            yield accepted_check("temperature", agent, reply, "0 is accepted", advice)
            if agent.takes_seed:
                reply = await probe.ask(_SAY_OK, word, tokens=_WORD_TOKENS, seed=1)
                yield accepted_check("seed", agent, reply, "accepted", "nothing: the samples differ all the same")
            else:
                yield Check("seed", "skipped", "a run sends none here: only the chat API of an endpoint has seeds")
            yield tool_call_check(agent, await probe.ask(_CALL, word, tokens=_CALL_TOKENS, tools=[search]))
    for server in _further(agent):
        there = replace(agent, spec=replace(agent.spec, endpoint=server))
        async with aclosing(ModelProbe(there, settings)) as probe:
            yield reply_check(there, await probe.ask(_SAY_OK, word, tokens=_WORD_TOKENS), "server reply")


def _further(agent: CheckedAgent) -> Sequence[Endpoint]:
    """Return the servers beside the first, where the agent's models are asked at them."""
    return () if agent.has_own_endpoint else agent.spec.servers[1:]


def reply_check(agent: CheckedAgent, reply: ProbeReply, check: str = "reply") -> Check:
    """Say whether the model replies at all, and by which name."""
    if not reply.replied:
        return _failed(check, agent, reply)
    name = reply.call.wire.model if reply.call else None
    named = f", and calls itself {name}" if name and name != agent.spec.model else ""
    return Check(check, "ok", f"{agent.model_name} at {agent.host} replied in {reply.took_s:.1f} s{named}")


def accepted_check(name: str, agent: CheckedAgent, reply: ProbeReply, accepted: str, advice: str) -> Check:
    """Say whether a setting is accepted, and what to do where a run leaves it out."""
    if not reply.replied:
        return _failed(name, agent, reply)
    if reply.left_out and not (name == "temperature" and reply.call and reply.call.settings.temperature == 0):
        return Check(name, "warn", "; ".join(reply.left_out), advice)
    return Check(name, "ok", "; ".join((accepted, *reply.left_out)))


def tool_call_check(agent: CheckedAgent, reply: ProbeReply) -> Check:
    """Say whether the function was called, and what came instead. Fails where the agent cannot do without."""
    calls = [item for item in reply.output if item.type == "function_call"]
    for call in calls:
        with suppress(ValueError, RecursionError):
            if call.name == search.name and isinstance(json.loads(call.arguments), dict):
                return Check("tool call", "ok", "a function is called when it should be")
    if calls:
        finding = f"comes back as {calls[0].name}({calls[0].arguments})"[:300]
        return Check("tool call", "warn", finding, _TOOL_ADVICE)
    if reply.cut:
        finding = f"none within {_CALL_TOKENS} tokens"
        return Check("tool call", "warn", finding, "take a model that thinks less, or see --timeout")
    if reply.replied:
        parts = [part for item in reply.output if item.type == "message" for part in item.content]
        text = " ".join(" ".join(part.text for part in parts if hasattr(part, "text")).split())[:200]
        return Check("tool call", "warn", f"none: told to call a function, the model wrote {text!r}", _TOOL_ADVICE)
    failed = _failed("tool call", agent, reply)
    stops_run = any(  # otherwise no call of a run carries functions
        each.mcp_servers or each.handoffs or any(isinstance(tool, FunctionTool) for tool in each.tools)
        for each in reachable(agent.agent)
    )
    return Check("tool call", "fail" if stops_run else "warn", failed.found, _TOOL_ADVICE)


def _failed(name: str, agent: CheckedAgent, reply: ProbeReply) -> Check:
    return failed_call(name, reply.error, agent.model_name, agent.host, after_s=reply.took_s)


JUDGE_REPLY = "judge reply"
_TASK = Task("doctor", "Which is older, Lisp or Python? One sentence.")
_RIGHT = Transcript("(no steps)", "Lisp is older: it is from 1958, Python from 1991.")
_WRONG = Transcript("(no steps)", "Python is older.")


async def ask_judge(asked: JudgeToCheck, request: DoctorRequest) -> Check:
    """Ask for a verdict. Return the form it came in and whether it fits the rubric."""
    patience_s = min(PATIENCE_S, request.settings.judge_timeout)
    run_env = RunEnvironment(asked.credentials.environ, request.clock)
    try:
        with anyio.fail_after(patience_s):
            parts = asked.spec, request.settings, asked.credentials, MemoryStore(), run_env
            async with open_judge_models(*parts, agents=asked.agents) as (model,):
                verdict = await PairwiseJudge(model, asked.rubric)(_TASK, _RIGHT, _WRONG)
    except HarnessError as exc:
        return failed_check(JUDGE_REPLY, exc)
    except TimeoutError:
        return late_reply(JUDGE_REPLY, patience_s, run_env.gates.last_errors)
    except Exception as exc:  # noqa: BLE001 - whatever an endpoint does is a failed check
        return unreadable_reply(JUDGE_REPLY, exc)
    return verdict_check(verdict, asked.rubric)


def verdict_check(verdict: Judged | Unjudged, rubric: Rubric) -> Check:
    """Return the check that a verdict on the pair stands for."""
    if isinstance(verdict, Unjudged):
        failure = verdict.failure
        if failure.kind == "output":
            finding = f"does not fit rubric {rubric.name}, even when asked again: {failure.message}"
            return Check(JUDGE_REPLY, "fail", finding, "name a stronger judge with --judge-model")
        finding = f"none ({failure.kind}): {failure.message}"
        later = "ask again in a while, or see to the judge's server"
        mends = "name another judge" if failure.kind in AGENT_FAILURES else later
        return Check(JUDGE_REPLY, "fail", finding, mends)
    if verdict.form == "agent":
        return Check(JUDGE_REPLY, "ok", f"the agent's verdict fits rubric {rubric.name}")
    refused = "" if verdict.form == "json_schema" else "json_schema is refused; "
    again = ", when asked again" if verdict.repaired else ""
    finding = f"{refused}{verdict.form} is accepted, and the reply fits rubric {rubric.name}{again}"
    if refused or again:
        return Check(JUDGE_REPLY, "warn", finding, "nothing, unless verdicts fail: then name another --judge-model")
    return Check(JUDGE_REPLY, "ok", finding)


def count_live_calls(findings: Findings) -> tuple[int, int]:
    """Return how many calls `run_live_checks` makes to the agent's model, and how many to the judge.

    More are made only where a call is refused or fails.
    """
    failed = {check.name for check in findings.checks if check.status == "fail"}
    agent, judge = findings.agent, findings.judge
    model_calls = judge_calls = 0
    if agent and not agent.spec.offline and "key" not in failed:
        model_calls = (4 if agent.takes_seed else 3) + len(_further(agent))
    if judge and findings.rubric and "judge key" not in failed:
        judge_calls = sum(not juror.offline for juror in judge.members)
    return model_calls, judge_calls


def offer_live_checks(request: DoctorRequest, findings: Findings) -> Check:
    """Return the check that stands in the place of the calls where they are not made, or nobody is there to ask."""
    models, judges = count_live_calls(findings)
    if not models + judges:
        failed = any(check.status == "fail" for check in findings.checks)
        why = "what failed above has to be mended first" if failed else "there is no model to ask"
        return Check("live", "skipped", why)
    finding = (
        "no model was asked, so key, model, temperature, seed, tool calls and the judge's replies are untested; "
        f"--live makes {counted(models, 'small call')} to the agent's model and {judges} to the judge"
    )
    return fit_to_print(Check("live", "skipped", finding, f"{request.command('doctor')} --live"), request.secrets)


async def run_live_checks(request: DoctorRequest, findings: Findings) -> AsyncIterator[Check]:
    """Make the calls and yield what each one shows. Nothing that an endpoint does makes this raise."""
    models, judges = count_live_calls(findings)
    if not models + judges:
        yield offer_live_checks(request, findings)
    silent = None
    if findings.agent and models:
        async for check in ask_model(findings.agent, request.settings):
            if check.name == "reply" and check.status == "fail":
                silent = findings.agent.spec
            yield fit_to_print(check, request.secrets)
    if findings.judge is None or findings.rubric is None or not judges:
        return
    for juror, credentials in member_keys(findings.judge, request.settings, request.credentials):
        server = silent and silent.endpoint
        if silent and server and (silent.model, server.base_url) == (juror.model, juror.base_url):
            yield Check(JUDGE_REPLY, "skipped", "it is the agent's model, which did not reply")
        elif not juror.offline:
            asked = JudgeToCheck(juror, findings.rubric, credentials, findings.judge_agents)
            yield fit_to_print(await ask_judge(asked, request), request.secrets)
