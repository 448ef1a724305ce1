"""The calls to the agent's model: does it reply, does it take temperature and seed, does it call a function."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from agents import ModelSettings, function_tool

from harness.core.settings import Settings
from harness.doctor.agent_checks import Subject
from harness.doctor.checks import Check
from harness.doctor.failed_calls import trouble
from harness.doctor.model_probe import Answer, Probe

_FEW, _MORE = 16, 1024
"""Tokens for a word (the Responses API takes no lower limit), and for the call of a model that thinks first."""
_SAY_OK = "Reply with the word ok and nothing else."
_CALL = "Call the function search with the query 'arena'. Do not answer yourself."
_MEND = "vLLM: --enable-auto-tool-choice --tool-call-parser PARSER; llama.cpp: --jinja; or a model trained for tools"


@function_tool
def search(query: str) -> str:
    """Search for articles.

    Args:
        query: A few words to look for.
    """
    return f"No results for {query!r}."


def number_of_calls(subject: Subject) -> int:
    """Return how many calls `ask_model` makes if nothing is refused."""
    return 4 if subject.takes_seed else 3


async def ask_model(subject: Subject, settings: Settings) -> AsyncIterator[Check]:
    """Make the calls one after the other; where the first gets no reply the others are not made."""
    probe = Probe(subject, settings)
    try:
        reply = _reply(subject, await probe.ask(_SAY_OK, ModelSettings(), tokens=_FEW))
        yield reply
        if reply.status == "fail":
            for name in ("temperature", "seed", "tool call"):
                yield Check(name, "skipped", "not tried, since there was no reply")
            return
        yield _temperature(subject, await probe.ask(_SAY_OK, ModelSettings(temperature=0.0), tokens=_FEW))
        yield await _seed(subject, probe)
        yield _tool_call(subject, await probe.ask(_CALL, ModelSettings(), tokens=_MORE, tools=[search]))
    finally:
        await probe.aclose()


def _reply(subject: Subject, answer: Answer) -> Check:
    if not answer.replied:
        return _trouble("reply", subject, answer)
    told = answer.call.wire.model if answer.call else None
    named = f", and calls itself {told}" if told and told != subject.spec.model else ""
    return Check("reply", "ok", f"{subject.model_name} at {subject.host} replied in {answer.took_s:.1f} s{named}")


def _temperature(subject: Subject, answer: Answer) -> Check:
    if not answer.replied:
        return _trouble("temperature", subject, answer)
    if answer.left_out:
        return Check(
            "temperature",
            "warn",
            "; ".join(answer.left_out),
            "name another --model for a greedy anchor, or stop there with --strict-temperature",
        )
    return Check("temperature", "ok", "0 is accepted")


async def _seed(subject: Subject, probe: Probe) -> Check:
    if not subject.takes_seed:
        return Check("seed", "skipped", "a run sends none here: only the chat API of an endpoint has seeds")
    answer = await probe.ask(_SAY_OK, ModelSettings(), tokens=_FEW, seed=1)
    if not answer.replied:
        return _trouble("seed", subject, answer)
    if answer.left_out:
        return Check("seed", "warn", "; ".join(answer.left_out), "nothing: the samples differ all the same")
    return Check("seed", "ok", "accepted")


def _tool_call(subject: Subject, answer: Answer) -> Check:
    calls = [item for item in answer.output if item.type == "function_call"]
    if any(c.name == search.name and _is_object(c.arguments) for c in calls):
        return Check("tool call", "ok", "a function is called when it should be")
    if calls:
        return Check("tool call", "warn", f"comes back as {calls[0].name}({calls[0].arguments})"[:300], _MEND)
    if answer.cut:
        return Check(
            "tool call", "warn", f"none within {_MORE} tokens", "take a model that thinks less, or see --timeout"
        )
    if answer.replied:
        said = " ".join(" ".join(_texts(answer.output)).split())[:200]
        return Check("tool call", "warn", f"none: told to call a function, the model wrote {said!r}", _MEND)
    failed = _trouble("tool call", subject, answer)
    stops = subject.calls_functions  # otherwise no call of a run carries functions
    return Check("tool call", "fail" if stops else "warn", failed.found, _MEND)


def _trouble(name: str, subject: Subject, answer: Answer) -> Check:
    return trouble(name, answer.error, subject.model_name, subject.host, after_s=answer.took_s)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _texts(output: Sequence[Any]) -> list[str]:
    return [part.text for item in output if item.type == "message" for part in item.content if hasattr(part, "text")]
